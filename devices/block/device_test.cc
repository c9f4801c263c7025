#include "devices/block/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "devices/block/testing/block_driver.h"
#include "devices/block/testing/fake_disk.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace sluice::block {
namespace {

using testing::BlockDriver;
using ::testing::ElementsAre;
using testing::FakeDisk;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kAllFeatures;
using testing::kNoStatus;
using testing::Result;
using testing::Ticket;

constexpr uint64_t kSectors = 2048;
constexpr uint64_t kDiskBytes = kSectors * kSectorBytes;

std::vector<uint8_t> Pattern(size_t bytes, uint8_t seed = 1) {
  std::vector<uint8_t> pattern(bytes);
  std::iota(pattern.begin(), pattern.end(), seed);
  return pattern;
}

// A device over a FakeDisk, and its driver.
struct Rig {
  explicit Rig(BlockOptions options = {}, uint64_t features = kAllFeatures, bool read_only = false) {
    auto fake = std::make_unique<FakeDisk>(kDiskBytes, read_only);
    disk = fake.get();
    options.disk = std::move(fake);
    driver = std::make_unique<BlockDriver>(std::move(options), features);
  }
  uint8_t Status(Ticket ticket) {
    const auto result = driver->Wait(ticket);
    return result.has_value() ? result->status : kNoStatus;
  }
  FakeDisk* disk;
  std::unique_ptr<BlockDriver> driver;
};

// ------------------------------------------------------------------------------------------------------- the offer

TEST(BlockDeviceTest, OffersWhatTheDiskCanDo) {
  BlockOptions options;
  options.queues = 4;
  options.queue_size = 128;
  options.block_size = 4096;
  Rig rig(std::move(options));
  const uint64_t features = rig.driver->device().features();
  EXPECT_EQ(features, kAllFeatures & ~kFeatureReadOnly);
  const BlockConfig config = rig.driver->Config();
  EXPECT_EQ(config.capacity, kSectors);
  EXPECT_EQ(config.seg_max, 126u);
  EXPECT_EQ(config.size_max, 4u << 20);
  EXPECT_EQ(config.blk_size, 4096u);
  EXPECT_EQ(config.num_queues, 4);
  EXPECT_EQ(config.writeback, 1);
  EXPECT_GT(config.max_discard_seg, 0u);
  EXPECT_EQ(rig.driver->device().queue_max_sizes().size(), 4u);
  EXPECT_EQ(rig.driver->device().device_id(), 2);
}

TEST(BlockDeviceTest, AReadOnlyDiskOffersNothingThatWrites) {
  Rig rig({}, kAllFeatures, /*read_only=*/true);
  const uint64_t features = rig.driver->device().features();
  EXPECT_NE(features & kFeatureReadOnly, 0u);
  EXPECT_EQ(features & (kFeatureDiscard | kFeatureWriteZeroes | kFeatureMultiQueue), 0u);
}

TEST(BlockDeviceTest, ConfigurationEndsWhereItEnds) {
  Rig rig;
  std::vector<uint8_t> bytes(8, 0xff);
  rig.driver->device().ReadConfig(sizeof(BlockConfig) - 4, absl::MakeSpan(bytes));
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 4, bytes.end()), std::vector<uint8_t>(4, 0));
  rig.driver->device().ReadConfig(UINT64_MAX, absl::MakeSpan(bytes));
  EXPECT_EQ(bytes, std::vector<uint8_t>(8, 0));
}

TEST(BlockDeviceTest, OptionsOutOfRangeAreRefusedWithTheReason) {
  asio::io_context loop;
  const auto create = [&](const std::function<void(BlockOptions&)>& change, uint64_t bytes = kDiskBytes) {
    BlockOptions options;
    options.loop = &loop;
    options.name = "root";
    options.disk = std::make_unique<FakeDisk>(bytes);
    change(options);
    return std::string(BlockDevice::Create(std::move(options)).status().message());
  };
  EXPECT_EQ(create([](BlockOptions&) {}), "");
  EXPECT_THAT(create([](BlockOptions& o) { o.loop = nullptr; }), HasSubstr("\"root\": no event loop"));
  EXPECT_THAT(create([](BlockOptions& o) { o.disk = nullptr; }), HasSubstr("no disk"));
  EXPECT_THAT(create([](BlockOptions& o) { o.serial = std::string(21, 'x'); }), HasSubstr("serial"));
  EXPECT_THAT(create([](BlockOptions& o) { o.serial = "a\n"; }), HasSubstr("serial"));
  EXPECT_THAT(create([](BlockOptions& o) { o.queues = 0; }), HasSubstr("queues"));
  EXPECT_THAT(create([](BlockOptions& o) { o.queues = 17; }), HasSubstr("queues"));
  EXPECT_THAT(create([](BlockOptions& o) { o.queue_size = 100; }), HasSubstr("power of two"));
  EXPECT_THAT(create([](BlockOptions& o) { o.queue_size = 2; }), HasSubstr("power of two"));
  EXPECT_THAT(create([](BlockOptions& o) { o.block_size = 8192; }), HasSubstr("block size"));
  EXPECT_THAT(create([](BlockOptions& o) { o.threads = 0; }), HasSubstr("threads"));
  EXPECT_THAT(create([](BlockOptions& o) { o.max_in_flight = 0; }), HasSubstr("in flight"));
  EXPECT_THAT(create([](BlockOptions& o) { o.segment_bytes = 512; }), HasSubstr("4096"));
  EXPECT_THAT(create([](BlockOptions& o) { o.block_size = 4096; }, 2048), HasSubstr("shorter than a block"));
  EXPECT_THAT(create([](BlockOptions& o) { o.engine = EngineKind::kUring; }), HasSubstr("file descriptor"));
  EXPECT_EQ(create([](BlockOptions& o) { o.engine = EngineKind::kAuto; }), "");
}

TEST(BlockDeviceTest, ATailThatIsNoWholeBlockIsOutOfReach) {
  asio::io_context loop;
  BlockOptions options;
  options.loop = &loop;
  options.block_size = 4096;
  options.disk = std::make_unique<FakeDisk>(3 * 4096 + 1000);
  auto device = BlockDevice::Create(std::move(options));
  ASSERT_TRUE(device.ok()) << device.status();
  std::vector<uint8_t> capacity(8);
  (*device)->ReadConfig(0, absl::MakeSpan(capacity));
  EXPECT_EQ(capacity[0], 24);
}

// ------------------------------------------------------------------------------------------------ reads and writes

TEST(BlockDeviceTest, WhatWasWrittenIsRead) {
  Rig rig;
  const std::vector<uint8_t> bytes = Pattern(3 * 512);
  const auto write = rig.driver->Wait(rig.driver->Write(7, bytes));
  ASSERT_TRUE(write.has_value());
  EXPECT_EQ(write->status, kStatusOk);
  EXPECT_EQ(write->used, 1u);
  EXPECT_EQ(rig.disk->Contents(7 * 512, bytes.size()), bytes);
  const auto read = rig.driver->Wait(rig.driver->Read(7, 3 * 512));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->status, kStatusOk);
  EXPECT_EQ(read->data, bytes);
  EXPECT_EQ(read->used, bytes.size() + 1);
  EXPECT_GE(rig.driver->interrupts(), 2u);
  const BlockStats& stats = rig.driver->device().stats();
  EXPECT_EQ(stats.reads, 1u);
  EXPECT_EQ(stats.writes, 1u);
  EXPECT_EQ(stats.read_bytes, 1536u);
  EXPECT_EQ(stats.written_bytes, 1536u);
  EXPECT_EQ(stats.errors, 0u);
}

TEST(BlockDeviceTest, DataMayLieInAnyPieces) {
  Rig rig;
  const std::vector<uint8_t> bytes = Pattern(1024);
  const std::vector<std::vector<uint8_t>> odd = {
      {bytes.begin(), bytes.begin() + 3}, {bytes.begin() + 3, bytes.begin() + 900}, {bytes.begin() + 900, bytes.end()}};
  EXPECT_EQ(rig.Status(rig.driver->Send({kTypeOut, 0, 0}, odd, {})), kStatusOk);
  for (const bool indirect : {false, true}) {
    const auto read = rig.driver->Wait(rig.driver->Send({kTypeIn, 0, 0}, {}, {1, 511, 500, 12}, 0, indirect));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->status, kStatusOk);
    EXPECT_EQ(read->data, bytes);
  }
}

// Section 2.7.4: the device makes no assumption on how a request is cut into descriptors.
TEST(BlockDeviceTest, HeaderDataAndStatusMayShareDescriptors) {
  Rig rig;
  auto& queue = rig.driver->queue(0);
  const std::vector<uint8_t> bytes = Pattern(512, 77);
  RequestHeader header = {kTypeOut, 0, 3};
  std::vector<uint8_t> request(sizeof(header));
  std::memcpy(request.data(), &header, sizeof(header));
  request.insert(request.end(), bytes.begin(), bytes.end());
  const auto status = queue.Allocate(1);
  ASSERT_TRUE(status.ok());
  auto write = queue.Chain();
  write.Readable(absl::MakeConstSpan(request).subspan(0, 5));
  write.Readable(absl::MakeConstSpan(request).subspan(5));
  write.Raw(rig.driver->kFreeRam, 1, virtio::kDescWrite);
  const Ticket first = {0, *write.Submit()};
  rig.driver->Watch(first, rig.driver->kFreeRam);
  rig.driver->device().QueueNotified(0);
  EXPECT_EQ(rig.Status(first), kStatusOk);

  header.type = kTypeIn;
  auto read = queue.Chain();
  read.ReadableObject(header);
  read.Raw(rig.driver->kFreeRam, 513, virtio::kDescWrite);
  const Ticket second = {0, *read.Submit()};
  rig.driver->Watch(second, rig.driver->kFreeRam + 512);
  rig.driver->device().QueueNotified(0);
  EXPECT_EQ(rig.Status(second), kStatusOk);
  std::vector<uint8_t> back(512);
  ASSERT_TRUE(rig.driver->ram().CopyFrom(memory::GuestAddress(rig.driver->kFreeRam), absl::MakeSpan(back)).ok());
  EXPECT_EQ(back, bytes);
}

TEST(BlockDeviceTest, WhatIsNotOnTheDiskIsAnError) {
  Rig rig;
  EXPECT_EQ(rig.Status(rig.driver->Read(kSectors - 1, 512)), kStatusOk);
  for (const uint64_t sector : {kSectors - 1, kSectors, uint64_t{1} << 55, UINT64_MAX, UINT64_MAX - 1}) {
    EXPECT_EQ(rig.Status(rig.driver->Read(sector, 1024)), kStatusIoError) << sector;
    EXPECT_EQ(rig.Status(rig.driver->Write(sector, Pattern(1024))), kStatusIoError) << sector;
  }
  EXPECT_EQ(rig.disk->Log().size(), 1u);
  EXPECT_EQ(rig.driver->device().stats().errors, 10u);
}

TEST(BlockDeviceTest, DataAreWholeSectors) {
  Rig rig;
  for (const uint32_t bytes : {1u, 511u, 513u, 4095u}) {
    EXPECT_EQ(rig.Status(rig.driver->Read(0, bytes)), kStatusIoError) << bytes;
    EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(bytes))), kStatusIoError) << bytes;
  }
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
}

TEST(BlockDeviceTest, ATransferOfNothingSucceedsOnTheDiskOnly) {
  Rig rig;
  EXPECT_EQ(rig.Status(rig.driver->Send({kTypeIn, 0, kSectors}, {}, {})), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Send({kTypeOut, 0, kSectors + 1}, {}, {})), kStatusIoError);
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
}

TEST(BlockDeviceTest, LimitsThatTheDriverWasToldOfHold) {
  BlockOptions options;
  options.queue_size = 8;  // 6 pieces
  options.segment_bytes = 4096;
  Rig rig(std::move(options));
  EXPECT_EQ(rig.Status(rig.driver->Send({kTypeIn, 0, 0}, {}, std::vector<uint32_t>(6, 512))), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Send({kTypeIn, 0, 0}, {}, std::vector<uint32_t>(7, 512), 0, /*indirect=*/true)),
            kStatusIoError);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 4096)), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 4096 + 512)), kStatusIoError);
}

TEST(BlockDeviceTest, RequestsTooShortForAHeaderAreErrors) {
  Rig rig;
  auto& queue = rig.driver->queue(0);
  for (const size_t bytes : {0, 1, 15}) {
    auto chain = queue.Chain();
    if (bytes > 0) chain.Readable(Pattern(bytes));
    chain.Raw(rig.driver->kFreeRam, 1, virtio::kDescWrite);
    const Ticket ticket = {0, *chain.Submit()};
    rig.driver->Watch(ticket, rig.driver->kFreeRam);
    rig.driver->device().QueueNotified(0);
    EXPECT_EQ(rig.Status(ticket), kStatusIoError) << bytes;
  }
}

TEST(BlockDeviceTest, ARequestWithoutRoomForItsStatusComesBackEmpty) {
  Rig rig;
  ASSERT_TRUE(rig.driver->queue(0).Chain().ReadableObject(RequestHeader{kTypeFlush, 0, 0}).Submit().ok());
  rig.driver->device().QueueNotified(0);
  const auto done = rig.driver->queue(0).Collect();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->written, 0u);
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
}

TEST(BlockDeviceTest, UnknownRequestsAreUnsupported) {
  Rig rig;
  for (const uint32_t type : {2u, 3u, 5u, 10u, 14u, 16u, 0xffffffffu}) {
    EXPECT_EQ(rig.Status(rig.driver->Send({type, 0, 0}, {}, {512})), kStatusUnsupported) << type;
  }
}

TEST(BlockDeviceTest, GetIdSaysTheSerialNumber) {
  BlockOptions options;
  options.serial = "vol-0a1b";
  Rig rig(std::move(options));
  const auto id = rig.driver->Wait(rig.driver->GetId());
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->status, kStatusOk);
  EXPECT_EQ(std::string(id->data.begin(), id->data.end()), std::string("vol-0a1b") + std::string(12, '\0'));
  EXPECT_EQ(id->used, 21u);
  const auto shorter = rig.driver->Wait(rig.driver->GetId(4));
  ASSERT_TRUE(shorter.has_value());
  EXPECT_EQ(std::string(shorter->data.begin(), shorter->data.end()), "vol-");
}

TEST(BlockDeviceTest, AReadOnlyDiskIsNotWritten) {
  Rig rig({}, kAllFeatures, /*read_only=*/true);
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(512))), kStatusIoError);
  EXPECT_NE(rig.Status(rig.driver->Ranges(kTypeDiscard, {{0, 1, 0}})), kStatusOk);
  EXPECT_NE(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{0, 1, 0}})), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 512)), kStatusOk);
}

TEST(BlockDeviceTest, AHostErrorIsTheRequestsAloneAndDataAreNotClaimed) {
  Rig rig;
  rig.disk->FailNext(absl::InternalError("EIO"));
  const auto failed = rig.driver->Wait(rig.driver->Read(0, 512));
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->status, kStatusIoError);
  EXPECT_EQ(failed->used, 0u);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 512)), kStatusOk);
  EXPECT_FALSE(rig.driver->needs_reset());
}

TEST(BlockDeviceTest, ABrokenRingNeedsAReset) {
  Rig rig;
  rig.driver->queue(0).SetAvailIdx(1000);
  rig.driver->device().QueueNotified(0);
  EXPECT_TRUE(rig.driver->needs_reset());
  rig.driver->Reset();
  rig.driver->Start(kAllFeatures);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 512)), kStatusOk);
}

// -------------------------------------------------------------------------------------------------------- durability

TEST(BlockDeviceTest, WithAFlushWritesAreCached) {
  Rig rig;
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(512))), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Flush()), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), ElementsAre("write 0+512", "flush"));
}

TEST(BlockDeviceTest, AFailedFlushIsToldTheGuest) {
  Rig rig;
  rig.disk->FailNext(absl::InternalError("EIO"));
  EXPECT_EQ(rig.Status(rig.driver->Flush()), kStatusIoError);
}

TEST(BlockDeviceTest, ADriverThatCannotFlushGetsWriteThrough) {
  Rig rig({}, kAllFeatures & ~kFeatureFlush & ~kFeatureConfigWce);
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(512))), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{8, 8, 0}})), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), ElementsAre("write 0+512 durable", "zero 4096+4096", "flush"));
}

TEST(BlockDeviceTest, ADriverThatTurnsTheCacheOffGetsWriteThroughAndWhatItWroteBeforeIsFlushed) {
  Rig rig;
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(512))), kStatusOk);
  const std::vector<uint8_t> off = {0}, on = {1};
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), off);
  EXPECT_EQ(rig.driver->Config().writeback, 0);
  for (int i = 0; i < 1000 && rig.disk->Log().size() < 2; ++i) {
    rig.driver->Pump();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(rig.Status(rig.driver->Write(1, Pattern(512))), kStatusOk);
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), on);
  EXPECT_EQ(rig.Status(rig.driver->Write(2, Pattern(512))), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), ElementsAre("write 0+512", "flush", "write 512+512 durable", "write 1024+512"));
}

TEST(BlockDeviceTest, ADriverThatTogglesTheCacheCannotPileUpFlushes) {
  Rig rig;
  rig.disk->Hold(true);
  for (int i = 0; i < 1000; ++i) {
    rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{0});
    rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{1});
    rig.driver->Pump();
  }
  ASSERT_TRUE(rig.disk->WaitUntilHeld(1));
  rig.disk->Hold(false);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 512)), kStatusOk);
  rig.driver->Reset();
  EXPECT_LE(rig.disk->Log().size(), 3u);
}

TEST(BlockDeviceTest, OnlyTheCacheModeMayBeWritten) {
  Rig rig;
  const BlockConfig before = rig.driver->Config();
  rig.driver->device().WriteConfig(0, std::vector<uint8_t>(8, 0xff));
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{2});
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{0, 0});
  const BlockConfig after = rig.driver->Config();
  EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
}

TEST(BlockDeviceTest, WithoutACacheThereIsNothingToFlush) {
  BlockOptions options;
  options.write_back = false;
  Rig rig(std::move(options));
  EXPECT_EQ(rig.driver->device().features() & (kFeatureFlush | kFeatureConfigWce), 0u);
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{1});
  EXPECT_EQ(rig.driver->Config().writeback, 0);
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(512))), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), ElementsAre("write 0+512 durable"));
}

// ---------------------------------------------------------------------------------------- discard and write zeroes

TEST(BlockDeviceTest, DiscardsAndZeroesRanges) {
  BlockOptions options;
  options.threads = 1;
  Rig rig(std::move(options));
  EXPECT_EQ(rig.Status(rig.driver->Write(0, Pattern(4096))), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeDiscard, {{100, 8, 0}, {200, 0, 0}, {300, 1, 0}})), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{1, 2, 0}})), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{5, 1, kRangeUnmap}})), kStatusOk);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{6, 1, kRangeUnmap}, {7, 1, 0}})), kStatusOk);
  EXPECT_THAT(rig.disk->Log(), ElementsAre("write 0+4096", "discard 51200+4096", "discard 153600+512", "zero 512+1024",
                                           "zero 2560+512 unmap", "zero 3072+512", "zero 3584+512"));
  EXPECT_EQ(rig.disk->Contents(512, 1024), std::vector<uint8_t>(1024, 0));
  EXPECT_NE(rig.disk->Contents(1536, 512), std::vector<uint8_t>(512, 0));
}

TEST(BlockDeviceTest, RangesWithUnknownFlagsAreUnsupported) {
  Rig rig;
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeDiscard, {{0, 1, kRangeUnmap}})), kStatusUnsupported);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeDiscard, {{0, 1, 2}})), kStatusUnsupported);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{0, 1, 0x80000000}})), kStatusUnsupported);
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
}

TEST(BlockDeviceTest, RangesOutsideTheDiskOrAboveTheLimitsAreErrorsAndNoneIsDone) {
  Rig rig;
  const BlockConfig config = rig.driver->Config();
  for (const uint32_t type : {kTypeDiscard, kTypeWriteZeroes}) {
    EXPECT_EQ(rig.Status(rig.driver->Ranges(type, {{0, 1, 0}, {kSectors, 1, 0}})), kStatusIoError);
    EXPECT_EQ(rig.Status(rig.driver->Ranges(type, {{UINT64_MAX, 2, 0}})), kStatusIoError);
    EXPECT_EQ(rig.Status(rig.driver->Ranges(type, {{0, UINT32_MAX, 0}})), kStatusIoError);
    EXPECT_EQ(rig.Status(rig.driver->Ranges(type, {})), kStatusIoError);
    EXPECT_EQ(rig.Status(rig.driver->Send({type, 0, 0}, {Pattern(17)}, {})), kStatusIoError);
    EXPECT_EQ(rig.Status(rig.driver->Ranges(type, std::vector<RangeSegment>(config.max_discard_seg + 1, {0, 1, 0}))),
              kStatusIoError);
  }
  EXPECT_THAT(rig.disk->Log(), IsEmpty());
}

TEST(BlockDeviceTest, WhatWasNotNegotiatedIsUnsupported) {
  Rig rig({}, kAllFeatures & ~kFeatureDiscard & ~kFeatureWriteZeroes);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeDiscard, {{0, 1, 0}})), kStatusUnsupported);
  EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeWriteZeroes, {{0, 1, 0}})), kStatusUnsupported);
  BlockOptions options;
  options.discard = false;
  Rig without(std::move(options));
  EXPECT_EQ(without.driver->device().features() & (kFeatureDiscard | kFeatureWriteZeroes), 0u);
}

// ------------------------------------------------------------------------------------------- many requests at once

TEST(BlockDeviceTest, TheLoopDoesNotWaitForTheDisk) {
  Rig rig;
  rig.disk->Hold(true);
  const Ticket slow = rig.driver->Read(0, 512);
  ASSERT_TRUE(rig.disk->WaitUntilHeld(1));
  EXPECT_EQ(rig.Status(rig.driver->GetId()), kStatusOk);
  EXPECT_FALSE(rig.driver->Poll(slow).has_value());
  rig.disk->Hold(false);
  EXPECT_EQ(rig.Status(slow), kStatusOk);
}

TEST(BlockDeviceTest, RequestsOfAllQueuesAreServed) {
  BlockOptions options;
  options.queues = 4;
  options.queue_size = 64;
  Rig rig(std::move(options));
  for (int round = 0; round < 20; ++round) {
    for (uint16_t queue = 0; queue < 4; ++queue) {
      for (uint64_t i = 0; i < 8; ++i) {
        const uint64_t sector = queue * 8 + i;
        ASSERT_NE(rig.driver->Write(sector, Pattern(512, static_cast<uint8_t>(sector)), queue).first, 0xffff);
      }
    }
    ASSERT_TRUE(rig.driver->WaitForAll());
  }
  for (uint64_t sector = 0; sector < 32; ++sector) {
    EXPECT_EQ(rig.disk->Contents(sector * 512, 512), Pattern(512, static_cast<uint8_t>(sector)));
  }
  EXPECT_EQ(rig.driver->device().stats().writes, 640u);
}

TEST(BlockDeviceTest, NoMoreRequestsThanAllowedAreInFlightAndNoneIsForgotten) {
  BlockOptions options;
  options.max_in_flight = 3;
  options.queues = 2;
  Rig rig(std::move(options));
  rig.disk->Hold(true);
  for (int i = 0; i < 10; ++i) {
    rig.driver->Read(0, 512, 0);
    rig.driver->Read(0, 512, 1);
  }
  ASSERT_TRUE(rig.disk->WaitUntilHeld(3));
  EXPECT_EQ(rig.driver->device().in_flight(), 3u);
  rig.disk->Hold(false);
  ASSERT_TRUE(rig.driver->WaitForAll());
  EXPECT_EQ(rig.driver->device().in_flight(), 0u);
  EXPECT_EQ(rig.disk->Log().size(), 20u);
}

TEST(BlockDeviceTest, AFullQueueDoesNotStarveAnother) {
  BlockOptions options;
  options.max_in_flight = 1;
  options.queues = 2;
  Rig rig(std::move(options));
  rig.driver->set_notify(false);
  for (int i = 0; i < 50; ++i) rig.driver->Read(0, 512, 0);
  rig.driver->Read(100, 512, 1);
  rig.driver->device().QueueNotified(0);
  rig.driver->device().QueueNotified(1);
  ASSERT_TRUE(rig.driver->WaitForAll());
  const std::vector<std::string> log = rig.disk->Log();
  EXPECT_LT(std::find(log.begin(), log.end(), "read 51200+512") - log.begin(), 4);
}

TEST(BlockDeviceTest, RatesDelayRequestsAndLoseNone) {
  BlockOptions options;
  options.operations = {.per_second = 200, .burst = 2};
  Rig rig(std::move(options));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 12; ++i) rig.driver->Read(0, 512);
  ASSERT_TRUE(rig.driver->WaitForAll());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(45));
  EXPECT_GE(rig.driver->device().stats().throttled, 1u);
}

TEST(BlockDeviceTest, ByteRatesCountWhatIsMovedOnly) {
  BlockOptions options;
  options.bytes = {.per_second = 1 << 20, .burst = 4096};
  Rig rig(std::move(options));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rig.Status(rig.driver->Ranges(kTypeDiscard, {{0, 2048, 0}})), kStatusOk);
  EXPECT_EQ(rig.driver->device().stats().throttled, 0u);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) rig.driver->Read(0, 16384);
  ASSERT_TRUE(rig.driver->WaitForAll());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  EXPECT_GE(rig.driver->device().stats().throttled, 1u);
}

// ------------------------------------------------------------------------------------------------- reset and the end

TEST(BlockDeviceTest, AResetWaitsForWhatRunsDropsTheRestAndAnswersNothing) {
  BlockOptions options;
  options.threads = 2;
  Rig rig(std::move(options));
  rig.disk->Hold(true);
  for (uint64_t i = 0; i < 10; ++i) rig.driver->Write(i, Pattern(512));
  ASSERT_TRUE(rig.disk->WaitUntilHeld(2));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    rig.disk->Hold(false);
  });
  rig.driver->Reset();
  const size_t done = rig.disk->Log().size();
  release.join();
  EXPECT_EQ(done, 2u);
  rig.driver->Pump();
  EXPECT_EQ(rig.driver->queue(0).used_idx(), 0);
  EXPECT_EQ(rig.disk->Log().size(), 2u);
  rig.driver->Start(kAllFeatures);
  EXPECT_EQ(rig.Status(rig.driver->Read(0, 512)), kStatusOk);
}

TEST(BlockDeviceTest, AResetForgetsNotificationsAndTheCacheMode) {
  BlockOptions options;
  options.operations = {.per_second = 5, .burst = 1};
  Rig rig(std::move(options));
  rig.driver->device().WriteConfig(offsetof(BlockConfig, writeback), std::vector<uint8_t>{0});
  for (int i = 0; i < 5; ++i) rig.driver->Read(0, 512);
  rig.driver->Reset();
  EXPECT_EQ(rig.driver->Config().writeback, 1);
  rig.driver->Start(kAllFeatures);
  rig.driver->Pump();
  rig.driver->device().QueueNotified(0);
  EXPECT_EQ(rig.Status(rig.driver->GetId()), kStatusOk);
}

TEST(BlockDeviceTest, TheDeviceMayGoWhileTheDiskWorks) {
  Rig rig;
  rig.disk->Hold(true);
  for (uint64_t i = 0; i < 10; ++i) rig.driver->Read(i, 512);
  ASSERT_TRUE(rig.disk->WaitUntilHeld(4));
  std::thread release([disk = rig.disk] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    disk->Hold(false);
  });
  rig.driver.reset();
  release.join();
}

TEST(BlockDeviceTest, WorksBehindItsPciTransport) {
  asio::io_context loop;
  const auto work = asio::make_work_guard(loop);
  BlockOptions options;
  options.loop = &loop;
  options.disk = std::make_unique<FakeDisk>(kDiskBytes);
  auto device = BlockDevice::Create(std::move(options));
  ASSERT_TRUE(device.ok()) << device.status();
  auto ram = memory::GuestMemory::CreateSimple(8 << 20);
  ASSERT_TRUE(ram.ok());
  virtio::testing::TaskQueue tasks;
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(device), {.name = "disk", .memory = *ram, .notifier = &notifier, .post = tasks.poster()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  virtio::testing::FakePciDriver pci(transport->get(), &tasks);
  constexpr uint64_t kTransport =
      virtio::kFeatureVersion1 | virtio::kFeatureEventIdx | virtio::kFeatureIndirectDescriptors;
  ASSERT_TRUE(pci.Start(kTransport | kAllFeatures, *ram, {64}).ok());
  EXPECT_EQ(pci.ReadBar(virtio::kRegisterBar, virtio::kDeviceConfigOffset, 8), kSectors);
  auto head = pci.queue(0).Chain().ReadableObject(RequestHeader{kTypeIn, 0, 0}).Writable(513).Indirect().Submit();
  ASSERT_TRUE(head.ok());
  pci.Notify(0);
  std::optional<virtio::testing::Completion> done;
  for (int i = 0; i < 10000 && !done.has_value(); ++i) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(1));
    done = pci.queue(0).Collect();
  }
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->written, 513u);
  EXPECT_EQ(done->data.back(), kStatusOk);
  EXPECT_GE(notifier.signals(1), 1u);
  EXPECT_TRUE(pci.Reset());
}

}  // namespace
}  // namespace sluice::block
