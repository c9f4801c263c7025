#include "flatbuf/ring.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::wire {
namespace {

class RingTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSize = 4096;
  std::vector<uint8_t> data_ = std::vector<uint8_t>(kSize);
  std::atomic<uint64_t> head_{0}, tail_{0};
  RingProducer producer_{data_.data(), kSize, &head_, &tail_};
  RingConsumer consumer_{data_.data(), kSize, &head_, &tail_};

  bool Put(uint16_t opcode, uint64_t sequence, const std::vector<uint8_t>& payload) {
    uint8_t* p = producer_.Reserve(payload.size());
    if (p == nullptr) return false;
    const FrameHeader h = {opcode, 0, static_cast<uint32_t>(payload.size()), sequence};
    std::memcpy(p, &h, sizeof(h));
    std::copy(payload.begin(), payload.end(), p + sizeof(h));
    producer_.Commit(payload.size());
    return true;
  }
};

TEST_F(RingTest, FramesOfEverySizeComeOutAsTheyWentInAcrossManyWraps) {
  FrameHeader h;
  const uint8_t* payload;
  for (uint64_t i = 0; i < 5000; ++i) {
    const std::vector<uint8_t> in(i * 7 % (kSize / 4 - 16), static_cast<uint8_t>(i));
    ASSERT_TRUE(Put(20, i, in));
    ASSERT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kFrame);
    EXPECT_EQ(h.sequence, i);
    ASSERT_EQ(h.size, in.size());
    EXPECT_TRUE(std::equal(in.begin(), in.end(), payload));
    consumer_.Pop();
  }
  EXPECT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kEmpty);
  EXPECT_TRUE(producer_.Drained());
}

TEST_F(RingTest, AFullRingRefusesAndRecovers) {
  int n = 0;
  while (Put(20, n, std::vector<uint8_t>(100))) ++n;
  EXPECT_EQ(n, static_cast<int>(kSize / FrameBytes(100)));
  FrameHeader h;
  const uint8_t* payload;
  ASSERT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kFrame);
  consumer_.Pop();
  ASSERT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kFrame);
  consumer_.Pop();
  EXPECT_TRUE(Put(20, n, std::vector<uint8_t>(100)));
}

TEST_F(RingTest, ImpossiblePositionsAndSizesAreBrokenNeverRead) {
  FrameHeader h;
  const uint8_t* payload;
  for (uint64_t bad : {kSize + 16, uint64_t{8}, uint64_t{17}, ~uint64_t{0}, uint64_t{1} << 63}) {
    head_ = bad;
    EXPECT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kBroken) << bad;
  }
  const FrameHeader huge = {20, 0, 0xffffffff, 0};
  std::memcpy(data_.data(), &huge, sizeof(huge));
  head_ = 64;
  EXPECT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kBroken);
  const FrameHeader short_pad = {kOpcodePad, 0, 16, 0};
  std::memcpy(data_.data(), &short_pad, sizeof(short_pad));
  EXPECT_EQ(consumer_.Peek(&h, &payload), RingConsumer::Result::kBroken);
}

TEST_F(RingTest, ALyingConsumerCannotMakeTheProducerOverwriteOrOverrun) {
  tail_ = uint64_t{1} << 40;
  EXPECT_EQ(producer_.Reserve(16), nullptr);
  EXPECT_EQ(producer_.Reserve(kSize), nullptr);
}

TEST_F(RingTest, TwoThreadsMoveEveryFrameInOrder) {
  constexpr uint64_t kFrames = 100000;
  std::thread consumer([&] {
    FrameHeader h;
    const uint8_t* payload;
    for (uint64_t i = 0; i < kFrames;) {
      if (consumer_.Peek(&h, &payload) != RingConsumer::Result::kFrame) {
        std::this_thread::yield();
        continue;
      }
      uint64_t value = 0;
      CopyFromShared(&value, payload, sizeof(value));
      ASSERT_EQ(value, i);
      consumer_.Pop();
      ++i;
    }
  });
  for (uint64_t i = 0; i < kFrames; ++i) {
    std::vector<uint8_t> payload(8 + i % 64);
    std::memcpy(payload.data(), &i, sizeof(i));
    while (!Put(20, i, payload)) std::this_thread::yield();
  }
  consumer.join();
}

}  // namespace
}  // namespace sluice::wire
