// File: cast_raw.h
//
// The casts that generated code needs, each in one place. Freestanding.
#ifndef SLUICE_FLATBUF_VKGEN_CAST_RAW_H_
#define SLUICE_FLATBUF_VKGEN_CAST_RAW_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

namespace sluice::vk {

// A handle as the 64-bit number that it is on the wire or in an object table, and back.
template <typename Handle>
inline Handle HandleCast(uint64_t value) {
  static_assert(std::is_pointer_v<Handle> && sizeof(Handle) == 8);
  // SAFETY: never dereferenced here; Vulkan handles are opaque pointers on 64-bit targets.
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(value));
}
template <typename Handle>
inline uint64_t HandleValue(Handle handle) {
  static_assert(std::is_pointer_v<Handle> && sizeof(Handle) == 8);
  // SAFETY: pointer to integer of the same size.
  return reinterpret_cast<uintptr_t>(handle);
}

inline bool IsAligned(const void* pointer, size_t alignment) {
  // SAFETY: only the low bits are looked at.
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

// Views `from` as an array of `To`, which has the same layout (layout_asserts.cc checks every pair).
template <typename To, typename From>
inline const To* ViewAs(const From* from) {
  static_assert(sizeof(To) == sizeof(From) && alignof(To) == alignof(From));
  static_assert(std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  // SAFETY: same size, alignment and member offsets; both implicit-lifetime types over bytes.
  return reinterpret_cast<const To*>(from);
}
template <typename To, typename From>
inline To CopyAs(const From* from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To>);
  To to;
  memcpy(&to, from, sizeof(to));
  return to;
}

// Bytes of private, suitably aligned memory as an array of T.
template <typename T>
inline const T* BytesAs(const void* bytes) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
  return static_cast<const T*>(bytes);
}

// A function found by name, as its real type.
template <typename Function, typename Void>
inline Function FunctionCast(Void function) {
  static_assert(std::is_pointer_v<Function> && std::is_function_v<std::remove_pointer_t<Function>>);
  // SAFETY: the name passed to vkGet*ProcAddr fixes the type.
  return reinterpret_cast<Function>(function);
}

}  // namespace sluice::vk

#endif  // SLUICE_FLATBUF_VKGEN_CAST_RAW_H_
