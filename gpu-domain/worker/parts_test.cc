// The parts of a worker that need no driver: quota, ring reader, reply writer, ring thread, fences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "flatbuf/ring.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "gpu-domain/worker/quota.h"
#include "gpu-domain/worker/reaper.h"
#include "gpu-domain/worker/reply_writer.h"
#include "gpu-domain/worker/ring_reader.h"
#include "gpu-domain/worker/ring_thread.h"
#include "gpu-domain/worker/shared_raw.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;

// ---- quota

TEST(MemoryQuotaTest, TakesUpToTheLimitAndNotOneByteMore) {
  std::atomic<uint64_t> gauge{0};
  MemoryQuota quota(1000, &gauge);
  auto a = quota.Take(999);
  ASSERT_TRUE(a.has_value());
  EXPECT_FALSE(quota.Take(2).has_value());
  auto b = quota.Take(1);
  ASSERT_TRUE(b.has_value());
  EXPECT_FALSE(quota.Take(1).has_value());
  EXPECT_EQ(gauge, 1000u);
  a.reset();
  EXPECT_EQ(gauge, 1u);
  EXPECT_TRUE(quota.Take(999).has_value());
}

TEST(MemoryQuotaTest, NoSizeWraps) {
  MemoryQuota quota(1000);
  const auto held = quota.Take(1);
  EXPECT_FALSE(quota.Take(std::numeric_limits<uint64_t>::max()).has_value());
  EXPECT_FALSE(quota.Take(std::numeric_limits<uint64_t>::max() - 1).has_value());
  EXPECT_EQ(quota.used(), 1u);
}

TEST(MemoryQuotaTest, AMovedChargeIsGivenBackOnce) {
  MemoryQuota quota(100);
  {
    MemoryCharge a = *quota.Take(60);
    MemoryCharge b = std::move(a);
    a = MemoryCharge();
    EXPECT_EQ(quota.used(), 60u);
    b = *quota.Take(10);
    EXPECT_EQ(quota.used(), 10u);
  }
  EXPECT_EQ(quota.used(), 0u);
}

TEST(MemoryQuotaTest, IsExactUnderContention) {
  MemoryQuota quota(8);
  std::atomic<int> most{0};
  std::atomic<int> held{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto charge = quota.Take(3);
        if (!charge.has_value()) continue;
        const int now = ++held;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --held;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 2);
  EXPECT_EQ(quota.used(), 0u);
}

// ---- a ring and its guest

class RingTest : public ::testing::Test {
 protected:
  RingTest() {
    auto made = Blob::CreateMapped({1, 1, wire::BlobKind::kRing, 0}, wire::kMinRingBytes, MemoryCharge());
    blob_ = made->blob;
    RingView view(blob_->mapping());
    view.Initialise();
    producer_ = wire::RingProducer(blob_->mapping().data() + layout_.command_offset(), layout_.command_bytes(),
                                   &view.header().command_head, &view.header().command_tail);
    replies_ = wire::RingConsumer(blob_->mapping().data() + layout_.reply_offset(), layout_.reply_bytes(),
                                  &view.header().reply_head, &view.header().reply_tail);
  }
  RingView view() { return RingView(blob_->mapping()); }
  // One frame as an honest guest writes it.
  void Send(uint16_t opcode, uint64_t sequence, const std::vector<uint8_t>& payload, uint16_t flags = 0) {
    uint8_t* frame = producer_.Reserve(payload.size());
    ASSERT_NE(frame, nullptr);
    const wire::FrameHeader header = {opcode, flags, static_cast<uint32_t>(payload.size()), sequence};
    std::memcpy(frame, &header, sizeof(header));
    if (!payload.empty()) std::memcpy(frame + sizeof(header), payload.data(), payload.size());
    producer_.Commit(payload.size());
  }

  const wire::RingLayout layout_{wire::kMinRingBytes};
  MemoryQuota staging_{64 << 20};
  std::shared_ptr<Blob> blob_;
  wire::RingProducer producer_;
  wire::RingConsumer replies_;
};

TEST_F(RingTest, FramesComeOutInOrderAndAligned) {
  RingReader reader(view().Commands(), &staging_);
  Message message;
  EXPECT_EQ(reader.Next(&message), RingReader::Result::kEmpty);
  Send(20, 1, {1, 2, 3});
  Send(21, 2, {}, wire::kFrameReply);
  ASSERT_EQ(reader.Next(&message), RingReader::Result::kMessage);
  EXPECT_EQ(message.header.opcode, 20);
  EXPECT_THAT(message.bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(message.bytes.data()) % 16, 0u);
  EXPECT_EQ(view().header().command_tail.load(), 0u) << "not executed before Finish";
  reader.Finish();
  EXPECT_EQ(view().header().command_tail.load(), 32u);
  ASSERT_EQ(reader.Next(&message), RingReader::Result::kMessage);
  EXPECT_EQ(message.header.flags, wire::kFrameReply);
  reader.Finish();
  EXPECT_EQ(reader.position(), producer_.position());
  EXPECT_EQ(reader.frames(), 2u);
}

TEST_F(RingTest, AMessageLargerThanTheRingIsJoined) {
  RingReader reader(view().Commands(), &staging_);
  Message message;
  const std::vector<uint8_t> part(4000, 7);
  for (int i = 0; i < 20; ++i) {
    Send(30, 1, part, wire::kFrameMore);
    ASSERT_EQ(reader.Next(&message), RingReader::Result::kEmpty) << i;
  }
  Send(30, 1, {8});
  ASSERT_EQ(reader.Next(&message), RingReader::Result::kMessage);
  EXPECT_EQ(message.bytes.size(), 80'001u);
  EXPECT_EQ(message.bytes.back(), 8);
  EXPECT_EQ(message.header.size, 80'001u);
  EXPECT_EQ(message.header.flags, 0);
}

TEST_F(RingTest, ALateWriteToTheRingDoesNotReachTheMessage) {
  RingReader reader(view().Commands(), &staging_);
  Send(20, 1, {1, 2, 3, 4});
  Message message;
  ASSERT_EQ(reader.Next(&message), RingReader::Result::kMessage);
  std::memset(blob_->mapping().data() + layout_.command_offset(), 0xff, 64);
  EXPECT_THAT(message.bytes, ElementsAre(1, 2, 3, 4));
}

struct BadRing {
  const char* name;
  std::vector<wire::FrameHeader> frames;
};

TEST_F(RingTest, WhatBreaksTheProtocolBreaksTheRingForGood) {
  const BadRing cases[] = {
      {"reserved opcode", {{5, 0, 0, 1}}},
      {"unknown flag", {{20, 4, 0, 1}}},
      {"sequence does not start at 1", {{20, 0, 0, 2}}},
      {"sequence jumps", {{20, 0, 0, 1}, {20, 0, 0, 3}}},
      {"another opcode in a message", {{20, wire::kFrameMore, 0, 1}, {21, 0, 0, 1}}},
      {"other flags in a message", {{20, wire::kFrameMore, 0, 1}, {20, wire::kFrameReply, 0, 1}}},
      {"payload beyond the head", {{20, 0, 1000, 1}}},
      {"payload of 4 GiB", {{20, 0, 0xffff'ffff, 1}}},
      {"pad that stops short", {{wire::kOpcodePad, 0, 0, 0}}},
  };
  for (const BadRing& c : cases) {
    auto made = Blob::CreateMapped({1, 1, wire::BlobKind::kRing, 0}, wire::kMinRingBytes, MemoryCharge());
    RingView ring(made->blob->mapping());
    uint8_t* data = made->blob->mapping().data() + layout_.command_offset();
    for (size_t i = 0; i < c.frames.size(); ++i) std::memcpy(data + i * 16, &c.frames[i], 16);
    ring.header().command_head.store(c.frames.size() * 16);
    RingReader reader(ring.Commands(), &staging_);
    Message message;
    RingReader::Result result = RingReader::Result::kMessage;
    while ((result = reader.Next(&message)) == RingReader::Result::kMessage) reader.Finish();
    EXPECT_EQ(result, RingReader::Result::kBroken) << c.name;
    EXPECT_TRUE(absl::IsInvalidArgument(reader.error())) << c.name;
    EXPECT_EQ(reader.Next(&message), RingReader::Result::kBroken) << c.name;
  }
}

TEST_F(RingTest, ImpossiblePositionsBreakTheRing) {
  for (const uint64_t head :
       {~uint64_t{0}, uint64_t{8}, uint64_t{1}, layout_.command_bytes() + 16, uint64_t{1} << 63}) {
    auto made = Blob::CreateMapped({1, 1, wire::BlobKind::kRing, 0}, wire::kMinRingBytes, MemoryCharge());
    RingView ring(made->blob->mapping());
    ring.header().command_head.store(head);
    RingReader reader(ring.Commands(), &staging_);
    Message message;
    EXPECT_EQ(reader.Next(&message), RingReader::Result::kBroken) << head;
  }
}

TEST_F(RingTest, AMessageBeyondTheLimitIsRefusedBeforeItIsHeld) {
  RingReader reader(view().Commands(), &staging_);
  Message message;
  const std::vector<uint8_t> part(8000, 1);
  RingReader::Result result = RingReader::Result::kEmpty;
  for (int i = 0; i < 3000 && result == RingReader::Result::kEmpty; ++i) {
    Send(30, 1, part, wire::kFrameMore);
    result = reader.Next(&message);
  }
  EXPECT_EQ(result, RingReader::Result::kBroken);
  EXPECT_LE(staging_.used(), 2 * wire::kMaxMessageBytes);
}

TEST_F(RingTest, PrivateCopiesAreBounded) {
  MemoryQuota small(20'000);
  RingReader reader(view().Commands(), &small);
  Message message;
  const std::vector<uint8_t> part(8000, 1);
  for (int i = 0; i < 2; ++i) Send(30, 1, part, wire::kFrameMore);
  EXPECT_EQ(reader.Next(&message), RingReader::Result::kEmpty);
  Send(30, 1, part, wire::kFrameMore);
  EXPECT_EQ(reader.Next(&message), RingReader::Result::kBroken);
  EXPECT_TRUE(absl::IsResourceExhausted(reader.error()));
}

// ---- replies

TEST_F(RingTest, ALongReplyIsSplitAndCarriesItsRequestsSequence) {
  const std::atomic<bool> stop{false};
  ReplyWriter writer(view().Replies(), view().max_reply_payload(), absl::Seconds(10), &stop);
  std::vector<uint8_t> payload(10'000);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 7);
  ASSERT_TRUE(writer.Write(33, 5, payload).ok());
  std::vector<uint8_t> got;
  wire::FrameHeader header;
  const uint8_t* bytes = nullptr;
  int frames = 0;
  while (replies_.Peek(&header, &bytes) == wire::RingConsumer::Result::kFrame) {
    EXPECT_EQ(header.opcode, 33);
    EXPECT_EQ(header.sequence, 5u);
    EXPECT_NE(header.flags & wire::kFrameReply, 0);
    got.insert(got.end(), bytes, bytes + header.size);
    EXPECT_EQ((header.flags & wire::kFrameMore) != 0, got.size() < payload.size());
    replies_.Pop();
    frames++;
  }
  EXPECT_GT(frames, 1);
  EXPECT_EQ(got, payload);
}

TEST_F(RingTest, AFullReplyRingIsWaitedForWithinABound) {
  const std::atomic<bool> stop{false};
  ReplyWriter writer(view().Replies(), view().max_reply_payload(), absl::Milliseconds(50), &stop);
  const std::vector<uint8_t> payload(3000);
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = writer.Write(20, 1, payload);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(RingTest, AReaderThatCatchesUpLetsTheWriterGoOn) {
  const std::atomic<bool> stop{false};
  ReplyWriter writer(view().Replies(), view().max_reply_payload(), absl::Seconds(60), &stop);
  std::thread reader([&] {
    wire::FrameHeader header;
    const uint8_t* bytes = nullptr;
    for (int got = 0; got < 50;) {
      if (replies_.Peek(&header, &bytes) != wire::RingConsumer::Result::kFrame) {
        absl::SleepFor(absl::Microseconds(100));
        continue;
      }
      replies_.Pop();
      got++;
    }
  });
  const std::vector<uint8_t> payload(3000);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(writer.Write(20, 1, payload).ok());
  reader.join();
}

// ---- the thread

class CountingHandler final : public RingHandler {
 public:
  absl::Status OnMessage(RingThread& ring, const Message& message) override {
    messages++;
    return message.header.opcode == 99 ? absl::InvalidArgumentError("opcode 99") : absl::OkStatus();
  }
  void OnProgress(RingThread&, uint64_t position) override { progress = position; }
  void OnError(RingThread&, const absl::Status&) override { errors++; }
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> progress{0};
  std::atomic<uint64_t> errors{0};
};

template <typename Condition>
bool Eventually(Condition condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Microseconds(200));
  }
  return true;
}

TEST_F(RingTest, ASleepingThreadIsWokenByTheDoorbellEveryTime) {
  auto doorbell = CreateEventFd(true);
  ASSERT_TRUE(doorbell.ok());
  CountingHandler handler;
  wire::WorkerStats stats{};
  RingThreadOptions options;
  options.staging = &staging_;
  options.stats = &stats;
  auto ring = RingThread::Start(options, blob_, doorbell->get(), &handler);
  ASSERT_TRUE(ring.ok());
  const RingView guest = view();
  for (uint64_t i = 1; i <= 200; ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(Eventually([&] { return guest.header().consumer_sleeping.load() == 1; }));
    }
    Send(20, i, {1});
    // The producer's half of the protocol; a lost wake-up would hang the next line.
    if (guest.header().consumer_sleeping.load(std::memory_order_seq_cst) != 0) SignalEventFd(doorbell->get());
    ASSERT_TRUE(Eventually([&] { return handler.progress.load() == producer_.position(); })) << i;
  }
  EXPECT_EQ(handler.messages, 200u);
  EXPECT_EQ(stats.frames, 200u);
  EXPECT_GT(stats.doorbells, 0u);
  (*ring)->Stop();
}

TEST_F(RingTest, ARefusedMessageEndsTheThreadAndIsNotExecuted) {
  auto doorbell = CreateEventFd(true);
  CountingHandler handler;
  wire::WorkerStats stats{};
  RingThreadOptions options;
  options.staging = &staging_;
  options.stats = &stats;
  Send(20, 1, {});
  Send(99, 2, {});
  Send(20, 3, {});
  auto ring = RingThread::Start(options, blob_, doorbell->get(), &handler);
  ASSERT_TRUE(ring.ok());
  ASSERT_TRUE(Eventually([&] { return handler.errors.load() == 1; }));
  (*ring)->Stop();
  EXPECT_EQ(handler.messages, 2u);
  EXPECT_EQ(view().header().command_tail.load(), 16u);
}

TEST_F(RingTest, FeedbackStaysInItsSlots) {
  const RingView ring = view();
  ring.StoreFeedback(3, 77);
  ring.StoreFeedback(ring.feedback_slots(), 88);
  ring.StoreFeedback(~uint64_t{0}, 99);
  uint64_t value = 0;
  std::memcpy(&value, blob_->mapping().data() + layout_.feedback_offset() + 3 * 8, 8);
  EXPECT_EQ(value, 77u);
  for (uint64_t offset = layout_.reply_offset(); offset < blob_->size(); ++offset) {
    ASSERT_EQ(blob_->mapping().data()[offset], 0);
  }
}

// ---- fences

class FenceTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> signaled_;
  FenceTracker fences_{[this](uint8_t, uint64_t id) { signaled_.push_back(id); }};
};

TEST_F(FenceTest, WaitsForItsRingsPosition) {
  fences_.Add({.ring = 0, .position = 100, .ring_idx = 0, .fence_id = 1});
  fences_.Add({.ring = 1, .position = 50, .ring_idx = 0, .fence_id = 2});
  fences_.OnRingProgress(0, 99);
  EXPECT_THAT(signaled_, ElementsAre());
  fences_.OnRingProgress(1, 50);
  fences_.OnRingProgress(0, 100);
  EXPECT_THAT(signaled_, ElementsAre(2, 1));
  fences_.Add({.ring = 0, .position = 80, .ring_idx = 0, .fence_id = 3});
  fences_.Add({.ring = 0, .position = 0, .ring_idx = 0, .fence_id = 4});
  EXPECT_THAT(signaled_, ElementsAre(2, 1, 3, 4));
  EXPECT_EQ(fences_.pending(), 0u);
}

TEST_F(FenceTest, ATimelineWaitsForWhatItsQueueHadWhenTheRingCameThere) {
  const auto queue = std::make_shared<QueueProgress>();
  fences_.Bind(5, queue);
  queue->submitted = 2;
  fences_.Add({.ring = 0, .position = 64, .ring_idx = 5, .fence_id = 1});
  fences_.OnRingProgress(0, 64);
  queue->submitted = 3;  // later work does not count
  EXPECT_THAT(signaled_, ElementsAre());
  queue->completed = 1;
  fences_.OnQueueProgress(queue.get());
  EXPECT_THAT(signaled_, ElementsAre());
  queue->completed = 2;
  fences_.OnQueueProgress(queue.get());
  EXPECT_THAT(signaled_, ElementsAre(1));
}

TEST_F(FenceTest, AnUnboundTimelineWaitsForTheRingOnly) {
  fences_.Add({.ring = 0, .position = 16, .ring_idx = 9, .fence_id = 1});
  fences_.OnRingProgress(0, 16);
  EXPECT_THAT(signaled_, ElementsAre(1));
}

TEST_F(FenceTest, AQueueOrRingThatGoesAwayLetsItsFencesGo) {
  const auto queue = std::make_shared<QueueProgress>();
  fences_.Bind(1, queue);
  queue->submitted = 1;
  fences_.Add({.ring = 0, .position = 0, .ring_idx = 1, .fence_id = 1});
  fences_.Add({.ring = 2, .position = 16, .ring_idx = 0, .fence_id = 2});
  fences_.OnQueueGone(queue.get());
  EXPECT_THAT(signaled_, ElementsAre(1));
  fences_.OnRingGone(2);
  EXPECT_THAT(signaled_, ElementsAre(1, 2));
  // A new ring of that number starts at 0.
  fences_.Add({.ring = 2, .position = 16, .ring_idx = 0, .fence_id = 3});
  EXPECT_EQ(fences_.pending(), 1u);
}

TEST_F(FenceTest, ALostContextSignalsEverythingNowAndLater) {
  const auto queue = std::make_shared<QueueProgress>();
  fences_.Bind(1, queue);
  queue->submitted = 1;
  fences_.Add({.ring = 0, .position = 0, .ring_idx = 1, .fence_id = 1});
  fences_.Add({.ring = 0, .position = 1000, .ring_idx = 0, .fence_id = 2});
  fences_.SignalAll();
  EXPECT_EQ(signaled_.size(), 2u);
  fences_.Add({.ring = 0, .position = 5000, .ring_idx = 1, .fence_id = 3});
  EXPECT_EQ(signaled_.size(), 3u);
  EXPECT_EQ(fences_.pending(), 0u);
}

TEST_F(FenceTest, TooManyPendingFencesAreRefused) {
  for (uint64_t i = 0; i < FenceTracker::kMaxPending; ++i) {
    ASSERT_TRUE(fences_.Add({.ring = 0, .position = 16 + i, .ring_idx = 0, .fence_id = i}));
  }
  EXPECT_FALSE(fences_.Add({.ring = 0, .position = 16, .ring_idx = 0, .fence_id = 9}));
}

TEST(FenceRaceTest, NoFenceIsLostBetweenProgressAndAdd) {
  std::atomic<uint64_t> signaled{0};
  FenceTracker fences([&](uint8_t, uint64_t) { signaled++; });
  constexpr uint64_t kCount = 20'000;
  std::thread ring([&] {
    for (uint64_t i = 1; i <= kCount; ++i) fences.OnRingProgress(0, i * 16);
  });
  for (uint64_t i = 1; i <= kCount; ++i) {
    while (!fences.Add({.ring = 0, .position = i * 16, .ring_idx = 0, .fence_id = i})) {
    }
  }
  ring.join();
  EXPECT_EQ(signaled, kCount);
}

// ---- reaper

TEST(ReaperTest, RunsJobsInOrderAndTellsWhenItIsIdle) {
  std::vector<int> order;
  Reaper reaper;
  for (int i = 0; i < 10; ++i) reaper.Post([&order, i] { order.push_back(i); });
  ASSERT_TRUE(reaper.WaitIdle(absl::Seconds(60)));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_FALSE(reaper.busy());
  EXPECT_EQ(reaper.RunningFor(), absl::ZeroDuration());
}

TEST(ReaperTest, AJobThatDoesNotEndIsSeen) {
  std::atomic<bool> go{false};
  Reaper reaper;
  reaper.Post([&] {
    while (!go) absl::SleepFor(absl::Milliseconds(1));
  });
  EXPECT_FALSE(reaper.WaitIdle(absl::Milliseconds(20)));
  EXPECT_GT(reaper.RunningFor(), absl::ZeroDuration());
  go = true;
  EXPECT_TRUE(reaper.WaitIdle(absl::Seconds(60)));
}

}  // namespace
}  // namespace sluice::worker
