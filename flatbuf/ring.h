// File: ring.h
//
// The frame ring: two single-producer single-consumer byte rings (commands to the worker, replies to the guest) and an
// array of feedback slots, in one shared blob of S bytes (S a power of two). Freestanding; used by guests, the ICD and
// the worker.
//
//   offset 0      RingHeader (4 KiB)
//   offset S/8    feedback slots: S/64 x uint64, each written by the worker, read by the guest
//   offset S/4    reply ring data, S/4 bytes
//   offset S/2    command ring data, S/2 bytes
//
// Positions count bytes since the start and never wrap; the data offset is position & (size - 1). Frames are 16-byte
// aligned and contiguous; a producer that does not fit before the end writes a kOpcodePad frame and starts over at
// offset 0.
//
// Trust: each side keeps its own position in private memory and only *publishes* it. What it reads of the other side's
// is checked (RingConsumer::Available) and a frame is copied out before it is looked at. A peer can spoil its own
// context, no more.
//
//   RingProducer commands(layout.commands(base));
//   if (uint8_t* p = commands.Reserve(bytes)) { ...write frame...; commands.Commit(bytes); }
//   if (commands.ConsumerSleeps()) doorbell();
#ifndef SLUICE_FLATBUF_RING_H_
#define SLUICE_FLATBUF_RING_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "flatbuf/wire.h"

namespace sluice::wire {

// A word that guest threads sleep on until the worker has news. The sleeper: sleepers + 1, full fence, look once more
// at what it waits for, sleep while `count` is what it was before the look (a futex where both are processes of one
// kernel), sleepers - 1. The worker: publish, full fence, look at `sleepers`; if it is not 0, count + 1 and wake all.
// One of the two sees the other, and nobody pays for waking while nobody sleeps.
struct WakeWord {
  alignas(64) std::atomic<uint32_t> count;     // worker (and the guest itself, for its own threads)
  alignas(64) std::atomic<uint32_t> sleepers;  // guest: threads that sleep or are about to
};

// One cache line per writer, so that the two sides do not fight over lines.
struct RingHeader {
  uint32_t magic;  // kCapsetMagic, written once by the worker
  uint32_t protocol_version;
  uint64_t schema_hash;
  uint8_t pad0[48];
  alignas(64) std::atomic<uint64_t> command_head;       // guest: bytes produced
  alignas(64) std::atomic<uint64_t> command_tail;       // worker: bytes consumed (executed)
  alignas(64) std::atomic<uint32_t> consumer_sleeping;  // worker: 1 = ring the doorbell; whoever does sets 0
  alignas(64) std::atomic<uint32_t> status;             // worker or device: LostReason; sticky
  alignas(64) std::atomic<uint64_t> reply_head;         // worker: bytes produced
  alignas(64) std::atomic<uint64_t> reply_tail;         // guest: bytes consumed
  WakeWord progress;                                    // news: command_tail, reply_head, status
  WakeWord completion;                                  // news: feedback slots, status
  // Memory of the front-end, all contexts together. The first two are written once by the worker.
  alignas(64) uint64_t memory_limit;  // quota, bytes; 0: none that guests know of
  uint64_t memory_alignment;          // of ranges in kMemory blobs that vkAllocateMemory names, bytes; 0: 4096
  std::atomic<uint64_t> memory_used;  // worker: bytes of the quota that are taken now
};
static_assert(sizeof(RingHeader) == 768);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct RingLayout {
  uint64_t blob_bytes = 0;

  static constexpr bool Valid(uint64_t bytes) {
    return bytes >= kMinRingBytes && bytes <= kMaxRingBytes && (bytes & (bytes - 1)) == 0;
  }
  constexpr uint64_t feedback_offset() const { return blob_bytes / 8; }
  constexpr uint64_t feedback_slots() const { return blob_bytes / 64; }
  constexpr uint64_t reply_offset() const { return blob_bytes / 4; }
  constexpr uint64_t reply_bytes() const { return blob_bytes / 4; }
  constexpr uint64_t command_offset() const { return blob_bytes / 2; }
  constexpr uint64_t command_bytes() const { return blob_bytes / 2; }
  // Largest payload of one frame; a longer message is split with kFrameMore.
  constexpr uint64_t max_frame_payload(uint64_t ring_bytes) const { return ring_bytes / 4 - sizeof(FrameHeader); }
};

constexpr uint64_t FrameBytes(uint64_t payload) {
  return (sizeof(FrameHeader) + payload + 15) & ~uint64_t{15};
}

// The producing half of one byte ring. Owned by one thread. `head`/`tail` point into the shared header.
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(uint8_t* data, uint64_t size, std::atomic<uint64_t>* head, std::atomic<uint64_t>* tail)
      : data_(data), size_(size), shared_head_(head), shared_tail_(tail) {}

  // Room for a frame of FrameBytes(payload) contiguous bytes, or nullptr while the ring is too full. Writes a pad frame
  // when the end is near (the pad is published with the next Commit). Payload must be <= max_frame_payload(size).
  uint8_t* Reserve(uint64_t payload);
  // Publishes the frame last reserved.
  void Commit(uint64_t payload);
  // Bytes produced so far (includes padding): what SubmitCommand::position names.
  uint64_t position() const { return head_; }
  // True when the other side has consumed everything.
  bool Drained() const { return shared_tail_->load(std::memory_order_acquire) == head_; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t head_ = 0;      // published
  uint64_t reserved_ = 0;  // pad bytes before the reserved frame
  std::atomic<uint64_t>* shared_head_ = nullptr;
  std::atomic<uint64_t>* shared_tail_ = nullptr;
};

// The consuming half. Owned by one thread. Never trusts the shared memory.
class RingConsumer {
 public:
  enum class Result { kEmpty, kFrame, kBroken };

  RingConsumer() = default;
  RingConsumer(const uint8_t* data, uint64_t size, std::atomic<uint64_t>* head, std::atomic<uint64_t>* tail)
      : data_(data), size_(size), shared_head_(head), shared_tail_(tail) {}

  // Looks at the next frame: copies its header into *header and points *payload at its (still shared!) bytes, which the
  // caller copies before reading. kBroken: the peer's position or the frame's size is impossible; the ring is dead.
  Result Peek(FrameHeader* header, const uint8_t** payload);
  // Consumes the frame last peeked and publishes the new tail.
  void Pop();
  // Whether anything is there, without fetching (for a sleep decision). Broken counts as available.
  bool Available() const { return shared_head_->load(std::memory_order_acquire) != tail_; }
  uint64_t position() const { return tail_; }

 private:
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t tail_ = 0;
  uint64_t peeked_ = 0;
  std::atomic<uint64_t>* shared_head_ = nullptr;
  std::atomic<uint64_t>* shared_tail_ = nullptr;
};

// Copies bytes that the peer may be changing: each byte is fetched once, none is fetched twice.
void CopyFromShared(void* to, const void* from, size_t bytes);

}  // namespace sluice::wire

#endif  // SLUICE_FLATBUF_RING_H_
