// File: descriptor_chain.h
//
// One request of a driver: a readable part, then a writable part, each a list of pieces of guest RAM. Made by
// Queue::Pop, which fetched and checked every descriptor once; ended by Queue::Complete, which takes it away.
// Move-only.
//
//   absl::StatusOr<Request> request = chain.ReadObject<Request>(0);      // one private copy
//   absl::Status status = chain.WriteObject(0, response);
//   queue.Complete(std::move(chain), sizeof(response));
//
// A chain may outlive its queue (a reset while a fence is pending): it keeps guest RAM alive and completing it does
// nothing.
#ifndef SLUICE_VMM_VIRTIO_DESCRIPTOR_CHAIN_H_
#define SLUICE_VMM_VIRTIO_DESCRIPTOR_CHAIN_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::virtio {

// A piece of guest RAM: all of [address, address + size) was RAM when the chain was made, and RAM does not go away.
struct Segment {
  memory::GuestAddress address;
  uint32_t size = 0;  // bytes, at least 1: empty descriptors are skipped
};

// Most descriptors of one chain, or the queue's size if that is more. An indirect table may thus be longer than its
// queue: stock Linux virtio-gpu makes such tables (two more descriptors than a command has pages).
inline constexpr uint32_t kMaxChainDescriptors = 1024;

// Thread-compatible: one thread at a time (the loop thread).
class DescriptorChain {
 public:
  DescriptorChain(DescriptorChain&& other) noexcept;
  DescriptorChain& operator=(DescriptorChain&& other) noexcept;
  DescriptorChain(const DescriptorChain&) = delete;
  DescriptorChain& operator=(const DescriptorChain&) = delete;
  ~DescriptorChain() = default;

  // Bytes that the driver wrote for us, and that it lets us write. Their sum is below 2^32.
  uint64_t ReadableSize() const { return readable_size_; }
  uint64_t WritableSize() const { return writable_size_; }
  absl::Span<const Segment> readable() const { return absl::MakeConstSpan(segments_).subspan(0, readable_count_); }
  absl::Span<const Segment> writable() const { return absl::MakeConstSpan(segments_).subspan(readable_count_); }
  // Index of the first descriptor: what the used ring names.
  uint16_t head() const { return head_; }

  // Copies the readable part from byte `offset` on. OUT_OF_RANGE, nothing copied: it is shorter than that.
  absl::Status Read(uint64_t offset, absl::Span<uint8_t> to) const;
  // Copies to the writable part from byte `offset` on. OUT_OF_RANGE, nothing written: it is shorter than that.
  absl::Status Write(uint64_t offset, absl::Span<const uint8_t> from) const;
  // The same for a trivially copyable T without padding that would leak host bytes (the caller's duty for Write).
  template <typename T>
  absl::StatusOr<T> ReadObject(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
    T value{};
    absl::Status status = ReadRaw(offset, &value, sizeof(T));
    if (!status.ok()) return status;
    return value;
  }
  template <typename T>
  absl::Status WriteObject(uint64_t offset, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return WriteRaw(offset, &value, sizeof(T));
  }

 private:
  friend class Queue;
  DescriptorChain(memory::GuestMemory memory, uint64_t queue_id, uint16_t head)
      : memory_(std::move(memory)), queue_id_(queue_id), head_(head) {}
  absl::Status ReadRaw(uint64_t offset, void* to, uint64_t size) const;
  absl::Status WriteRaw(uint64_t offset, const void* from, uint64_t size) const;

  memory::GuestMemory memory_;
  uint64_t queue_id_ = 0;  // which Queue object made it; 0: moved from or completed
  uint16_t head_ = 0;
  uint32_t readable_count_ = 0;
  uint64_t readable_size_ = 0;
  uint64_t writable_size_ = 0;
  absl::InlinedVector<Segment, 4> segments_;  // the readable ones, then the writable ones
};

}  // namespace sluice::virtio

#endif  // SLUICE_VMM_VIRTIO_DESCRIPTOR_CHAIN_H_
