// Sub-allocation of shared blobs, against a platform that counts and a worker that executes when it is told to.
#include "flatbuf/guest/memory_pool.h"

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "flatbuf/guest/channel.h"
#include "flatbuf/schema_hash.h"

namespace sluice::guest {
namespace {

constexpr uint64_t kPage = 4096;

class CountingPlatform final : public Platform {
 public:
  static constexpr uint64_t kRingBytes = 64 * 1024;
  CountingPlatform() : ring_(kRingBytes / sizeof(Line)) {
    void* bytes = ring_.data();
    header = new (bytes) wire::RingHeader{};
    header->magic = wire::kCapsetMagic;
    header->protocol_version = wire::kProtocolVersion;
    header->schema_hash = wire::kSchemaHash;
    EXPECT_TRUE(channel.Init(bytes, kRingBytes, this));
  }
  // One message, as the allocation's or the release's.
  void Say() {
    const uint8_t bytes[16] = {};
    EXPECT_TRUE(channel.Send(16, bytes, sizeof(bytes), false));
    if (at_once) Execute();
  }
  void Execute() { header->command_tail = header->command_head.load(); }
  bool Allocate(uint64_t size, SharedRange* range) {
    if (!channel.memory().Allocate(channel, size, range)) return false;
    Say();
    channel.memory().Told(channel, *range);
    return true;
  }
  void Free(const SharedRange& range) {
    Say();
    channel.memory().Free(channel, range);
  }

  void RingDoorbell() override {}
  void WaitForPosition(uint64_t) override { Execute(); }
  void WaitTimeline(uint32_t, uint64_t, uint64_t) override {}
  bool AllocateSharedMemory(uint64_t size, SharedMemory* out) override {
    if (size > quota - held) return false;
    held += size;
    made++;
    const uint32_t id = next_++;
    blobs[id].resize(size);
    *out = {id, blobs[id].data(), size};
    return true;
  }
  void FreeSharedMemory(const SharedMemory& memory) override {
    EXPECT_EQ(blobs.count(memory.resource_id), 1u);
    EXPECT_GE(header->command_tail.load(), must_be_executed);
    held -= memory.size;
    blobs.erase(memory.resource_id);
  }
  void Yield() override {
    if (at_once) Execute();
  }

  wire::RingHeader* header;
  GuestChannel channel;
  uint64_t quota = uint64_t{1} << 30, held = 0, made = 0, must_be_executed = 0;
  bool at_once = true;
  std::map<uint32_t, std::vector<uint8_t>> blobs;

 private:
  struct alignas(64) Line {
    uint64_t words[8];
  };
  std::vector<Line> ring_;
  uint32_t next_ = 1;
};

TEST(MemoryPool, ManySmallAllocationsShareFewBlobs) {
  CountingPlatform platform;
  std::vector<SharedRange> ranges(200);
  for (SharedRange& range : ranges) ASSERT_TRUE(platform.Allocate(64 * 1024, &range));
  EXPECT_LE(platform.made, 8u);
  for (const SharedRange& range : ranges) platform.Free(range);
  EXPECT_LE(platform.channel.memory().chunks(), 1u) << "one empty chunk may stay";
  platform.channel.memory().Trim(platform.channel);
  EXPECT_EQ(platform.held, 0u);
}

TEST(MemoryPool, WhatIsHandedOutIsZeroWhateverWasThereBefore) {
  CountingPlatform platform;
  for (const uint64_t size : {100'000u, 10'000u, 300'000u, 50'000u}) {
    SharedRange range;
    ASSERT_TRUE(platform.Allocate(size, &range));
    const auto* bytes = static_cast<const uint8_t*>(range.pointer);
    EXPECT_TRUE(std::all_of(bytes, bytes + range.size, [](uint8_t byte) { return byte == 0; })) << size;
    memset(range.pointer, 0x5a, range.size);
    platform.Free(range);
  }
}

TEST(MemoryPool, RangesAreAlignedAndNeverOverlapWhateverIsFreed) {
  CountingPlatform platform;
  std::mt19937 random(1);
  std::vector<SharedRange> live;
  for (int step = 0; step < 5000; step++) {
    if (live.empty() || random() % 5 < 3) {
      SharedRange range;
      const uint64_t size = 1 + random() % (random() % 10 == 0 ? 3'000'000 : 60'000);
      if (!platform.Allocate(size, &range)) continue;
      ASSERT_GE(range.size, size);
      ASSERT_EQ(range.offset % kPage, 0u);
      ASSERT_LE(range.offset + range.size, platform.blobs.at(range.resource_id).size());
      for (const SharedRange& other : live) {
        ASSERT_TRUE(other.resource_id != range.resource_id || other.offset + other.size <= range.offset ||
                    range.offset + range.size <= other.offset);
      }
      live.push_back(range);
    } else {
      const size_t victim = random() % live.size();
      platform.Free(live[victim]);
      live[victim] = live.back();
      live.pop_back();
    }
    if (live.size() > 300) {
      for (const SharedRange& range : live) platform.Free(range);
      live.clear();
    }
  }
  for (const SharedRange& range : live) platform.Free(range);
  platform.channel.memory().Trim(platform.channel);
  EXPECT_EQ(platform.held, 0u);
  EXPECT_EQ(platform.channel.memory().blob_bytes(), 0u);
}

TEST(MemoryPool, FreedNeighboursBecomeOneRangeAgain) {
  CountingPlatform platform;
  SharedRange parts[4], whole;
  for (SharedRange& part : parts) ASSERT_TRUE(platform.Allocate(kSmallestChunk / 4, &part));
  ASSERT_EQ(platform.made, 1u);
  for (const int i : {2, 0, 3, 1}) platform.Free(parts[i]);
  ASSERT_TRUE(platform.Allocate(kSmallestChunk, &whole));
  EXPECT_EQ(platform.made, 1u);
}

TEST(MemoryPool, ASmallQuotaIsUsedToTheLastPage) {
  CountingPlatform platform;
  platform.quota = 10 * kPage;
  platform.header->memory_limit = platform.quota;
  std::vector<SharedRange> ranges;
  for (SharedRange range; platform.Allocate(1, &range);) ranges.push_back(range);
  EXPECT_EQ(ranges.size(), 10u);
  for (const SharedRange& range : ranges) platform.Free(range);
  // All of it in one piece: small chunks are given up for that.
  SharedRange all;
  EXPECT_TRUE(platform.Allocate(10 * kPage, &all));
  SharedRange more;
  EXPECT_FALSE(platform.Allocate(1, &more));
}

TEST(MemoryPool, ALargeAllocationTakesTheRoomThatIsKeptForSmallOnes) {
  CountingPlatform platform;
  platform.quota = 8 << 20;
  SharedRange small, large;
  ASSERT_TRUE(platform.Allocate(1000, &small));
  platform.Free(small);
  EXPECT_GT(platform.held, 0u);
  ASSERT_TRUE(platform.Allocate(8 << 20, &large));
  EXPECT_FALSE(large.pooled());
  platform.Free(large);
  EXPECT_EQ(platform.held, 0u);
}

// The worker looks a blob up when it executes the allocation: until then it has to be there.
TEST(MemoryPool, ABlobStaysUntilTheWorkerHasSeenTheAllocationsInIt) {
  CountingPlatform platform;
  platform.at_once = false;
  SharedRange range;
  ASSERT_TRUE(platform.Allocate(1000, &range));
  platform.must_be_executed = platform.channel.position();
  platform.Free(range);
  platform.channel.memory().Trim(platform.channel);
  EXPECT_EQ(platform.blobs.size(), 1u);
  platform.Execute();
  SharedRange other;
  ASSERT_TRUE(platform.Allocate(1000, &other));
  EXPECT_EQ(platform.blobs.count(range.resource_id), 0u);
}

TEST(MemoryPool, FreedMemoryThatTheWorkerHasNotSeenYetIsWaitedForBeforeAnythingFails) {
  CountingPlatform platform;
  platform.at_once = false;
  platform.quota = kSmallestChunk;
  SharedRange range, next;
  ASSERT_TRUE(platform.Allocate(kSmallestChunk, &range));
  platform.Free(range);
  EXPECT_TRUE(platform.Allocate(kSmallestChunk, &next));
}

TEST(MemoryPool, NonsenseSizesAreRefused) {
  CountingPlatform platform;
  SharedRange range;
  for (const uint64_t size : {uint64_t{0}, UINT64_MAX, UINT64_MAX - 4095, uint64_t{1} << 63, uint64_t{1} << 40}) {
    EXPECT_FALSE(platform.channel.memory().Allocate(platform.channel, size, &range)) << size;
  }
  EXPECT_EQ(platform.held, 0u);
}

TEST(MemoryPool, TheWorkersAlignmentIsKept) {
  CountingPlatform platform;
  platform.header->memory_alignment = 65536;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(platform.header, CountingPlatform::kRingBytes, &platform));
  SharedRange a, b;
  ASSERT_TRUE(channel.memory().Allocate(channel, 1, &a));
  ASSERT_TRUE(channel.memory().Allocate(channel, 70'000, &b));
  EXPECT_EQ(a.size, 65536u);
  EXPECT_EQ(b.offset % 65536, 0u);
  EXPECT_EQ(b.size, 2 * 65536u);
}

}  // namespace
}  // namespace sluice::guest
