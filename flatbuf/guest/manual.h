// File: manual.h
//
// What the hand-written entry points share among themselves. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_MANUAL_H_
#define SLUICE_FLATBUF_GUEST_MANUAL_H_

#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/handle.h"

namespace sluice::guest {

// Fills the device's cache of properties, or of memory properties. False: the context is lost.
bool LoadProperties(GuestChannel& channel, VkPhysicalDevice device);
bool LoadMemoryProperties(GuestChannel& channel, VkPhysicalDevice device);

// `count` new ids. False, and none taken, when there are not enough.
bool NewIds(GuestChannel& channel, uint32_t count, Buffer<uint64_t>* ids);
void FreeIds(GuestChannel& channel, const Buffer<uint64_t>& ids);
// A queue of the device with an id, a timeline and a feedback slot. Under the channel's lock.
GuestQueue* NewQueue(GuestChannel& channel, VkDevice device);
// Gives them back.
void DeleteQueue(GuestChannel& channel, GuestQueue* queue);

// A submission of `batches` (at least 1), under the channel's lock. Begin: the number of the last batch; 0: too many
// are in flight. Then the message goes out with that number, then End notes it, and that `fence` (may be null) waits
// for it.
uint64_t BeginSubmit(GuestChannel& channel, GuestQueue* queue, uint32_t batches);
VkResult EndSubmit(GuestChannel& channel, GuestQueue* queue, uint64_t last, VkFence fence);
// Batch `batch` of the queue signals `semaphore` (any kind) with `value`; before the message goes out, so that whoever
// is woken by its completion knows. PromiseSignals: all of a VkSubmitInfo.
void PromiseSignal(GuestQueue* queue, uint64_t batch, VkSemaphore semaphore, uint64_t value);
void PromiseSignals(GuestQueue* queue, uint64_t batch, const VkSubmitInfo& submit);

// VK_EXT_memory_budget, which no message is needed for: what the program holds, and what the front-end's quota leaves
// it. sType and pNext are left alone. Takes the channel's lock.
void FillMemoryBudget(VkPhysicalDevice device, VkPhysicalDeviceMemoryBudgetPropertiesEXT* budget);

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_MANUAL_H_
