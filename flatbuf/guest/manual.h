// File: manual.h
//
// What the hand-written entry points share among themselves. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_MANUAL_H_
#define SLUICE_FLATBUF_GUEST_MANUAL_H_

#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/channel.h"

namespace sluice::guest {

// Fills the device's cache of memory properties. False: the context is lost.
bool LoadMemoryProperties(GuestChannel& channel, VkPhysicalDevice device);

// `count` new ids. False, and none taken, when there are not enough.
bool NewIds(GuestChannel& channel, uint32_t count, Buffer<uint64_t>* ids);
void FreeIds(GuestChannel& channel, const Buffer<uint64_t>& ids);

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_MANUAL_H_
