// File: address.h
//
// Guest-physical addresses and ranges as types of their own. An address is somebody else's number: there is no
// operator+, and what adds may fail.
//
//   GuestAddress a(0x1000);
//   std::optional<GuestAddress> b = a.CheckedAdd(len);   // nullopt when it wraps
//   std::string text = a.ToString();                     // "0x1000"
#ifndef SLUICE_VMM_MEMORY_ADDRESS_H_
#define SLUICE_VMM_MEMORY_ADDRESS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "vmm/base/checked.h"

namespace sluice::memory {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "0x1f" for 31.
std::string Hex(uint64_t value);

// A guest-physical address. Any 64-bit value is allowed; whether memory is there is another question.
class GuestAddress {
 public:
  constexpr GuestAddress() = default;
  constexpr explicit GuestAddress(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  // The address `bytes` further up, or nullopt past 2^64 - 1.
  constexpr std::optional<GuestAddress> CheckedAdd(uint64_t bytes) const {
    const auto sum = ::sluice::CheckedAdd<uint64_t>(value_, bytes);
    if (!sum.has_value()) return std::nullopt;
    return GuestAddress(*sum);
  }
  // How many bytes this address lies above `base`; nullopt when it lies below.
  constexpr std::optional<uint64_t> OffsetFrom(GuestAddress base) const {
    if (value_ < base.value_) return std::nullopt;
    return value_ - base.value_;
  }
  // `alignment` is a power of two.
  constexpr bool IsAligned(uint64_t alignment) const { return (value_ & (alignment - 1)) == 0; }

  std::string ToString() const { return Hex(value_); }

  friend constexpr auto operator<=>(GuestAddress, GuestAddress) =
      default;  // NOLINT(modernize-use-nullptr): false finding of clang-tidy 14
  friend std::ostream& operator<<(std::ostream& os, GuestAddress a) { return os << a.ToString(); }
  template <typename Sink>
  friend void AbslStringify(Sink& sink, GuestAddress a) {
    sink.Append(a.ToString());
  }
  template <typename H>
  friend H AbslHashValue(H h, GuestAddress a) {
    return H::combine(std::move(h), a.value_);
  }

 private:
  uint64_t value_ = 0;
};

// [start, start + size), never empty, never wrapping.
class GuestRange {
 public:
  // nullopt when size is 0 or the last byte would lie past 2^64 - 1.
  static constexpr std::optional<GuestRange> Create(GuestAddress start, uint64_t size) {
    if (size == 0 || !start.CheckedAdd(size - 1).has_value()) return std::nullopt;
    return GuestRange(start, size);
  }

  constexpr GuestAddress start() const { return start_; }
  constexpr uint64_t size() const { return size_; }
  // The last byte's address (inclusive, so that a range may end at 2^64 - 1).
  constexpr GuestAddress last() const { return GuestAddress(start_.value() + (size_ - 1)); }

  constexpr bool Contains(GuestAddress a) const { return a >= start_ && a <= last(); }
  // True if all `bytes` bytes from `a` on lie inside. Zero bytes at an inside address do.
  constexpr bool Contains(GuestAddress a, uint64_t bytes) const {
    const auto offset = a.OffsetFrom(start_);
    return offset.has_value() && RangeFits(*offset, bytes, size_);
  }
  constexpr bool Overlaps(const GuestRange& other) const { return start_ <= other.last() && other.start_ <= last(); }

  // "0x1000+0x2000" (start + size).
  std::string ToString() const { return Hex(start_.value()) + "+" + Hex(size_); }

  friend constexpr bool operator==(const GuestRange&, const GuestRange&) = default;
  friend std::ostream& operator<<(std::ostream& os, const GuestRange& r) { return os << r.ToString(); }
  template <typename Sink>
  friend void AbslStringify(Sink& sink, const GuestRange& r) {
    sink.Append(r.ToString());
  }

 private:
  constexpr GuestRange(GuestAddress start, uint64_t size) : start_(start), size_(size) {}
  GuestAddress start_;
  uint64_t size_;
};

}  // namespace sluice::memory

#endif  // SLUICE_VMM_MEMORY_ADDRESS_H_
