#include "vmm/memory/guest_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "vmm/memory/address.h"

namespace sluice::memory {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max();

// RAM at [0, 64K) and [64K, 128K) in two memfds, a hole, and 4 KiB at 1 MiB.
GuestMemory TwoAdjacentAndOneApart() {
  std::vector<RegionConfig> regions(3);
  regions[0] = {.start = GuestAddress(1 * kMiB), .size = 4 * kKiB, .name = "apart"};
  regions[1] = {.start = GuestAddress(0), .size = 64 * kKiB, .name = "low"};
  regions[2] = {.start = GuestAddress(64 * kKiB), .size = 64 * kKiB, .name = "next"};
  auto memory = GuestMemory::Create(std::move(regions));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

TEST(GuestAddressTest, AddingPastTheEndFails) {
  EXPECT_EQ(GuestAddress(0x1000).CheckedAdd(0x10)->value(), 0x1010u);
  EXPECT_EQ(GuestAddress(kTop).CheckedAdd(0)->value(), kTop);
  EXPECT_FALSE(GuestAddress(kTop).CheckedAdd(1).has_value());
  EXPECT_FALSE(GuestAddress(1).CheckedAdd(kTop).has_value());
}

TEST(GuestAddressTest, OffsetIsOnlyUpwards) {
  EXPECT_EQ(GuestAddress(0x30).OffsetFrom(GuestAddress(0x10)), 0x20u);
  EXPECT_FALSE(GuestAddress(0x10).OffsetFrom(GuestAddress(0x30)).has_value());
}

TEST(GuestAddressTest, PrintsAsHex) {
  EXPECT_EQ(GuestAddress(0xfee00000).ToString(), "0xfee00000");
  EXPECT_EQ(GuestRange::Create(GuestAddress(0x1000), 0x20)->ToString(), "0x1000+0x20");
}

TEST(GuestRangeTest, EmptyAndWrappingRangesDoNotExist) {
  EXPECT_FALSE(GuestRange::Create(GuestAddress(0x1000), 0).has_value());
  EXPECT_FALSE(GuestRange::Create(GuestAddress(kTop), 2).has_value());
  const auto top = GuestRange::Create(GuestAddress(kTop), 1);
  ASSERT_TRUE(top.has_value());
  EXPECT_EQ(top->last().value(), kTop);
}

TEST(GuestRangeTest, ContainsAndOverlapsDoNotWrap) {
  const GuestRange r = *GuestRange::Create(GuestAddress(0x1000), 0x1000);
  EXPECT_TRUE(r.Contains(GuestAddress(0x1fff)));
  EXPECT_FALSE(r.Contains(GuestAddress(0x2000)));
  EXPECT_TRUE(r.Contains(GuestAddress(0x1000), 0x1000));
  EXPECT_FALSE(r.Contains(GuestAddress(0x1001), 0x1000));
  EXPECT_FALSE(r.Contains(GuestAddress(0x1800), kTop));
  EXPECT_TRUE(r.Overlaps(*GuestRange::Create(GuestAddress(0x1fff), 1)));
  EXPECT_FALSE(r.Overlaps(*GuestRange::Create(GuestAddress(0x2000), 1)));
}

TEST(GuestMemoryCreateTest, RefusesUnalignedEmptyOverlappingAndWrappingRegions) {
  const auto create = [](uint64_t start, uint64_t size) {
    std::vector<RegionConfig> regions(2);
    regions[0] = {.start = GuestAddress(0), .size = 8 * kKiB, .name = "first"};
    regions[1] = {.start = GuestAddress(start), .size = size, .name = "second"};
    return GuestMemory::Create(std::move(regions)).status();
  };
  EXPECT_TRUE(create(8 * kKiB, 4 * kKiB).ok());
  EXPECT_THAT(std::string(create(0x8001, 4 * kKiB).message()), HasSubstr("multiples of 4 KiB"));
  EXPECT_THAT(std::string(create(0x8000, 100).message()), HasSubstr("\"second\""));
  EXPECT_EQ(create(0x8000, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(create(4 * kKiB, 4 * kKiB).message()), HasSubstr("overlaps 0x0+0x2000"));
  EXPECT_THAT(std::string(create(kTop - 0xfff, 8 * kKiB).message()), HasSubstr("wraps"));
}

TEST(GuestMemoryCreateTest, TakesAGivenFileAtAnOffset) {
  auto fd = CreateMemFd("given", 64 * kKiB);
  ASSERT_TRUE(fd.ok());
  auto view = Mapping::MapShared(fd->get(), 0, 64 * kKiB, Mapping::kReadWrite);
  ASSERT_TRUE(view.ok());
  view->data()[16 * kKiB + 5] = 42;
  std::vector<RegionConfig> regions(1);
  regions[0] = {.start = GuestAddress(kGiB), .size = 16 * kKiB, .fd = *std::move(fd), .fd_offset = 16 * kKiB};
  auto memory = GuestMemory::Create(std::move(regions));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(*memory->Read<uint8_t>(GuestAddress(kGiB + 5)), 42);
  ASSERT_EQ(memory->regions().size(), 1u);
  EXPECT_EQ(memory->regions()[0].fd_offset(), 16 * kKiB);
  EXPECT_EQ(memory->regions()[0].mapping()->size(), 16 * kKiB);
}

TEST(GuestMemoryCreateTest, RefusesAFileThatIsTooShort) {
  auto fd = CreateMemFd("short", 8 * kKiB);
  ASSERT_TRUE(fd.ok());
  std::vector<RegionConfig> regions(1);
  regions[0] = {.start = GuestAddress(0), .size = 8 * kKiB, .fd = *std::move(fd), .fd_offset = 4 * kKiB};
  const absl::Status status = GuestMemory::Create(std::move(regions)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("8192 bytes, too few"));
}

TEST(GuestMemoryTest, RegionsAreSortedAndDescribed) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  ASSERT_EQ(memory.regions().size(), 3u);
  EXPECT_EQ(memory.regions()[0].start().value(), 0u);
  EXPECT_EQ(memory.regions()[2].start().value(), 1 * kMiB);
  EXPECT_EQ(memory.size(), 132 * kKiB);
  for (const Region& region : memory.regions()) EXPECT_GE(region.fd(), 0);
}

TEST(GuestMemoryTest, StartsAsZeros) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  EXPECT_EQ(*memory.Read<uint64_t>(GuestAddress(0x1234)), 0u);
}

TEST(GuestMemoryTest, ReadsWhatWasWrittenAtAnyAlignment) {
  struct Odd {
    uint8_t bytes[23];
  };
  const GuestMemory memory = TwoAdjacentAndOneApart();
  for (uint64_t at = 100; at < 120; ++at) {
    Odd value;
    std::iota(std::begin(value.bytes), std::end(value.bytes), static_cast<uint8_t>(at));
    ASSERT_TRUE(memory.Write(GuestAddress(at), value).ok());
    const auto back = memory.Read<Odd>(GuestAddress(at));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(std::memcmp(&value, &*back, sizeof(Odd)), 0);
    EXPECT_EQ(*memory.Read<uint8_t>(GuestAddress(at + 23)), 0) << "one byte too many at " << at;
    ASSERT_TRUE(memory.Fill(GuestAddress(at), 0, sizeof(Odd)).ok());
  }
}

TEST(GuestMemoryTest, AccessesCrossFromOneRegionIntoTheNext) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  std::vector<uint8_t> out(1000), in(1000);
  std::iota(out.begin(), out.end(), uint8_t{1});
  ASSERT_TRUE(memory.CopyTo(GuestAddress(64 * kKiB - 333), out).ok());
  ASSERT_TRUE(memory.CopyFrom(GuestAddress(64 * kKiB - 333), absl::MakeSpan(in)).ok());
  EXPECT_EQ(in, out);
  EXPECT_TRUE(memory.Write<uint32_t>(GuestAddress(64 * kKiB - 2), 0xa1b2c3d4).ok());
  EXPECT_EQ(*memory.Read<uint16_t>(GuestAddress(64 * kKiB)), 0xa1b2);
}

TEST(GuestMemoryTest, RangesThatLeaveRamAreRefusedAndNothingIsCopied) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  std::vector<uint8_t> bytes(16, 0xee);
  EXPECT_EQ(memory.CopyTo(GuestAddress(128 * kKiB - 8), bytes).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*memory.Read<uint64_t>(GuestAddress(128 * kKiB - 8)), 0u);
  EXPECT_EQ(memory.CopyFrom(GuestAddress(128 * kKiB - 8), absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(bytes[0], 0xee);
  EXPECT_EQ(memory.Fill(GuestAddress(1 * kMiB), 1, 4 * kKiB + 1).code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(memory.Read<uint32_t>(GuestAddress(0x50000)).status().message()),
              HasSubstr("guest range 0x50000+0x4 is not all RAM"));
}

TEST(GuestMemoryTest, WrappingRangesAreRefused) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  EXPECT_EQ(memory.Read<uint64_t>(GuestAddress(kTop)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(memory.Fill(GuestAddress(0), 0, kTop).code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(memory.Contains(GuestAddress(8), kTop - 4));
}

TEST(GuestMemoryTest, RamMayEndAtTheVeryTopOfTheAddressSpace) {
  std::vector<RegionConfig> regions(1);
  regions[0] = {.start = GuestAddress(kTop - 0xfff), .size = 4 * kKiB};
  auto memory = GuestMemory::Create(std::move(regions));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(memory->Write<uint8_t>(GuestAddress(kTop), 7).ok());
  EXPECT_EQ(*memory->Load<uint8_t>(GuestAddress(kTop)), 7);
  EXPECT_FALSE(memory->Read<uint16_t>(GuestAddress(kTop)).ok());
}

TEST(GuestMemoryTest, EmptyCopiesSucceedAnywhere) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  EXPECT_TRUE(memory.CopyTo(GuestAddress(0x50000), {}).ok());
  EXPECT_TRUE(GuestMemory().Contains(GuestAddress(0), 0));
}

TEST(GuestMemoryTest, WithoutRamEveryAccessFails) {
  const GuestMemory memory;
  EXPECT_EQ(memory.Read<uint8_t>(GuestAddress(0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(memory.Load<uint16_t>(GuestAddress(0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(memory.size(), 0u);
}

TEST(GuestMemoryTest, AtomicsMustBeNaturallyAligned) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  EXPECT_EQ(memory.Load<uint16_t>(GuestAddress(1)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.Store<uint32_t>(GuestAddress(2), 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.Load<uint64_t>(GuestAddress(128 * kKiB)).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(GuestMemoryTest, AtomicsReadWhatAtomicsWrote) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  for (const auto order : {std::memory_order_relaxed, std::memory_order_release, std::memory_order_seq_cst}) {
    ASSERT_TRUE(memory.Store<uint16_t>(GuestAddress(2), 0xbeef, order).ok());
    EXPECT_EQ(*memory.Load<uint16_t>(GuestAddress(2), std::memory_order_seq_cst), 0xbeef);
    ASSERT_TRUE(memory.Store<uint64_t>(GuestAddress(8), kTop - 1, order).ok());
    EXPECT_EQ(*memory.Load<uint64_t>(GuestAddress(8), std::memory_order_relaxed), kTop - 1);
  }
  EXPECT_EQ(*memory.Read<uint8_t>(GuestAddress(2)), 0xef);
}

TEST(GuestMemoryTest, CopiesNameTheSameRamAndKeepItAlive) {
  GuestMemory survivor;
  {
    const GuestMemory memory = TwoAdjacentAndOneApart();
    survivor = memory;
    ASSERT_TRUE(memory.Write<uint32_t>(GuestAddress(0x10), 99).ok());
  }
  EXPECT_EQ(*survivor.Read<uint32_t>(GuestAddress(0x10)), 99u);
}

// A ring as devices use it: data is written first, then the index with release; whoever loads the index with acquire
// sees the data. Also what ThreadSanitizer checks.
TEST(GuestMemoryTest, AReleasedIndexPublishesWhatWasWrittenBefore) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  constexpr uint16_t kItems = 20000;
  const GuestAddress index(0x100), slots(0x1000);
  std::thread producer([&] {
    for (uint16_t i = 0; i < kItems; ++i) {
      while (static_cast<uint16_t>(i - *memory.Load<uint16_t>(GuestAddress(0x140))) >= 64) std::this_thread::yield();
      EXPECT_TRUE(memory.Write<uint64_t>(*slots.CheckedAdd((i % 64) * 8), i * 3u).ok());
      EXPECT_TRUE(memory.Store<uint16_t>(index, static_cast<uint16_t>(i + 1)).ok());
    }
  });
  for (uint16_t i = 0; i < kItems; ++i) {
    while (*memory.Load<uint16_t>(index) == i) std::this_thread::yield();
    ASSERT_EQ(*memory.Read<uint64_t>(*slots.CheckedAdd((i % 64) * 8)), i * 3u);
    ASSERT_TRUE(memory.Store<uint16_t>(GuestAddress(0x140), static_cast<uint16_t>(i + 1)).ok());
  }
  producer.join();
}

// A guest that changes a field while a device reads it never shows half of a value.
TEST(GuestMemoryTest, AlignedValuesAreNeverTorn) {
  const GuestMemory memory = TwoAdjacentAndOneApart();
  const GuestAddress at(0x208);
  std::atomic<bool> stop{false};
  std::thread guest([&] {
    for (uint64_t i = 0; !stop.load(); ++i) (void)memory.Write<uint64_t>(at, (i % 2) ? kTop : 0);
  });
  for (int i = 0; i < 50000; ++i) {
    const uint64_t value = *memory.Read<uint64_t>(at);
    ASSERT_TRUE(value == 0 || value == kTop) << Hex(value);
  }
  stop = true;
  guest.join();
}

}  // namespace
}  // namespace sluice::memory
