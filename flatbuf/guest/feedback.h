// File: feedback.h
//
// Memory in which the GPU tells the guest what has become of events and queries: cells of host-visible, coherent
// buffers that the runtime makes for itself with its own entry points, and writes with commands of its own in the
// program's command buffers (record_hooks.cc). Freestanding.
//
//   FeedbackCell cell;
//   if (!NewCell(device, 4, &cell)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
//   vkCmdFillBuffer(commands, cell.buffer, cell.offset, 4, 1);
//   if (LoadWord(cell.pointer) == 1) ...
#ifndef SLUICE_FLATBUF_GUEST_FEEDBACK_H_
#define SLUICE_FLATBUF_GUEST_FEEDBACK_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/handle.h"

namespace sluice::guest {

// `bytes` zeroed bytes, 8-byte aligned. Any thread, without the channel's lock (it takes it). False: no memory.
bool NewCell(VkDevice device, uint64_t bytes, FeedbackCell* cell);
// What the GPU may still write there is harmless only if nothing in flight names the cell.
void FreeCell(VkDevice device, const FeedbackCell& cell);
// All of the device's, before it is destroyed.
void FreeFeedback(VkDevice device);

// Without the compiler's run-time library.
inline uint32_t BitCount(uint32_t bits) {
  uint32_t count = 0;
  for (; bits != 0; bits &= bits - 1) count++;
  return count;
}

inline uint32_t LoadWord(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
inline void StoreWord(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_FEEDBACK_H_
