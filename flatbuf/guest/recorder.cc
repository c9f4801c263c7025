#include "flatbuf/guest/recorder.h"

#include <new>

#include "flatbuf/guest/entry.h"
#include "flatbuf/vk/guest_send.h"
#include "flatbuf/vk/guest_stream.h"

namespace sluice::guest {
namespace {

// A freestanding environment ends where it has no memory; a program is told.
void* Allocate(size_t bytes) {
#if __STDC_HOSTED__
  return ::operator new(bytes, std::nothrow);
#else
  return ::operator new(bytes);
#endif
}

// The fields of CommandStream's table, by hand: the message is written front to back, straight into the ring.
//   root offset, vtable, table {vtable offset, end, begin_at, command_buffer, offsets of vectors}, vectors
// Every vector is {padding, length, elements, padding}, its elements 8-byte aligned.
constexpr uint16_t kVtable = 4;  // position of the vtable
enum Field : uint16_t { kCommandBuffer = 4, kBeginAt = 6, kEnd = 8, kOrder = 10, kPool = 12 };
constexpr uint16_t kMaxVtableBytes = 14 + 2 * vk::kStreamKinds;
constexpr size_t kMaxTableBytes = 24 + 4 * (2 + vk::kStreamKinds);

size_t Aligned(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

class Layout {
 public:
  Layout() { memset(head_, 0, sizeof(head_)); }
  void AddVector(uint16_t field, uint32_t length, size_t bytes) {
    Vector& v = vectors_[count_++];
    v.field = field;
    v.length = length;
    v.bytes = bytes;
  }
  // Total size of the message. Call after the last AddVector.
  size_t Finish(uint64_t command_buffer, uint32_t begin_at, bool end) {
    uint16_t last = kPool;
    for (size_t i = 0; i < count_; i++) last = vectors_[i].field > last ? vectors_[i].field : last;
    const auto vtable_bytes = static_cast<uint16_t>(last + 2);
    const size_t table = Aligned(kVtable + vtable_bytes);
    const auto table_bytes = static_cast<uint16_t>(24 + 4 * count_);
    Put<uint32_t>(0, static_cast<uint32_t>(table));
    Put<uint16_t>(kVtable, vtable_bytes);
    Put<uint16_t>(kVtable + 2, table_bytes);
    Put<int32_t>(table, static_cast<int32_t>(table - kVtable));
    Put<uint8_t>(table + 4, end ? 1 : 0);
    Put<uint32_t>(table + 8, begin_at);
    Put<uint64_t>(table + 16, command_buffer);
    Put<uint16_t>(kVtable + kCommandBuffer, 16);
    Put<uint16_t>(kVtable + kBeginAt, 8);
    Put<uint16_t>(kVtable + kEnd, 4);
    head_bytes_ = Aligned(table + table_bytes);
    size_t at = head_bytes_;
    for (size_t i = 0; i < count_; i++) {
      const size_t slot = 24 + 4 * i;
      Put<uint16_t>(kVtable + vectors_[i].field, static_cast<uint16_t>(slot));
      Put<uint32_t>(table + slot, static_cast<uint32_t>(at + 4 - (table + slot)));
      at += 8 + Aligned(vectors_[i].bytes);
    }
    return at;
  }
  void WriteHead(GuestChannel& channel) const { channel.Append(head_, head_bytes_); }
  // Vector `i`'s length; its elements follow, then WritePadding.
  void WriteLength(GuestChannel& channel, size_t i) const {
    const uint32_t words[2] = {0, vectors_[i].length};
    channel.Append(words, sizeof(words));
  }
  void WritePadding(GuestChannel& channel, size_t i) const {
    const uint64_t zero = 0;
    channel.Append(&zero, Aligned(vectors_[i].bytes) - vectors_[i].bytes);
  }

 private:
  template <typename T>
  void Put(size_t at, T value) {
    memcpy(head_ + at, &value, sizeof(value));
  }
  struct Vector {
    uint16_t field;
    uint32_t length;
    size_t bytes;
  };
  size_t head_bytes_ = 0;
  size_t count_ = 0;
  Vector vectors_[2 + vk::kStreamKinds];
  uint8_t head_[8 + kMaxVtableBytes + kMaxTableBytes + 8];
};

constinit Recorder idle_recorder;

}  // namespace

Recorder* Recorder::New() {
  void* memory = Allocate(sizeof(Recorder));
  return memory == nullptr ? nullptr : new (memory) Recorder;
}

Recorder& Recorder::Idle() {
  return idle_recorder;
}

void Recorder::FreeMemory() {
  Drop();
  ::operator delete(order_);
  ::operator delete(pool_);
  order_ = order_at_ = order_end_ = nullptr;
  pool_ = nullptr;
  order_capacity_ = pool_capacity_ = capacity_ = 0;
  for (auto& column : columns_) {
    ::operator delete(column.begin);
    column = {};
  }
}

void Recorder::Begin(GuestCommandBuffer* owner, const VkCommandBufferBeginInfo& begin) {
  Clear();
  owner_ = owner;
  failed_ = false;
  sent_ = 0;
  order_end_ = order_ + (order_capacity_ < kFirstCommands ? order_capacity_ : kFirstCommands);
  begin_at_ = guest::PoolImages(*this, &begin, 1);
}

VkResult Recorder::End() {
  return Flush(true) ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

void Recorder::Drop() {
  Clear();
  owner_ = nullptr;
  order_end_ = order_at_;
}

void Recorder::Clear() {
  for (uint16_t i = 0; i < used_count_; i++) {
    Column& column = columns_[used_[i]];
    column.at = column.end = column.begin;
  }
  used_count_ = 0;
  order_at_ = order_;
  pool_size_ = 0;
  tail_bytes_ = 0;
  begin_at_ = 0;
}

// From here on nothing is recorded; vkEndCommandBuffer says so.
bool Recorder::Failed() {
  failed_ = true;
  Clear();
  order_end_ = order_at_;
  return false;
}

bool Recorder::Grow(void** memory, size_t used, size_t old_capacity, size_t capacity) {
  void* more = Allocate(capacity);
  if (more == nullptr) return Failed();
  if (used != 0) memcpy(more, *memory, used);
  ::operator delete(*memory);
  *memory = more;
  capacity_ += capacity - old_capacity;
  return true;
}

bool Recorder::MoreOrder() {
  if (owner_ == nullptr || failed_) return false;
  const auto used = static_cast<size_t>(order_at_ - order_);
  const size_t limit = sent_ == 0 ? kFirstCommands : kMaxCommands;
  if (used >= limit) {
    // The next piece may be longer: the worker is busy by now.
    if (!Flush(false)) return false;
    return order_at_ != order_end_ || MoreOrder();
  }
  if (used == order_capacity_) {
    void* memory = order_;
    const size_t capacity = order_capacity_ == 0 ? 64 : order_capacity_ * 4;
    if (!Grow(&memory, used * 2, order_capacity_ * 2, capacity * 2)) return false;
    order_ = static_cast<uint16_t*>(memory);
    order_capacity_ = capacity;
    order_at_ = order_ + used;
  }
  order_end_ = order_ + (order_capacity_ < limit ? order_capacity_ : limit);
  return true;
}

bool Recorder::Room(uint16_t kind) {
  if (order_at_ == order_end_ && !MoreOrder()) return false;
  Column& column = columns_[kind];
  const size_t row = kStreamColumns[kind].row_bytes;
  if (column.at == column.begin && column.end == column.begin) {
    used_[used_count_++] = kind;
    column.end = column.begin + column.capacity;
  }
  if (static_cast<size_t>(column.end - column.at) >= row) return true;
  const auto used = static_cast<size_t>(column.at - column.begin);
  const size_t capacity = column.capacity == 0 ? 16 * row : column.capacity * 2;
  void* memory = column.begin;
  if (!Grow(&memory, used, column.capacity, capacity)) return false;
  column.begin = static_cast<uint8_t*>(memory);
  column.at = column.begin + used;
  column.end = column.begin + capacity;
  column.capacity = capacity;
  return true;
}

bool Recorder::MorePool(uint64_t words) {
  if (owner_ == nullptr || failed_) return false;
  if (words > wire::kMaxMessageBytes / 8) return Failed();
  size_t capacity = pool_capacity_ == 0 ? 64 : pool_capacity_ * 2;
  while (capacity - pool_size_ < words) capacity *= 2;
  void* memory = pool_;
  if (!Grow(&memory, pool_size_ * 8, pool_capacity_ * 8, capacity * 8)) return false;
  pool_ = static_cast<uint64_t*>(memory);
  pool_capacity_ = capacity;
  return true;
}

uint32_t Recorder::Tail(const void* bytes, uint64_t size) {
  if (owner_ == nullptr || failed_) return 0;
  if (size > wire::kMaxMessageBytes / 2) {
    Failed();
    return 0;
  }
  tail_ = bytes;
  tail_bytes_ = size;
  return static_cast<uint32_t>(pool_size_ + 1);
}

bool Recorder::Flush(bool end) {
  if (owner_ == nullptr) return false;
  if (failed_) {
    if (sent_ != 0) {
      ChannelLock lock(*owner_->channel);
      Send_vkResetCommandBuffer(lock.channel(), FromState<VkCommandBuffer>(owner_), 0);
    }
    return false;
  }
  return Send(end);
}

bool Recorder::Send(bool end) {
  Layout layout;
  const auto commands = static_cast<size_t>(order_at_ - order_);
  const size_t pool_bytes = pool_size_ * 8 + tail_bytes_;
  layout.AddVector(kOrder, static_cast<uint32_t>(commands), commands * sizeof(uint16_t));
  layout.AddVector(kPool, static_cast<uint32_t>((pool_bytes + 7) / 8), pool_bytes);
  for (uint16_t i = 0; i < used_count_; i++) {
    const Column& column = columns_[used_[i]];
    const auto bytes = static_cast<size_t>(column.at - column.begin);
    const StreamKind kind = kStreamColumns[used_[i]];
    layout.AddVector(kind.field, static_cast<uint32_t>(bytes / kind.row_bytes), bytes);
  }
  const size_t size = layout.Finish(owner_->id, begin_at_, end);
  // A long recording is worth waking the worker for: it replays while the guest goes on. A short one travels with its
  // submit.
  const bool wake = !end || sent_ != 0;
  if (size > wire::kMaxMessageBytes) return Failed() || Flush(end);
  bool ok;
  {
    ChannelLock lock(*owner_->channel);
    GuestChannel& channel = lock.channel();
    ok = channel.Start(static_cast<uint16_t>(vk::Opcode::kCommandStream), 0, size);
    if (ok) {
      layout.WriteHead(channel);
      layout.WriteLength(channel, 0);
      channel.Append(order_, commands * sizeof(uint16_t));
      layout.WritePadding(channel, 0);
      layout.WriteLength(channel, 1);
      channel.Append(pool_, pool_size_ * 8);
      channel.Append(tail_, tail_bytes_);
      layout.WritePadding(channel, 1);
      for (uint16_t i = 0; i < used_count_; i++) {
        const Column& column = columns_[used_[i]];
        layout.WriteLength(channel, 2 + i);
        channel.Append(column.begin, static_cast<size_t>(column.at - column.begin));
        layout.WritePadding(channel, 2 + i);
      }
      ok = channel.Finish(wake);
    }
  }
  Clear();
  sent_commands_ += commands;
  sent_++;
  order_end_ = order_ + (order_capacity_ < kMaxCommands ? order_capacity_ : kMaxCommands);
  return ok;
}

}  // namespace sluice::guest
