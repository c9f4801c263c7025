#include "flatbuf/ring.h"

#include <string.h>

namespace sluice::wire {

void CopyFromShared(void* to, const void* from, size_t bytes) {
  // A plain memcpy into private memory; the barrier keeps the compiler from reading `from` again in place of `to`.
  if (bytes != 0) memcpy(to, from, bytes);  // of nothing, `to` may be null
  asm volatile("" : : "r"(to), "r"(from) : "memory");
}

uint8_t* RingProducer::Reserve(uint64_t payload) {
  const uint64_t need = FrameBytes(payload);
  if (need > size_ / 4) return nullptr;
  const uint64_t offset = head_ & (size_ - 1);
  const uint64_t to_end = size_ - offset;
  const uint64_t pad = to_end < need ? to_end : 0;
  const uint64_t tail = shared_tail_->load(std::memory_order_acquire);
  const uint64_t used = head_ - tail;  // a lying consumer makes this large: then there is no room, and nothing breaks
  if (used > size_ || pad + need > size_ - used) return nullptr;
  if (pad != 0) {
    const FrameHeader header = {kOpcodePad, 0, static_cast<uint32_t>(pad - sizeof(FrameHeader)), 0};
    memcpy(data_ + offset, &header, sizeof(header));
  }
  reserved_ = pad;
  return data_ + ((head_ + pad) & (size_ - 1));
}

void RingProducer::Commit(uint64_t payload) {
  head_ += reserved_ + FrameBytes(payload);
  reserved_ = 0;
  // seq_cst, not release: the producer goes on to read consumer_sleeping, which the consumer writes before it looks at
  // the head again. One of the two must see the other's write, or a wake-up is lost.
  shared_head_->store(head_, std::memory_order_seq_cst);
}

RingConsumer::Result RingConsumer::Peek(FrameHeader* header, const uint8_t** payload) {
  for (bool padded = false;; padded = true) {
    const uint64_t head = shared_head_->load(std::memory_order_acquire);
    if (head == tail_) return Result::kEmpty;
    const uint64_t available = head - tail_;
    const uint64_t offset = tail_ & (size_ - 1);
    const uint64_t to_end = size_ - offset;
    if (available > size_ || available % 16 != 0 || available < sizeof(FrameHeader)) return Result::kBroken;
    CopyFromShared(header, data_ + offset, sizeof(*header));
    const uint64_t bytes = FrameBytes(header->size);
    if (bytes > available || bytes > to_end) return Result::kBroken;
    if (header->opcode == kOpcodePad) {
      // A pad reaches exactly to the end, and a frame comes after it: pads alone could keep the consumer here for ever.
      if (bytes != to_end || padded) return Result::kBroken;
      tail_ += bytes;
      shared_tail_->store(tail_, std::memory_order_release);
      continue;
    }
    if (bytes > size_ / 4) return Result::kBroken;
    *payload = data_ + offset + sizeof(FrameHeader);
    peeked_ = bytes;
    return Result::kFrame;
  }
}

void RingConsumer::Pop() {
  tail_ += peeked_;
  peeked_ = 0;
  shared_tail_->store(tail_, std::memory_order_release);
}

}  // namespace sluice::wire
