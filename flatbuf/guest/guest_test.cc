// The guest runtime's parts, against a ring with nobody behind it, or somebody who lies.
#include <gtest/gtest.h>

#include <new>
#include <set>
#include <vector>

#include "flatbuf/guest/channel.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/vk/opcodes.h"

namespace sluice::guest {
namespace {

TEST(IdAllocator, IdsAreUniqueWhileTheyLiveAndStaleOnesDoNotComeBack) {
  IdAllocator ids;
  std::set<uint64_t> seen;
  for (int i = 0; i < 10'000; i++) {
    const uint64_t id = ids.New();
    ASSERT_NE(id, 0u);
    ASSERT_GE(static_cast<uint32_t>(id), 1u);
    ASSERT_LE(static_cast<uint32_t>(id), wire::kMaxObjectIndex);
    ASSERT_TRUE(seen.insert(id).second) << "an id comes back with another generation";
    ids.Free(id);
  }
  EXPECT_EQ(ids.live(), 0u);
}

TEST(IdAllocator, FreeingTwiceOrNonsenseDoesNothing) {
  IdAllocator ids;
  const uint64_t id = ids.New();
  ids.Free(id);
  ids.Free(id);
  ids.Free(0);
  ids.Free(77);
  EXPECT_EQ(ids.live(), 0u);
}

TEST(IdAllocator, AllIndicesCanBeUsedAndThenNoMore) {
  IdAllocator ids;
  for (uint32_t i = 0; i < wire::kMaxObjectIndex; i++) ASSERT_NE(ids.New(), 0u);
  EXPECT_EQ(ids.New(), 0u);
  ids.Free(5);
  EXPECT_EQ(ids.New(), uint64_t{1} << 32 | 5);
}

// A worker that answers with what a test says, whenever the guest waits.
class FakePeer final : public Platform {
 public:
  static constexpr uint64_t kBytes = 64 * 1024;
  FakePeer() : memory_(kBytes / sizeof(Line)) {
    void* bytes = memory_.data();
    header = new (bytes) wire::RingHeader{};
    header->magic = wire::kCapsetMagic;
    header->protocol_version = wire::kProtocolVersion;
    header->schema_hash = wire::kSchemaHash;
    const wire::RingLayout layout{kBytes};
    auto* base = static_cast<uint8_t*>(bytes);
    commands = wire::RingConsumer(base + layout.command_offset(), layout.command_bytes(), &header->command_head,
                                  &header->command_tail);
    replies = wire::RingProducer(base + layout.reply_offset(), layout.reply_bytes(), &header->reply_head,
                                 &header->reply_tail);
  }
  void* blob() { return memory_.data(); }
  void Answer(uint16_t opcode, uint16_t flags, uint64_t sequence, const std::vector<uint8_t>& payload) {
    uint8_t* frame = replies.Reserve(payload.size());
    const wire::FrameHeader h = {opcode, flags, static_cast<uint32_t>(payload.size()), sequence};
    memcpy(frame, &h, sizeof(h));
    memcpy(frame + sizeof(h), payload.data(), payload.size());
    replies.Commit(payload.size());
  }
  void RingDoorbell() override { doorbells++; }
  void WaitForPosition(uint64_t) override {
    if (++waits > 10) header->status = 3;  // a test must end
  }
  void WaitTimeline(uint32_t, uint64_t, uint64_t) override {}
  bool AllocateSharedMemory(uint64_t, SharedMemory*) override { return false; }
  void FreeSharedMemory(const SharedMemory&) override {}
  void Yield() override {}

  wire::RingHeader* header;
  wire::RingConsumer commands;
  wire::RingProducer replies;
  int doorbells = 0, waits = 0;

 private:
  struct alignas(64) Line {
    uint64_t words[8];
  };
  std::vector<Line> memory_;
};

TEST(GuestChannel, RefusesARingOfAnotherSchemaOrSize) {
  FakePeer peer;
  GuestChannel channel;
  EXPECT_TRUE(channel.lost());
  EXPECT_FALSE(channel.Init(peer.blob(), 12345, &peer));
  peer.header->schema_hash++;
  EXPECT_FALSE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  peer.header->schema_hash--;
  EXPECT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  EXPECT_FALSE(channel.lost());
}

TEST(GuestChannel, DoorbellsOnlyWhenTheConsumerSleepsAndSomebodyCares) {
  FakePeer peer;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  const uint8_t bytes[16] = {};
  channel.Send(16, bytes, 16, true);
  EXPECT_EQ(peer.doorbells, 0);
  peer.header->consumer_sleeping = 1;
  channel.Send(16, bytes, 16, false);
  EXPECT_EQ(peer.doorbells, 0);
  channel.Send(16, bytes, 16, true);
  EXPECT_EQ(peer.doorbells, 1);
  // Once a sleep: the consumer has been told, and may not be on its feet yet.
  channel.Send(16, bytes, 16, true);
  EXPECT_EQ(peer.doorbells, 1);
  peer.header->consumer_sleeping = 1;
  channel.Send(16, bytes, 16, true);
  EXPECT_EQ(peer.doorbells, 2);
}

TEST(GuestChannel, LongRepliesAreJoined) {
  FakePeer peer;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  peer.Answer(20, wire::kFrameReply | wire::kFrameMore, 1, {1, 2, 3});
  peer.Answer(20, wire::kFrameReply, 1, {4, 5});
  const uint8_t request[4] = {};
  size_t size = 0;
  const uint8_t* reply = channel.Call(20, request, 4, &size);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(std::vector<uint8_t>(reply, reply + size), (std::vector<uint8_t>{1, 2, 3, 4, 5}));
}

TEST(GuestChannel, AnAnswerToSomethingElseLosesTheContext) {
  FakePeer peer;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  peer.Answer(20, wire::kFrameReply, 99, {1});
  const uint8_t request[4] = {};
  size_t size = 0;
  EXPECT_EQ(channel.Call(20, request, 4, &size), nullptr);
  EXPECT_TRUE(channel.lost());
  EXPECT_FALSE(channel.Send(20, request, 4, true));
}

TEST(GuestChannel, AWorkerThatIsGoneEndsEveryWait) {
  FakePeer peer;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  const std::vector<uint8_t> bytes(8000);
  bool sent = true;
  for (int i = 0; i < 100 && sent; i++) sent = channel.Send(20, bytes.data(), bytes.size(), false);
  EXPECT_FALSE(sent) << "a full ring that nobody empties, until the status says why";
  EXPECT_TRUE(channel.lost());
}

TEST(GuestChannel, SlotsRunOutAndComeBackWithTheirCount) {
  FakePeer peer;
  GuestChannel channel;
  ASSERT_TRUE(channel.Init(peer.blob(), FakePeer::kBytes, &peer));
  uint64_t value = 1;
  const uint64_t slots = wire::RingLayout{FakePeer::kBytes}.feedback_slots();
  for (uint64_t i = 0; i < slots; i++) ASSERT_EQ(channel.NewSlot(&value), static_cast<int64_t>(i));
  EXPECT_EQ(channel.NewSlot(&value), -1);
  channel.FreeSlot(3, 17);
  EXPECT_EQ(channel.NewSlot(&value), 3);
  EXPECT_EQ(value, 17u);
}

TEST(Schema, EveryFrameOpcodeHasARootTable) {
  for (uint16_t op = vk::kFirstFrameOpcode; op < vk::kFirstStreamOpcode; op++) {
    ASSERT_NE(vk::RootTable(op, false), nullptr) << op;
    ASSERT_NE(vk::OpcodeName(op), nullptr) << op;
  }
  for (uint16_t op = vk::kFirstStreamOpcode; op < vk::kEndOpcode; op++) {
    EXPECT_EQ(vk::RootTable(op, false), nullptr) << op;
    EXPECT_NE(vk::OpcodeName(op), nullptr) << op;
  }
  EXPECT_EQ(vk::RootTable(vk::kEndOpcode, false), nullptr);
}

}  // namespace
}  // namespace sluice::guest
