// File: checked.h
//
// Arithmetic on numbers that somebody else chose. Freestanding (used by guests too): no wrap, no surprise.
#ifndef SLUICE_VMM_BASE_CHECKED_H_
#define SLUICE_VMM_BASE_CHECKED_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

inline constexpr uint64_t kPageSize = 4096;

template <typename T>
constexpr std::optional<T> CheckedAdd(T a, T b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
template <typename T>
constexpr std::optional<T> CheckedMul(T a, T b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
// `value` rounded up to a multiple of `alignment` (a power of two), or nullopt on wrap.
constexpr std::optional<uint64_t> CheckedAlignUp(uint64_t value, uint64_t alignment) {
  const auto sum = CheckedAdd<uint64_t>(value, alignment - 1);
  if (!sum.has_value()) return std::nullopt;
  return *sum & ~(alignment - 1);
}
// True if [offset, offset + length) lies within [0, total), without wrapping.
constexpr bool RangeFits(uint64_t offset, uint64_t length, uint64_t total) {
  return offset <= total && length <= total - offset;
}
constexpr bool IsPowerOfTwo(uint64_t v) {
  return v != 0 && (v & (v - 1)) == 0;
}

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_CHECKED_H_
