#include "firmware/drivers/virtqueue.h"

#include <atomic>

#include "firmware/lib/heap.h"

namespace sluice::firmware {
namespace {

constexpr uint16_t kNext = 1, kWrite = 2, kIndirect = 4;
constexpr uint16_t kUsedNoNotify = 1;

uint16_t Load16(const void* p) {
  return *static_cast<const volatile uint16_t*>(p);
}
uint32_t Load32(const void* p) {
  return *static_cast<const volatile uint32_t*>(p);
}

}  // namespace

Virtqueue::Virtqueue(uint16_t size, uint64_t features)
    : size_(size),
      event_idx_((features & kVirtioFeatureEventIdx) != 0),
      indirect_((features & kVirtioFeatureIndirect) != 0),
      free_count_(size) {
  descriptors_ = static_cast<Descriptor*>(AllocateZeroed(sizeof(Descriptor) * size, 16));
  available_ = static_cast<uint16_t*>(AllocateZeroed(6 + 2 * size_t{size}, 16));
  used_ = static_cast<uint8_t*>(AllocateZeroed(6 + 8 * size_t{size}, 16));
  chain_length_ = static_cast<uint16_t*>(AllocateZeroed(2 * size_t{size}, 16));
  if (indirect_) {
    tables_ = static_cast<Descriptor*>(AllocateZeroed(sizeof(Descriptor) * kMaxPieces * size, 16));
  }
  for (uint16_t i = 0; i < size; i++) descriptors_[i].next = static_cast<uint16_t>(i + 1);
}

Virtqueue::~Virtqueue() {
  ::operator delete(descriptors_);
  ::operator delete(const_cast<uint16_t*>(available_));
  ::operator delete(used_);
  ::operator delete(chain_length_);
  ::operator delete(tables_);
}

bool Virtqueue::Add(const VirtPiece* pieces, uint16_t readable, uint16_t writable, uint16_t* head) {
  const auto count = static_cast<uint16_t>(readable + writable);
  const bool use_table = indirect_ && count > 1;
  const uint16_t need = use_table ? 1 : count;
  if (count == 0 || count > kMaxPieces || need > free_count_) return false;
  *head = free_head_;
  if (use_table) {
    Descriptor* table = tables_ + size_t{free_head_} * kMaxPieces;
    for (uint16_t i = 0; i < count; i++) {
      const bool last = i + 1 == count;
      table[i] = {reinterpret_cast<uint64_t>(pieces[i].address), pieces[i].bytes,
                  static_cast<uint16_t>((last ? 0 : kNext) | (i >= readable ? kWrite : 0)),
                  static_cast<uint16_t>(i + 1)};
    }
    Descriptor& d = descriptors_[free_head_];
    free_head_ = d.next;
    d = {reinterpret_cast<uint64_t>(table), static_cast<uint32_t>(sizeof(Descriptor) * count), kIndirect, 0};
  } else {
    for (uint16_t i = 0; i < count; i++) {
      const bool last = i + 1 == count;
      Descriptor& d = descriptors_[free_head_];
      free_head_ = d.next;
      d = {reinterpret_cast<uint64_t>(pieces[i].address), pieces[i].bytes,
           static_cast<uint16_t>((last ? 0 : kNext) | (i >= readable ? kWrite : 0)), free_head_};
    }
  }
  free_count_ = static_cast<uint16_t>(free_count_ - need);
  chain_length_[*head] = need;
  available_[2 + (added_ & (size_ - 1))] = *head;
  added_++;
  return true;
}

uint16_t Virtqueue::AvailEvent() const {
  return Load16(used_ + 4 + 8 * size_t{size_});
}

bool Virtqueue::Publish() {
  if (added_ == published_) return false;
  const uint16_t before = published_;
  std::atomic_thread_fence(std::memory_order_release);
  available_[1] = added_;
  published_ = added_;
  // The index must be out before the device's wish is read, or both sides may wait for each other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!event_idx_) return (Load16(used_) & kUsedNoNotify) == 0;
  return static_cast<uint16_t>(added_ - AvailEvent() - 1) < static_cast<uint16_t>(added_ - before);
}

bool Virtqueue::HasUsed() const {
  return Load16(used_ + 2) != seen_;
}

bool Virtqueue::PopUsed(uint16_t* head, uint32_t* written) {
  while (HasUsed()) {
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint8_t* element = used_ + 4 + 8 * size_t(seen_ & (size_ - 1));
    const uint32_t id = Load32(element);
    *written = Load32(element + 4);
    seen_++;
    if (event_idx_) {
      // Interrupt at the next one; and look again after saying so (the caller loops until there is none).
      *UsedEvent() = seen_;
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (id >= size_ || chain_length_[id] == 0) {
      bogus_++;
      continue;
    }
    *head = static_cast<uint16_t>(id);
    const uint16_t length = chain_length_[id];
    chain_length_[id] = 0;
    uint16_t last = *head;
    for (uint16_t i = 1; i < length; i++) last = descriptors_[last].next;
    descriptors_[last].next = free_head_;
    free_head_ = *head;
    free_count_ = static_cast<uint16_t>(free_count_ + length);
    return true;
  }
  return false;
}

}  // namespace sluice::firmware
