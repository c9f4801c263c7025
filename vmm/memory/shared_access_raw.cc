#include "vmm/memory/shared_access_raw.h"

#include <cstring>

namespace sluice::memory::internal {
namespace {

// Guest RAM has no C++ type of its own: accesses through these may alias anything.
template <typename T>
struct Alias {
  typedef T type __attribute__((may_alias));
};

template <typename T>
const typename Alias<T>::type* At(const uint8_t* p) {
  // SAFETY: callers pass a mapped address that is aligned to sizeof(T); may_alias lifts the strict aliasing rule.
  return reinterpret_cast<const typename Alias<T>::type*>(p);
}
template <typename T>
typename Alias<T>::type* At(uint8_t* p) {
  // SAFETY: as above.
  return reinterpret_cast<typename Alias<T>::type*>(p);
}

// The widest access (1, 2, 4 or 8 bytes) that `shared` is aligned for and that does not pass `left` bytes.
uint64_t PieceBytes(const uint8_t* shared, uint64_t left) {
  // SAFETY: the address is only looked at as a number.
  const auto address = reinterpret_cast<uintptr_t>(shared);
  uint64_t piece = 8;
  while (piece > left || (address & (piece - 1)) != 0) piece /= 2;
  return piece;
}

template <typename T>
void FetchOne(uint8_t* to, const uint8_t* from) {
  const T value = __atomic_load_n(At<T>(from), __ATOMIC_RELAXED);
  std::memcpy(to, &value, sizeof(T));
}
template <typename T>
void StoreOne(uint8_t* to, const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  __atomic_store_n(At<T>(to), value, __ATOMIC_RELAXED);
}

}  // namespace

void FetchBytes(void* private_to, const uint8_t* from, uint64_t bytes) {
  auto* to = static_cast<uint8_t*>(private_to);
  while (bytes > 0) {
    uint64_t piece = PieceBytes(from, bytes);
    switch (piece) {
      case 8:
        for (; bytes >= 8; to += 8, from += 8, bytes -= 8) FetchOne<uint64_t>(to, from);
        continue;
      case 4:
        FetchOne<uint32_t>(to, from);
        break;
      case 2:
        FetchOne<uint16_t>(to, from);
        break;
      default:
        FetchOne<uint8_t>(to, from);
        break;
    }
    to += piece;
    from += piece;
    bytes -= piece;
  }
}

void StoreBytes(uint8_t* to, const void* private_from, uint64_t bytes) {
  const auto* from = static_cast<const uint8_t*>(private_from);
  while (bytes > 0) {
    uint64_t piece = PieceBytes(to, bytes);
    switch (piece) {
      case 8:
        for (; bytes >= 8; to += 8, from += 8, bytes -= 8) StoreOne<uint64_t>(to, from);
        continue;
      case 4:
        StoreOne<uint32_t>(to, from);
        break;
      case 2:
        StoreOne<uint16_t>(to, from);
        break;
      default:
        StoreOne<uint8_t>(to, from);
        break;
    }
    to += piece;
    from += piece;
    bytes -= piece;
  }
}

void FillBytes(uint8_t* to, uint8_t value, uint64_t bytes) {
  uint8_t pattern[64];
  std::memset(pattern, value, sizeof(pattern));
  while (bytes > 0) {
    const uint64_t piece = bytes < sizeof(pattern) ? bytes : sizeof(pattern);
    StoreBytes(to, pattern, piece);
    to += piece;
    bytes -= piece;
  }
}

template <typename T>
T AtomicLoad(const uint8_t* shared, std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return __atomic_load_n(At<T>(shared), __ATOMIC_RELAXED);
    case std::memory_order_seq_cst:
      return __atomic_load_n(At<T>(shared), __ATOMIC_SEQ_CST);
    default:
      return __atomic_load_n(At<T>(shared), __ATOMIC_ACQUIRE);
  }
}

template <typename T>
void AtomicStore(uint8_t* shared, T value, std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return __atomic_store_n(At<T>(shared), value, __ATOMIC_RELAXED);
    case std::memory_order_seq_cst:
      return __atomic_store_n(At<T>(shared), value, __ATOMIC_SEQ_CST);
    default:
      return __atomic_store_n(At<T>(shared), value, __ATOMIC_RELEASE);
  }
}

template uint8_t AtomicLoad(const uint8_t*, std::memory_order);
template uint16_t AtomicLoad(const uint8_t*, std::memory_order);
template uint32_t AtomicLoad(const uint8_t*, std::memory_order);
template uint64_t AtomicLoad(const uint8_t*, std::memory_order);
template void AtomicStore(uint8_t*, uint8_t, std::memory_order);
template void AtomicStore(uint8_t*, uint16_t, std::memory_order);
template void AtomicStore(uint8_t*, uint32_t, std::memory_order);
template void AtomicStore(uint8_t*, uint64_t, std::memory_order);

}  // namespace sluice::memory::internal
