// File: fake_support.h
//
// What the generated fake driver is made of.
#ifndef SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_SUPPORT_H_
#define SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_SUPPORT_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "flatbuf/vk/exec_types.h"
#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::exec::testing {

// Handles alive, with their type.
inline std::unordered_map<uint64_t, ObjectType>& Live() {
  static auto* const live = new std::unordered_map<uint64_t, ObjectType>;
  return *live;
}
inline uint64_t& Calls() {
  static uint64_t calls = 0;
  return calls;
}

template <typename T>
T Made() {
  static uint64_t next = 0x10000;
  const uint64_t value = next += 16;
  // Each type has its own counter: make the handles differ all the same.
  const uint64_t handle = value << 8 | static_cast<uint64_t>(TypeOf<T>::value);
  Live()[handle] = TypeOf<T>::value;
  return vk::HandleCast<T>(handle);
}

[[noreturn]] inline void Complain(const char* what, ObjectType type, uint64_t handle) {
  fprintf(stderr, "fake driver: %s: type %d, handle %#llx\n", what, static_cast<int>(type),
          static_cast<unsigned long long>(handle));
  abort();
}

template <typename T>
void Known(T handle) {
  const uint64_t value = vk::HandleValue(handle);
  if (value == 0) return;
  const auto found = Live().find(value);
  if (found == Live().end() || found->second != TypeOf<T>::value)
    Complain("unknown or dead handle", TypeOf<T>::value, value);
}
template <typename T>
void Gone(T handle) {
  Known(handle);
  Live().erase(vk::HandleValue(handle));
}

// A chain to be filled in: sound, and written to.
inline void Filled(void* first) {
  int length = 0;
  for (auto* s = static_cast<VkBaseOutStructure*>(first); s != nullptr; s = s->pNext) {
    if (++length > 256) Complain("pNext chain without end", ObjectType::kNone, 0);
    asm volatile("" : : "r"(s->sType));
  }
}
// Looks at every byte.
inline void Read(const void* bytes, uint64_t size) {
  const auto* b = static_cast<const uint8_t*>(bytes);
  uint8_t sum = 0;
  for (uint64_t i = 0; i < size; i++) sum ^= b[i];
  asm volatile("" : : "r"(sum));
}
}  // namespace sluice::exec::testing

#endif  // SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_SUPPORT_H_
