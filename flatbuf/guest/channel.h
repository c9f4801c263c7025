// File: channel.h
//
// The guest's end of one context's ring: writes request frames, reads replies, hands out object ids and feedback slots,
// and knows whether the context is lost. The generated Vulkan entry points sit on top. Freestanding.
//
// Owner and threads: one channel per Vulkan instance. Everything below except lost() and SlotValue() needs the platform
// lock (Lock()/Unlock(), which the entry points take).
#ifndef SLUICE_FLATBUF_GUEST_CHANNEL_H_
#define SLUICE_FLATBUF_GUEST_CHANNEL_H_

#include <stddef.h>
#include <stdint.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/memory_pool.h"
#include "flatbuf/guest/platform.h"
#include "flatbuf/guest/requirements.h"
#include "flatbuf/ring.h"
#include "flatbuf/spin.h"
#include "flatbuf/wire.h"
#include "flatbuffers/flatbuffers.h"

namespace sluice::guest {

// What the entry points remember with an object that has no structure of its own.
struct IdNote {
  uint64_t a = 0, b = 0;
};

// Object ids: index (1 .. kMaxObjectIndex) in the low half, generation in the high half. A freed index comes back with
// the next generation, after all others that are free, so that a stale id is noticed by the worker.
class IdAllocator {
 public:
  uint64_t New();  // 0 when all are taken
  void Free(uint64_t id);
  uint32_t live() const { return live_; }
  // Free to use while the id lives; holds anything when it is new. For ids that New() returned.
  IdNote& note(uint64_t id) { return notes_[static_cast<uint32_t>(id) - 1]; }

 private:
  Buffer<uint32_t> generations_;  // by index - 1
  Buffer<IdNote> notes_;          // likewise
  Buffer<uint32_t> free_;         // a queue: [free_begin_, size)
  size_t free_begin_ = 0;
  uint32_t live_ = 0;
};

class GuestChannel {
 public:
  GuestChannel() = default;
  GuestChannel(const GuestChannel&) = delete;
  GuestChannel& operator=(const GuestChannel&) = delete;

  // Takes a mapped ring blob that the worker has initialised. False if it is of another protocol version or schema, or
  // the size is not a ring's. Both outlive the channel.
  bool Init(void* ring_blob, uint64_t blob_bytes, Platform* platform);

  // Sends one message, split into frames when long. `wake`: make sure that the worker looks at it soon (commands that
  // nobody waits for travel with the next one that does). False: the context is lost.
  bool Send(uint16_t opcode, const uint8_t* payload, size_t size, bool wake);
  // The same for a message of `size` bytes that is written piece by piece straight into the ring: Start, Append until
  // there are `size` bytes, Finish. Nothing else is sent in between. False: the context is lost.
  bool Start(uint16_t opcode, uint16_t flags, size_t size);
  void Append(const void* data, size_t size);
  bool Finish(bool wake);
  // `payload` may lie in fbb(). Sends and waits for the reply, which stays valid until the next Call. Null: lost, or
  // the reply is not one for `opcode`.
  const uint8_t* Call(uint16_t opcode, const uint8_t* payload, size_t size, size_t* reply_size);

  bool lost() const {
    if (header_ == nullptr || local_lost_.load(std::memory_order_acquire)) return true;
    // A program that polls without ever sleeping hears of a dead worker too.
    const uint32_t looks = looks_.load(std::memory_order_relaxed) + 1;
    looks_.store(looks, std::memory_order_relaxed);  // a look more or less does not matter
    if (looks % 1024 == 0) platform_->LookAtPeer();
    return header_->status.load(std::memory_order_acquire) != 0;
  }
  // From here on the context counts as lost, whatever the ring says (a child process that has no right to it).
  void MarkLost() {
    local_lost_.store(true, std::memory_order_release);
    if (header_ != nullptr) WakeOwn();
  }
  // Ring position after everything sent so far: what a SubmitCommand waits for.
  uint64_t position() const { return producer_.position(); }
  // Ring position up to which the worker has executed.
  uint64_t executed() const { return header_->command_tail.load(std::memory_order_acquire); }

  // Host-visible memory.
  MemoryPool& memory() { return memory_; }
  RequirementCache& requirements() { return requirements_; }
  // What offsets and sizes of allocations in blobs are multiples of, bytes (a power of two).
  uint64_t memory_alignment() const { return memory_alignment_; }
  // The front-end's quota for device memory and blobs, bytes; 0: not known. And what all its contexts hold of it now.
  uint64_t memory_limit() const { return header_->memory_limit; }
  uint64_t memory_used() const { return header_->memory_used.load(std::memory_order_relaxed); }

  IdAllocator& ids() { return ids_; }
  // Where messages are built.
  flatbuffers::FlatBufferBuilder& fbb() { return fbb_; }
  // A feedback slot and its last value (SlotValue is at least that). -1 when all are taken.
  int64_t NewSlot(uint64_t* value);
  void FreeSlot(uint32_t slot, uint64_t last_value);
  // What the worker has published in the slot.
  uint64_t SlotValue(uint32_t slot) const;

  // A timeline (virtio-gpu ring_idx, 1..63) for a queue. When all are taken, queues share the last.
  uint8_t NewTimeline();
  void FreeTimeline(uint8_t timeline) { timelines_ &= ~(uint64_t{1} << timeline); }

  // Sleeps in the platform until the worker wakes `word`, unless `done()` holds already. The caller looks again.
  template <typename Done>
  void SleepUnless(wire::WakeWord& word, const Awaited& awaited, Done done) {
    const uint32_t seen = word.count.load(std::memory_order_seq_cst);
    word.sleepers.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!done()) platform_->SleepOn(&word.count, seen, awaited);
    word.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
  // Makes sure that the worker looks at what was sent. With the lock.
  void Kick() { Wake(); }
  // Waits until the worker has executed the ring up to `position`, or the context is lost. With or without the lock.
  void WaitExecuted(uint64_t position);
  // Slots have news (RingHeader::completion).
  wire::WakeWord& completion() { return header_->completion; }
  // What this program's own threads wait for has come about without the worker. Any thread.
  void WakeOwn();
  // How long waits for completions last.
  wire::AdaptiveSpin& spin() { return spin_; }

  Platform& platform() { return *platform_; }
  void Lock() { platform_->Lock(); }
  void Unlock() { platform_->Unlock(); }

 private:
  uint8_t* ReserveOrWait(uint64_t payload);
  void Wake();
  void RingIfAsleep();
  void NextFrame();
  // False: lost. Polls the reply ring, then sleeps in the platform.
  bool ReadReply(uint16_t opcode, uint64_t sequence);
  bool WaitReplyFrame(wire::FrameHeader* header, const uint8_t** payload);

  alignas(64) mutable std::atomic<uint32_t> looks_{0};  // on a line of its own: every poller writes it
  alignas(64) Platform* platform_ = nullptr;
  wire::RingHeader* header_ = nullptr;
  const volatile uint64_t* slots_ = nullptr;
  wire::RingLayout layout_;
  wire::RingProducer producer_;
  wire::RingConsumer replies_;
  uint64_t sequence_ = 0;
  uint64_t woken_position_ = 0;
  // The message that is being written.
  uint8_t* frame_ = nullptr;  // null: it cannot be sent any more
  uint16_t message_opcode_ = 0, message_flags_ = 0;
  size_t message_left_ = 0;  // bytes not in a frame yet
  size_t frame_bytes_ = 0, frame_used_ = 0;
  std::atomic<bool> local_lost_{false};
  wire::AdaptiveSpin spin_;
  uint64_t timelines_ = 1;  // taken; 0 is the ring itself
  IdAllocator ids_;
  uint64_t memory_alignment_ = 4096;
  MemoryPool memory_;
  RequirementCache requirements_;
  flatbuffers::FlatBufferBuilder fbb_{1024};
  Buffer<uint64_t> slot_values_;  // by slot: last value promised
  Buffer<uint32_t> free_slots_;
  uint32_t next_slot_ = 0;
  Buffer<uint64_t> reply_;  // uint64_t for alignment
  size_t reply_bytes_ = 0;
};

// Where vkCreateInstance takes its channel from and vkDestroyInstance leaves it. All objects of an instance name their
// channel (Dispatchable::channel).
class ChannelSource {
 public:
  virtual GuestChannel* Open() = 0;  // null: there is none
  virtual void Close(GuestChannel* channel) = 0;

 protected:
  ~ChannelSource() = default;
};
// Not owned. Null: as if no driver were there.
void SetChannelSource(ChannelSource* source);
ChannelSource* CurrentChannelSource();

// For programs with one channel: a source that hands out this one, every time. Null takes it away.
void SetChannel(GuestChannel* channel);
GuestChannel* CurrentChannel();

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_CHANNEL_H_
