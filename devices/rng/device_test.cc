#include "devices/rng/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include "vmm/virtio/testing/fake_driver.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace sluice::rng {
namespace {

using ::testing::HasSubstr;
using virtio::testing::Completion;
using virtio::testing::FakeDriver;

class RngTest : public ::testing::Test, private virtio::Interrupt {
 protected:
  void Create(RngOptions options = {}) {
    options.loop = &loop_;
    auto device = RngDevice::Create(std::move(options));
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    Start();
  }

  void Start() {
    driver_.emplace(*FakeDriver::Create(ram_, {.size = 64}));
    virtio::Activation activation;
    activation.memory = ram_;
    activation.features = virtio::kFeatureVersion1;
    activation.interrupt = this;
    activation.queues.push_back(*virtio::Queue::Create(ram_, driver_->layout()));
    ASSERT_TRUE(device_->Activate(std::move(activation)).ok());
  }

  void Ask(uint32_t bytes) {
    ASSERT_TRUE(driver_->Chain().Writable(bytes).Submit().ok());
    device_->QueueNotified(0);
  }

  // The next answer, within 10 s.
  std::optional<Completion> Wait() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      if (auto done = driver_->Collect()) return done;
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  }

  asio::io_context loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  memory::GuestMemory ram_ = *memory::GuestMemory::CreateSimple(8 << 20);
  std::unique_ptr<RngDevice> device_;
  std::optional<FakeDriver> driver_;
  int interrupts_ = 0;
  bool needs_reset_ = false;

 private:
  void SignalQueue(uint16_t) override { ++interrupts_; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override {}
  void SetNeedsReset() override { needs_reset_ = true; }
};

TEST_F(RngTest, IsAnEntropyDeviceWithOneQueue) {
  Create();
  EXPECT_EQ(device_->device_id(), 4);
  EXPECT_EQ(device_->queue_max_sizes().size(), 1u);
  EXPECT_EQ(device_->features(), 0u);
  std::vector<uint8_t> config(4, 0xff);
  device_->ReadConfig(0, absl::MakeSpan(config));
  EXPECT_EQ(config, std::vector<uint8_t>(4, 0));
}

TEST_F(RngTest, FillsABufferWithNumbersThatDiffer) {
  Create();
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 20; ++i) {
    Ask(32);
    const auto done = Wait();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->written, 32u);
    EXPECT_TRUE(seen.insert(done->data).second) << "the same 32 bytes twice";
  }
  EXPECT_EQ(device_->bytes_given(), 640u);
  EXPECT_GE(interrupts_, 1);
}

TEST_F(RngTest, ABufferMayLieInPieces) {
  Create({.source = [](absl::Span<uint8_t> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<uint8_t>(i);
    return absl::OkStatus();
  }});
  ASSERT_TRUE(driver_->Chain().Writable(3).Writable(1).Writable(6).Indirect().Submit().ok());
  device_->QueueNotified(0);
  const auto done = Wait();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->data, (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(RngTest, ALargeBufferIsFilledInPart) {
  Create();
  Ask(100'000);
  const auto done = Wait();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->written, kMaxBytes);
  EXPECT_EQ(*ram_.Read<uint8_t>(memory::GuestAddress(0x100000 + kMaxBytes)), 0xaa) << "more was written than said";
}

TEST_F(RngTest, ABufferWithoutRoomComesBackEmpty) {
  Create();
  ASSERT_TRUE(driver_->Chain().Readable(std::vector<uint8_t>(8, 1)).Submit().ok());
  device_->QueueNotified(0);
  const auto done = Wait();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->written, 0u);
}

TEST_F(RngTest, TheRateIsKeptAndEveryRequestAnswered) {
  Create({.bytes = {.per_second = 100'000, .burst = 1000}});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) Ask(1000);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Wait().has_value()) << i;
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(75));
}

TEST_F(RngTest, ManyRequestsAreAnsweredInTurns) {
  Create({.bytes = {}});
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(driver_->Chain().Writable(16).Submit().ok());
  device_->QueueNotified(0);
  EXPECT_LT(driver_->used_idx(), 64) << "the loop was kept for all of them";
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(Wait().has_value()) << i;
}

TEST_F(RngTest, ASourceThatHasNothingYetIsAskedAgain) {
  int calls = 0;
  Create({.source = [&calls](absl::Span<uint8_t> to) {
    std::fill(to.begin(), to.end(), 0x42);
    return ++calls < 3 ? absl::UnavailableError("not yet") : absl::OkStatus();
  }});
  Ask(4);
  EXPECT_EQ(driver_->used_idx(), 0);
  const auto done = Wait();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->data, std::vector<uint8_t>(4, 0x42));
  EXPECT_EQ(calls, 3);
}

TEST_F(RngTest, ABrokenRingNeedsAReset) {
  Create();
  driver_->SetAvailIdx(1000);
  device_->QueueNotified(0);
  EXPECT_TRUE(needs_reset_);
}

TEST_F(RngTest, AfterAResetNothingOfBeforeIsAnswered) {
  Create({.bytes = {.per_second = 1000, .burst = 10}});
  Ask(100);
  Ask(100);
  Ask(100);
  device_->Reset();
  Start();
  loop_.restart();
  loop_.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(driver_->used_idx(), 0);
  Ask(1);
  EXPECT_TRUE(Wait().has_value());
}

TEST_F(RngTest, MayGoWhileATimerRuns) {
  Create({.bytes = {.per_second = 10, .burst = 1}});
  Ask(10);
  Ask(10);
  device_.reset();
  loop_.restart();
  loop_.poll();
}

TEST(RngDeviceTest, RefusesToWorkWithoutLoopOrSource) {
  EXPECT_THAT(std::string(RngDevice::Create({}).status().message()), HasSubstr("no event loop"));
  asio::io_context loop;
  EXPECT_THAT(std::string(RngDevice::Create({.loop = &loop, .source = nullptr}).status().message()),
              HasSubstr("no source"));
}

TEST(HostEntropyTest, FillsAnySize) {
  for (const size_t size : {0, 1, 255, 257, 4096}) {
    std::vector<uint8_t> bytes(size);
    EXPECT_TRUE(HostEntropy(absl::MakeSpan(bytes)).ok());
    if (size >= 255) {
      EXPECT_GT(std::set<uint8_t>(bytes.begin(), bytes.end()).size(), 50u);
    }
  }
}

TEST(RngDeviceTest, WorksBehindItsPciTransport) {
  asio::io_context loop;
  auto device = RngDevice::Create({.loop = &loop});
  ASSERT_TRUE(device.ok());
  auto ram = memory::GuestMemory::CreateSimple(8 << 20);
  ASSERT_TRUE(ram.ok());
  virtio::testing::TaskQueue tasks;
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(device), {.name = "rng", .memory = *ram, .notifier = &notifier, .post = tasks.poster()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  virtio::testing::FakePciDriver pci(transport->get(), &tasks);
  ASSERT_TRUE(pci.Start(virtio::kFeatureVersion1 | virtio::kFeatureEventIdx, *ram, {16}).ok());
  ASSERT_TRUE(pci.queue(0).Chain().Writable(64).Submit().ok());
  pci.Notify(0);
  const auto done = pci.queue(0).Collect();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->written, 64u);
  EXPECT_EQ(notifier.signals(1), 1u);
}

}  // namespace
}  // namespace sluice::rng
