#include "vmm/virtio/descriptor_chain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::virtio {
namespace {

// Calls f(address, position in the caller's buffer, bytes) for each piece of [offset, offset + size) of `segments`,
// whose sum is at least that.
template <typename F>
absl::Status ForEachPiece(absl::Span<const Segment> segments, uint64_t offset, uint64_t size, F f) {
  uint64_t done = 0;
  for (const Segment& segment : segments) {
    if (done == size) break;
    if (offset >= segment.size) {
      offset -= segment.size;
      continue;
    }
    const uint64_t bytes = std::min(size - done, segment.size - offset);
    SLUICE_RETURN_IF_ERROR(f(memory::GuestAddress(segment.address.value() + offset), done, bytes));
    done += bytes;
    offset = 0;
  }
  return absl::OkStatus();
}

absl::Status TooShort(const char* part, uint64_t offset, uint64_t size, uint64_t available) {
  return absl::OutOfRangeError(
      absl::StrCat("bytes ", offset, "+", size, " of a ", part, " part of ", available, " bytes"));
}

}  // namespace

DescriptorChain::DescriptorChain(DescriptorChain&& other) noexcept {
  *this = std::move(other);
}

DescriptorChain& DescriptorChain::operator=(DescriptorChain&& other) noexcept {
  if (this == &other) return *this;
  memory_ = std::move(other.memory_);
  queue_id_ = std::exchange(other.queue_id_, 0);
  head_ = other.head_;
  readable_count_ = std::exchange(other.readable_count_, 0);
  readable_size_ = std::exchange(other.readable_size_, 0);
  writable_size_ = std::exchange(other.writable_size_, 0);
  segments_ = std::move(other.segments_);
  other.segments_.clear();
  return *this;
}

absl::Status DescriptorChain::Read(uint64_t offset, absl::Span<uint8_t> to) const {
  if (!RangeFits(offset, to.size(), readable_size_)) {
    return TooShort("readable", offset, to.size(), readable_size_);
  }
  return ForEachPiece(readable(), offset, to.size(), [&](memory::GuestAddress from, uint64_t position, uint64_t bytes) {
    return memory_.CopyFrom(from, to.subspan(position, bytes));
  });
}

absl::Status DescriptorChain::Write(uint64_t offset, absl::Span<const uint8_t> from) const {
  if (!RangeFits(offset, from.size(), writable_size_)) {
    return TooShort("writable", offset, from.size(), writable_size_);
  }
  return ForEachPiece(writable(), offset, from.size(), [&](memory::GuestAddress to, uint64_t position, uint64_t bytes) {
    return memory_.CopyTo(to, from.subspan(position, bytes));
  });
}

absl::Status DescriptorChain::ReadRaw(uint64_t offset, void* to, uint64_t size) const {
  return Read(offset, absl::MakeSpan(static_cast<uint8_t*>(to), size));
}

absl::Status DescriptorChain::WriteRaw(uint64_t offset, const void* from, uint64_t size) const {
  return Write(offset, absl::MakeConstSpan(static_cast<const uint8_t*>(from), size));
}

}  // namespace sluice::virtio
