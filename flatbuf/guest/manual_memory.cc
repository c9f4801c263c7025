// Device memory: host-visible memory is a blob that guest and worker share, so mapping never crosses the wire.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo* pAllocateInfo,
                                                const VkAllocationCallbacks*, VkDeviceMemory* pMemory) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  GuestPhysicalDevice* physical = State(device)->physical;
  if (!LoadMemoryProperties(channel, FromState<VkPhysicalDevice>(physical))) return VK_ERROR_DEVICE_LOST;
  if (pAllocateInfo->memoryTypeIndex >= physical->memory.memoryTypeCount) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  const VkMemoryPropertyFlags flags = physical->memory.memoryTypes[pAllocateInfo->memoryTypeIndex].propertyFlags;

  VkMemoryAllocateInfo info = *pAllocateInfo;
  SharedMemory shared;
  if ((flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0) {
    if (info.allocationSize > UINT64_MAX - 4095) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    info.allocationSize = (info.allocationSize + 4095) & ~uint64_t{4095};  // host pointers are imported in whole pages
    if (!channel.platform().AllocateSharedMemory(info.allocationSize, &shared)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  const uint64_t id = channel.ids().New();
  VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (id != 0) {
    const auto* reply = Call_vkAllocateMemory(channel, device, &info, id, shared.resource_id);
    result = reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
  }
  if (result < 0) {
    channel.ids().Free(id);
    if (shared.resource_id != 0) channel.platform().FreeSharedMemory(shared);
    return result;
  }
  auto* state = new GuestMemory;
  state->id = id;
  state->size = info.allocationSize;
  state->shared = shared;
  *pMemory = FromState<VkDeviceMemory>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks*) {
  if (memory == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Send_vkFreeMemory(channel, device, memory);
  GuestMemory* state = State(memory);
  channel.ids().Free(state->id);
  if (state->shared.resource_id != 0) channel.platform().FreeSharedMemory(state->shared);
  delete state;
}

VKAPI_ATTR VkResult VKAPI_CALL vkMapMemory(VkDevice, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize,
                                           VkMemoryMapFlags, void** ppData) {
  GuestMemory* state = State(memory);
  if (state->shared.pointer == nullptr || offset >= state->size) return VK_ERROR_MEMORY_MAP_FAILED;
  *ppData = static_cast<uint8_t*>(state->shared.pointer) + offset;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkUnmapMemory(VkDevice, VkDeviceMemory) {}

// All host-visible types are coherent (the worker hides the others), and the memory is the same on both sides.
VKAPI_ATTR VkResult VKAPI_CALL vkFlushMappedMemoryRanges(VkDevice, uint32_t, const VkMappedMemoryRange*) {
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL vkInvalidateMappedMemoryRanges(VkDevice, uint32_t, const VkMappedMemoryRange*) {
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkGetDeviceMemoryCommitment(VkDevice, VkDeviceMemory memory,
                                                       VkDeviceSize* pCommittedMemoryInBytes) {
  *pCommittedMemoryInBytes = State(memory)->size;
}

}  // extern "C"
