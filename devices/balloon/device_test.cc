#include "devices/balloon/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <thread>
#include <vector>

#include "vmm/base/checked.h"
#include "vmm/virtio/testing/fake_driver.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace sluice::balloon {
namespace {

using memory::GuestAddress;
using ::testing::HasSubstr;
using virtio::testing::FakeDriver;

constexpr uint64_t kRamBytes = 16 << 20;
constexpr uint64_t kFree = 8 << 20;  // RAM from here on is nobody's
constexpr uint64_t kAll = kFeatureStats | kFeatureDeflateOnOom | kFeaturePagePoison | kFeaturePageReporting;

template <typename T>
std::vector<uint8_t> Bytes(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> Stat(StatTag tag, uint64_t value) {
  std::vector<uint8_t> bytes(kStatBytes);
  std::memcpy(bytes.data(), &tag, 2);
  std::memcpy(bytes.data() + 2, &value, 8);
  return bytes;
}

class BalloonTest : public ::testing::Test, private virtio::Interrupt {
 protected:
  void SetUp() override { Create({}); }

  void Create(BalloonOptions options, uint64_t features = kAll) {
    options.loop = &loop_;
    options.on_stats = [this](const GuestStats& stats) { said_.push_back(stats); };
    auto device = BalloonDevice::Create(std::move(options));
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    Start(features);
  }

  void Start(uint64_t features = kAll) {
    drivers_.clear();
    virtio::Activation activation;
    activation.memory = ram_;
    activation.features = (features & device_->features()) | virtio::kFeatureVersion1;
    activation.interrupt = this;
    const auto sizes = device_->queue_max_sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      drivers_.push_back(*FakeDriver::Create(ram_, {.size = sizes[i],
                                                    .rings = GuestAddress(0x10000 * (i + 1)),
                                                    .buffers = GuestAddress(0x100000 * (i + 1)),
                                                    .buffer_bytes = 0x100000}));
      activation.queues.push_back(*virtio::Queue::Create(ram_, drivers_.back().layout()));
    }
    ASSERT_TRUE(device_->Activate(std::move(activation)).ok());
  }

  // Sends one request and lets the device work. True: it was answered.
  bool Send(uint16_t queue, absl::Span<const uint8_t> bytes) {
    EXPECT_TRUE(drivers_[queue].Chain().Readable(bytes).Submit().ok());
    Notify(queue);
    return drivers_[queue].Collect().has_value();
  }
  bool Report(uint16_t queue, uint64_t address, uint32_t bytes) {
    EXPECT_TRUE(drivers_[queue].Chain().Raw(address, bytes, virtio::kDescWrite).Submit().ok());
    Notify(queue);
    return drivers_[queue].Collect().has_value();
  }
  void Notify(uint16_t queue) {
    device_->QueueNotified(queue);
    loop_.restart();
    loop_.poll();
  }
  BalloonConfig Config() {
    std::vector<uint8_t> bytes(sizeof(BalloonConfig));
    device_->ReadConfig(0, absl::MakeSpan(bytes));
    BalloonConfig config;
    std::memcpy(&config, bytes.data(), sizeof(config));
    return config;
  }
  void FillFree() { ASSERT_TRUE(ram_.Fill(GuestAddress(kFree), 0xaa, 1 << 20).ok()); }
  uint8_t At(uint64_t address) { return ram_.Read<uint8_t>(GuestAddress(address)).value_or(0xff); }

  asio::io_context loop_;
  memory::GuestMemory ram_ = *memory::GuestMemory::CreateSimple(kRamBytes);
  std::unique_ptr<BalloonDevice> device_;
  std::vector<FakeDriver> drivers_;
  std::vector<GuestStats> said_;
  int generations_ = 0;
  int config_interrupts_ = 0;
  std::vector<uint16_t> interrupts_;
  bool needs_reset_ = false;

 private:
  void SignalQueue(uint16_t index) override { interrupts_.push_back(index); }
  void BumpConfigGeneration() override { ++generations_; }
  void SignalConfig() override { ++config_interrupts_; }
  void SetNeedsReset() override { needs_reset_ = true; }
};

TEST_F(BalloonTest, OffersWhatItsOptionsSay) {
  EXPECT_EQ(device_->device_id(), 5);
  EXPECT_EQ(device_->features(), kAll);
  EXPECT_EQ(device_->queue_max_sizes().size(), 5u);
  Create({.deflate_on_oom = false, .page_reporting = false});
  EXPECT_EQ(device_->features(), kFeatureStats | kFeaturePagePoison);
  EXPECT_THAT(std::string(BalloonDevice::Create({}).status().message()), HasSubstr("no event loop"));
}

// --------------------------------------------------------------------------------------------- target and actual

TEST_F(BalloonTest, ATargetReachesTheDriver) {
  ASSERT_TRUE(device_->SetTarget((64 << 20) + 123).ok());
  EXPECT_EQ(Config().num_pages, 16384u);
  EXPECT_EQ(device_->target_bytes(), 64u << 20);
  EXPECT_EQ(generations_, 1);
  EXPECT_EQ(config_interrupts_, 1);
  EXPECT_FALSE(device_->SetTarget(uint64_t{16} << 40).ok());
  EXPECT_EQ(device_->target_bytes(), 64u << 20);
}

TEST_F(BalloonTest, ATargetIsKeptWhileNobodyListensAndOverResets) {
  device_->Reset();
  ASSERT_TRUE(device_->SetTarget(8192).ok());
  EXPECT_EQ(config_interrupts_, 0);
  Start();
  EXPECT_EQ(Config().num_pages, 2u);
}

TEST_F(BalloonTest, TheDriverSaysHowMuchItGave) {
  device_->WriteConfig(offsetof(BalloonConfig, actual), Bytes<uint32_t>({100}));
  EXPECT_EQ(device_->actual_bytes(), 100 * kPageSize);
  device_->Reset();
  EXPECT_EQ(device_->actual_bytes(), 0u);
}

TEST_F(BalloonTest, OtherFieldsCannotBeWritten) {
  ASSERT_TRUE(device_->SetTarget(8192).ok());
  device_->WriteConfig(0, Bytes<uint32_t>({7}));
  device_->WriteConfig(8, Bytes<uint32_t>({7}));
  device_->WriteConfig(4, std::vector<uint8_t>(2, 7));
  device_->WriteConfig(2, std::vector<uint8_t>(8, 7));
  EXPECT_EQ(Config().num_pages, 2u);
  EXPECT_EQ(Config().actual, 0u);
  EXPECT_EQ(Config().free_page_hint_cmd_id, 0u);
  std::vector<uint8_t> past(8, 0xff);
  device_->ReadConfig(12, absl::MakeSpan(past));
  EXPECT_EQ(past, std::vector<uint8_t>(8, 0));
}

// --------------------------------------------------------------------------------------------- inflate and deflate

TEST_F(BalloonTest, InflatedPagesAreGivenBack) {
  FillFree();
  const uint32_t first = kFree / kPageSize;
  EXPECT_TRUE(Send(kInflateQueue, Bytes<uint32_t>({first + 2, first, first + 1, first + 9})));
  for (const uint64_t page : {0, 1, 2, 9}) EXPECT_EQ(At(kFree + page * kPageSize), 0) << page;
  for (const uint64_t page : {3, 8, 10}) EXPECT_EQ(At(kFree + page * kPageSize), 0xaa) << page;
  EXPECT_EQ(device_->counters().inflated_pages, 4u);
  EXPECT_EQ(interrupts_, std::vector<uint16_t>{kInflateQueue});
}

TEST_F(BalloonTest, PagesThatAreNoRamAreRefused) {
  EXPECT_TRUE(Send(kInflateQueue, Bytes<uint32_t>({kRamBytes / kPageSize, UINT32_MAX, 0x80000000})));
  EXPECT_EQ(device_->counters().inflated_pages, 0u);
  EXPECT_EQ(device_->counters().refused_pages, 3u);
  EXPECT_FALSE(needs_reset_);
}

TEST_F(BalloonTest, ARequestMayNameOnlySoManyPages) {
  FillFree();
  std::vector<uint32_t> pfns(5000, UINT32_MAX);
  pfns[4999] = kFree / kPageSize;
  EXPECT_TRUE(Send(kInflateQueue, Bytes(pfns)));
  EXPECT_EQ(At(kFree), 0xaa);
  EXPECT_GE(device_->counters().refused_pages, 904u);
}

TEST_F(BalloonTest, OddRequestsAreAnswered) {
  EXPECT_TRUE(Send(kInflateQueue, std::vector<uint8_t>{1, 2, 3}));
  ASSERT_TRUE(drivers_[kInflateQueue].Chain().Writable(8).Submit().ok());
  Notify(kInflateQueue);
  EXPECT_TRUE(drivers_[kInflateQueue].Collect().has_value());
  EXPECT_EQ(device_->counters().inflated_pages, 0u);
}

TEST_F(BalloonTest, DeflatingIsCountedAndThePagesAreThere) {
  const uint32_t first = kFree / kPageSize;
  EXPECT_TRUE(Send(kInflateQueue, Bytes<uint32_t>({first})));
  EXPECT_TRUE(Send(kDeflateQueue, Bytes<uint32_t>({first, UINT32_MAX})));
  EXPECT_EQ(device_->counters().deflated_pages, 2u);
  ASSERT_TRUE(ram_.Write<uint8_t>(GuestAddress(kFree), 9).ok());
  EXPECT_EQ(At(kFree), 9);
}

TEST_F(BalloonTest, ManyRequestsAreHandledInTurns) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(drivers_[kInflateQueue].Chain().Readable(Bytes<uint32_t>({2048})).Submit().ok());
  }
  device_->QueueNotified(kInflateQueue);
  EXPECT_LT(drivers_[kInflateQueue].used_idx(), 100);
  loop_.restart();
  loop_.poll();
  EXPECT_EQ(drivers_[kInflateQueue].used_idx(), 100);
}

// ------------------------------------------------------------------------------------------------ free-page reporting

TEST_F(BalloonTest, ReportedPagesAreGivenBack) {
  FillFree();
  EXPECT_TRUE(Report(kReportingQueue, kFree + kPageSize, 3 * kPageSize));
  EXPECT_EQ(At(kFree), 0xaa);
  EXPECT_EQ(At(kFree + kPageSize), 0);
  EXPECT_EQ(At(kFree + 4 * kPageSize - 1), 0);
  EXPECT_EQ(At(kFree + 4 * kPageSize), 0xaa);
  EXPECT_EQ(device_->counters().reported_pages, 3u);
}

TEST_F(BalloonTest, DriversThatCountQueuesWithoutGapsReportToo) {
  FillFree();
  EXPECT_TRUE(Report(3, kFree, kPageSize));
  EXPECT_EQ(At(kFree), 0);
  device_->Reset();
  Start(kFeaturePageReporting);
  EXPECT_TRUE(Report(2, kFree + kPageSize, kPageSize));
  EXPECT_EQ(At(kFree + kPageSize), 0);
}

TEST_F(BalloonTest, WithoutTheFeatureNobodyReports) {
  FillFree();
  device_->Reset();
  Start(kFeatureStats);
  for (const uint16_t queue : {3, 4}) EXPECT_FALSE(Report(queue, kFree, kPageSize));
  EXPECT_EQ(At(kFree), 0xaa);
}

// Section 5.5.6.7: with PAGE_POISON, a reported page's content must not change to anything but poison_val.
TEST_F(BalloonTest, PagesThatMustKeepAPatternAreKept) {
  FillFree();
  device_->WriteConfig(offsetof(BalloonConfig, poison_val), Bytes<uint32_t>({0xaaaaaaaa}));
  EXPECT_TRUE(Report(kReportingQueue, kFree, kPageSize));
  EXPECT_EQ(At(kFree), 0xaa);
  device_->WriteConfig(offsetof(BalloonConfig, poison_val), Bytes<uint32_t>({0}));
  EXPECT_TRUE(Report(kReportingQueue, kFree, kPageSize));
  EXPECT_EQ(At(kFree), 0);
}

// --------------------------------------------------------------------------------------------------------- statistics

TEST_F(BalloonTest, StatisticsComeWhenAskedFor) {
  EXPECT_EQ(device_->RequestStats().code(), absl::StatusCode::kFailedPrecondition);
  // What a driver sends first is kept until the device wants more.
  EXPECT_FALSE(Send(kStatsQueue, Stat(StatTag::kFreeMemory, 1000)));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0].free_bytes, 1000u);
  EXPECT_FALSE(said_[0].total_bytes.has_value());

  ASSERT_TRUE(device_->RequestStats().ok());
  EXPECT_EQ(interrupts_, std::vector<uint16_t>{kStatsQueue});
  EXPECT_TRUE(drivers_[kStatsQueue].Collect().has_value());
  EXPECT_EQ(device_->RequestStats().code(), absl::StatusCode::kFailedPrecondition);
  std::vector<uint8_t> both = Stat(StatTag::kTotalMemory, 5000);
  for (const uint8_t byte : Stat(StatTag::kMajorFaults, 3)) both.push_back(byte);
  EXPECT_FALSE(Send(kStatsQueue, both));
  ASSERT_TRUE(device_->stats().has_value());
  EXPECT_EQ(device_->stats()->total_bytes, 5000u);
  EXPECT_EQ(device_->stats()->major_faults, 3u);
}

TEST_F(BalloonTest, ADriverThatSendsStatisticsUnaskedGetsTheOlderBufferBack) {
  EXPECT_FALSE(Send(kStatsQueue, Stat(StatTag::kFreeMemory, 1)));
  EXPECT_TRUE(Send(kStatsQueue, Stat(StatTag::kFreeMemory, 2)));
  EXPECT_EQ(device_->stats()->free_bytes, 2u);
  ASSERT_TRUE(device_->RequestStats().ok());
}

TEST_F(BalloonTest, AResetForgetsTheDriversBuffer) {
  EXPECT_FALSE(Send(kStatsQueue, Stat(StatTag::kFreeMemory, 1)));
  device_->Reset();
  EXPECT_FALSE(device_->RequestStats().ok());
  Start();
  EXPECT_FALSE(device_->RequestStats().ok());
}

TEST(ParseStatsTest, KnowsEveryTagSkipsOthersAndStopsAtTheEnd) {
  std::vector<uint8_t> bytes;
  for (uint16_t tag = 0; tag < 12; ++tag) {
    for (const uint8_t byte : Stat(static_cast<StatTag>(tag), tag + 100)) bytes.push_back(byte);
  }
  bytes.resize(bytes.size() + 9, 0);
  const GuestStats stats = ParseStats(bytes);
  EXPECT_EQ(stats.swap_in_bytes, 100u);
  EXPECT_EQ(stats.swap_out_bytes, 101u);
  EXPECT_EQ(stats.major_faults, 102u);
  EXPECT_EQ(stats.minor_faults, 103u);
  EXPECT_EQ(stats.free_bytes, 104u);
  EXPECT_EQ(stats.total_bytes, 105u);
  EXPECT_EQ(stats.available_bytes, 106u);
  EXPECT_EQ(stats.disk_cache_bytes, 107u);
  EXPECT_EQ(stats.huge_allocations, 108u);
  EXPECT_EQ(stats.huge_failures, 109u);
  EXPECT_FALSE(ParseStats({}).free_bytes.has_value());
}

// ------------------------------------------------------------------------------------------------------- misbehaviour

TEST_F(BalloonTest, ABrokenRingNeedsAReset) {
  drivers_[kDeflateQueue].SetAvailIdx(1000);
  device_->QueueNotified(kDeflateQueue);
  EXPECT_TRUE(needs_reset_);
}

TEST_F(BalloonTest, QueuesThatDoNotExistAreIgnored) {
  device_->QueueNotified(5);
  device_->QueueNotified(0xffff);
  device_->Reset();
  device_->QueueNotified(0);
}

TEST_F(BalloonTest, VcpusMayUseTheConfigurationWhileTheHostSetsTargets) {
  std::thread vcpu([this] {
    std::vector<uint8_t> bytes(16);
    for (uint32_t i = 0; i < 5000; ++i) {
      device_->ReadConfig(0, absl::MakeSpan(bytes));
      device_->WriteConfig(4, Bytes<uint32_t>({i}));
    }
  });
  for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(device_->SetTarget(i * kPageSize).ok());
  vcpu.join();
  EXPECT_EQ(device_->actual_bytes(), 4999 * kPageSize);
}

TEST_F(BalloonTest, WorksBehindItsPciTransport) {
  auto device = BalloonDevice::Create({.loop = &loop_});
  ASSERT_TRUE(device.ok());
  BalloonDevice* balloon = device->get();
  virtio::testing::TaskQueue tasks;
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(device), {.name = "balloon", .memory = ram_, .notifier = &notifier, .post = tasks.poster()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  virtio::testing::FakePciDriver pci(transport->get(), &tasks);
  ASSERT_TRUE(pci.Start(virtio::kFeatureVersion1 | kAll, ram_, {16, 16, 16}).ok());
  ASSERT_TRUE(balloon->SetTarget(1 << 20).ok());
  EXPECT_EQ(pci.ReadBar(virtio::kRegisterBar, virtio::kDeviceConfigOffset, 4), 256u);
  EXPECT_EQ(notifier.signals(0), 1u);
  pci.WriteBar(virtio::kRegisterBar, virtio::kDeviceConfigOffset + 4, 4, 5);
  EXPECT_EQ(balloon->actual_bytes(), 5 * kPageSize);
  ASSERT_TRUE(pci.queue(0).Chain().Readable(Bytes<uint32_t>({kFree / kPageSize})).Submit().ok());
  pci.Notify(0);
  EXPECT_TRUE(pci.queue(0).Collect().has_value());
  EXPECT_EQ(balloon->counters().inflated_pages, 1u);
}

}  // namespace
}  // namespace sluice::balloon
