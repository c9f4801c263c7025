#include "flatbuf/guest/channel.h"

#include <string.h>

#include "flatbuf/schema_hash.h"

namespace sluice::guest {
namespace {

ChannelSource* channel_source = nullptr;

class SingleChannel final : public ChannelSource {
 public:
  GuestChannel* Open() override { return channel; }
  void Close(GuestChannel*) override {}
  GuestChannel* channel = nullptr;
};
SingleChannel single_channel;

// Looks at shared memory before the platform is asked to sleep: some ten microseconds.
constexpr int kSpins = 160;
// Of them, the first: an answer that comes at once is not missed for a system call.
constexpr int kQuickSpins = 64;

// A pause between two looks, the `spins`th.
void Pause(Platform& platform, int spins) {
  if (spins < kQuickSpins) return wire::CpuPause();
  for (int i = 0; i < 16; i++) wire::CpuPause();
  platform.Yield();
}

// Of host memory that a driver imports; what is beyond this is nonsense.
constexpr uint64_t kLargestAlignment = uint64_t{2} << 20;

}  // namespace

void SetChannelSource(ChannelSource* source) {
  channel_source = source;
}
ChannelSource* CurrentChannelSource() {
  return channel_source;
}
void SetChannel(GuestChannel* channel) {
  single_channel.channel = channel;
  SetChannelSource(channel == nullptr ? nullptr : &single_channel);
}
GuestChannel* CurrentChannel() {
  return single_channel.channel;
}

uint64_t IdAllocator::New() {
  uint32_t index = 0;
  // Fresh indices first in small tables, so that a stale id stays stale for long.
  if (free_begin_ < free_.size() &&
      (free_.size() - free_begin_ >= 1024 || generations_.size() == wire::kMaxObjectIndex)) {
    index = free_[free_begin_++];
    if (free_begin_ >= 4096) {
      free_.RemoveFront(free_begin_);
      free_begin_ = 0;
    }
  } else if (generations_.size() < wire::kMaxObjectIndex) {
    generations_.Push(0);
    notes_.Push({});
    index = static_cast<uint32_t>(generations_.size());
  } else {
    return 0;
  }
  live_++;
  return uint64_t{generations_[index - 1]} << 32 | index;
}

void IdAllocator::Free(uint64_t id) {
  const uint32_t index = static_cast<uint32_t>(id);
  if (index == 0 || index > generations_.size() || generations_[index - 1] != id >> 32) return;
  generations_[index - 1]++;
  free_.Push(index);
  live_--;
}

bool GuestChannel::Init(void* ring_blob, uint64_t blob_bytes, Platform* platform) {
  if (!wire::RingLayout::Valid(blob_bytes)) return false;
  auto* header = static_cast<wire::RingHeader*>(ring_blob);
  if (header->magic != wire::kCapsetMagic || header->protocol_version != wire::kProtocolVersion ||
      header->schema_hash != wire::kSchemaHash) {
    return false;
  }
  auto* base = static_cast<uint8_t*>(ring_blob);
  layout_.blob_bytes = blob_bytes;
  producer_ = wire::RingProducer(base + layout_.command_offset(), layout_.command_bytes(), &header->command_head,
                                 &header->command_tail);
  replies_ = wire::RingConsumer(base + layout_.reply_offset(), layout_.reply_bytes(), &header->reply_head,
                                &header->reply_tail);
  void* slots = base + layout_.feedback_offset();
  slots_ = static_cast<const volatile uint64_t*>(slots);
  const uint64_t alignment = header->memory_alignment;
  if (alignment > memory_alignment_ && alignment <= kLargestAlignment && (alignment & (alignment - 1)) == 0) {
    memory_alignment_ = alignment;
  }
  platform_ = platform;
  header_ = header;
  return true;
}

void GuestChannel::Wake() {
  woken_position_ = position();
  RingIfAsleep();
}

void GuestChannel::RingIfAsleep() {
  // seq_cst pairs with RingProducer::Commit: either we see the consumer asleep, or it sees our frame. Whoever takes the
  // flag rings: once a sleep, however much is sent until the worker is on its feet.
  std::atomic<uint32_t>& asleep = header_->consumer_sleeping;
  if (asleep.load(std::memory_order_seq_cst) != 0 && asleep.exchange(0, std::memory_order_seq_cst) != 0) {
    platform_->RingDoorbell();
  }
}

void GuestChannel::WakeOwn() {
  wire::WakeWord& word = header_->completion;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (word.sleepers.load(std::memory_order_relaxed) == 0) return;
  word.count.fetch_add(1, std::memory_order_seq_cst);
  platform_->WakeSleepers(&word.count);
}

uint8_t* GuestChannel::ReserveOrWait(uint64_t payload) {
  for (int spins = 0;; spins++) {
    uint8_t* frame = producer_.Reserve(payload);
    if (frame != nullptr) return frame;
    if (lost()) return nullptr;
    if (spins == 0) Wake();
    if (spins < kSpins) {
      Pause(*platform_, spins);
    } else {
      SleepUnless(header_->progress, {0, position()}, [&] { return producer_.Reserve(payload) != nullptr || lost(); });
    }
  }
}

void GuestChannel::WaitExecuted(uint64_t position) {
  const auto executed = [&] {
    const uint64_t tail = header_->command_tail.load(std::memory_order_acquire);
    return static_cast<int64_t>(tail - position) >= 0 || lost();
  };
  for (int spins = 0; !executed(); spins++) {
    if (spins == 0) RingIfAsleep();
    if (spins < kSpins) {
      Pause(*platform_, spins);
    } else {
      SleepUnless(header_->progress, {0, position}, executed);
    }
  }
}

void GuestChannel::NextFrame() {
  const uint64_t most = layout_.max_frame_payload(layout_.command_bytes());
  frame_bytes_ = message_left_ < most ? message_left_ : static_cast<size_t>(most);
  frame_used_ = 0;
  frame_ = ReserveOrWait(frame_bytes_);
  if (frame_ == nullptr) return;
  message_left_ -= frame_bytes_;
  const uint16_t more = message_left_ != 0 ? wire::kFrameMore : 0;
  const wire::FrameHeader header = {message_opcode_, static_cast<uint16_t>(message_flags_ | more),
                                    static_cast<uint32_t>(frame_bytes_), sequence_};
  memcpy(frame_, &header, sizeof(header));
}

bool GuestChannel::Start(uint16_t opcode, uint16_t flags, size_t size) {
  frame_ = nullptr;
  if (lost()) return false;
  if (size > wire::kMaxMessageBytes) {
    MarkLost();  // cannot be said on this wire; what was recorded is gone
    return false;
  }
  sequence_++;
  message_opcode_ = opcode;
  message_flags_ = flags;
  message_left_ = size;
  NextFrame();
  return frame_ != nullptr;
}

void GuestChannel::Append(const void* data, size_t size) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (size != 0 && frame_ != nullptr) {
    if (frame_used_ == frame_bytes_) {
      producer_.Commit(frame_bytes_);
      NextFrame();
      continue;
    }
    const size_t part = size < frame_bytes_ - frame_used_ ? size : frame_bytes_ - frame_used_;
    memcpy(frame_ + sizeof(wire::FrameHeader) + frame_used_, from, part);
    frame_used_ += part;
    from += part;
    size -= part;
  }
}

bool GuestChannel::Finish(bool wake) {
  if (frame_ == nullptr) return false;
  producer_.Commit(frame_bytes_);
  frame_ = nullptr;
  if (wake || position() - woken_position_ > layout_.command_bytes() / 8) Wake();
  return true;
}

bool GuestChannel::Send(uint16_t opcode, const uint8_t* payload, size_t size, bool wake) {
  if (!Start(opcode, 0, size)) return false;
  Append(payload, size);
  return Finish(wake);
}

bool GuestChannel::WaitReplyFrame(wire::FrameHeader* header, const uint8_t** payload) {
  for (int spins = 0;; spins++) {
    switch (replies_.Peek(header, payload)) {
      case wire::RingConsumer::Result::kFrame:
        return true;
      case wire::RingConsumer::Result::kBroken:
        MarkLost();
        return false;
      case wire::RingConsumer::Result::kEmpty:
        break;
    }
    if (lost()) return false;
    if (spins < kSpins) {
      Pause(*platform_, spins);
    } else {
      SleepUnless(header_->progress, {0, position()}, [&] { return replies_.Available() || lost(); });
    }
  }
}

bool GuestChannel::ReadReply(uint16_t opcode, uint64_t sequence) {
  reply_.Clear();
  reply_bytes_ = 0;
  for (;;) {
    wire::FrameHeader header;
    const uint8_t* payload = nullptr;
    if (!WaitReplyFrame(&header, &payload)) return false;
    if (header.sequence != sequence || header.opcode != opcode || reply_bytes_ + header.size > wire::kMaxMessageBytes) {
      MarkLost();  // an error reply, or an answer to something else
      return false;
    }
    reply_.Resize((reply_bytes_ + header.size + 7) / 8, 0);
    void* words = reply_.data();
    wire::CopyFromShared(static_cast<uint8_t*>(words) + reply_bytes_, payload, header.size);
    reply_bytes_ += header.size;
    replies_.Pop();
    if ((header.flags & wire::kFrameMore) == 0) return true;
  }
}

const uint8_t* GuestChannel::Call(uint16_t opcode, const uint8_t* payload, size_t size, size_t* reply_size) {
  if (!Start(opcode, wire::kFrameReply, size)) return nullptr;
  Append(payload, size);
  if (!Finish(true)) return nullptr;
  if (!ReadReply(opcode, sequence_)) return nullptr;
  *reply_size = reply_bytes_;
  const void* words = reply_.data();
  return static_cast<const uint8_t*>(words);
}

int64_t GuestChannel::NewSlot(uint64_t* value) {
  uint32_t slot = next_slot_;
  if (!free_slots_.empty()) {
    slot = free_slots_.back();
    free_slots_.Pop();
  } else if (next_slot_ < layout_.feedback_slots()) {
    next_slot_++;
    slot_values_.Push(0);
  } else {
    return -1;
  }
  *value = slot_values_[slot];
  return slot;
}

void GuestChannel::FreeSlot(uint32_t slot, uint64_t last_value) {
  slot_values_[slot] = last_value;
  free_slots_.Push(slot);
}

uint64_t GuestChannel::SlotValue(uint32_t slot) const {
  return __atomic_load_n(&slots_[slot], __ATOMIC_ACQUIRE);
}

uint8_t GuestChannel::NewTimeline() {
  for (uint8_t i = 1; i < wire::kMaxTimelines; i++) {
    if ((timelines_ >> i & 1) == 0) {
      timelines_ |= uint64_t{1} << i;
      return i;
    }
  }
  return wire::kMaxTimelines - 1;
}

}  // namespace sluice::guest
