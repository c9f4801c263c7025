// Device memory: host-visible memory is cut from blobs that guest and worker share, so that mapping never crosses the
// wire and most allocations wait for nobody.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

// What cannot cross: memory that other processes own, or are to see. Nothing of the kind is advertised.
bool SharesMemory(const void* next) {
  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    switch (static_cast<int>(s->sType)) {
      case VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO: {
        const void* any = s;
        if (static_cast<const VkExportMemoryAllocateInfo*>(any)->handleTypes != 0) return true;
        break;
      }
      case VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR:
      case VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT:
        return true;
      default:
        break;
    }
  }
  return false;
}

// Memory in a range that both sides see. A pooled range needs no answer: its blob is there, and the worker only looks
// at it from one more side.
VkResult ShareMemory(GuestChannel& channel, VkDevice device, const VkMemoryAllocateInfo& info, GuestMemory* memory) {
  SharedRange range;
  if (!channel.memory().Allocate(channel, info.allocationSize, &range)) {
    return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  VkMemoryAllocateInfo wire = info;
  wire.allocationSize = range.size;
  VkResult result = VK_SUCCESS;
  if (range.pooled()) {
    if (!Send_vkAllocateMemory(channel, device, &wire, memory->id, range.resource_id, range.offset)) {
      result = VK_ERROR_DEVICE_LOST;
    }
  } else {
    const auto* reply = Call_vkAllocateMemory(channel, device, &wire, memory->id, range.resource_id, range.offset);
    result = reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
  }
  channel.memory().Told(channel, range);
  if (result < 0) {
    channel.memory().Free(channel, range);
  } else {
    memory->shared = range;
  }
  return result;
}

VkResult AllocateLocal(GuestChannel& channel, VkDevice device, const VkMemoryAllocateInfo& info, uint64_t id) {
  const auto* reply = Call_vkAllocateMemory(channel, device, &info, id, 0, 0);
  return reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo* pAllocateInfo,
                                                const VkAllocationCallbacks*, VkDeviceMemory* pMemory) {
  if (SharesMemory(pAllocateInfo->pNext)) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  GuestPhysicalDevice* physical = State(device)->physical;
  if (!LoadMemoryProperties(channel, FromState<VkPhysicalDevice>(physical))) return VK_ERROR_DEVICE_LOST;
  if (pAllocateInfo->memoryTypeIndex >= physical->memory.memoryTypeCount || pAllocateInfo->allocationSize == 0) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  auto* state = new GuestMemory;
  state->id = channel.ids().New();
  state->size = pAllocateInfo->allocationSize;
  state->type = pAllocateInfo->memoryTypeIndex;
  VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (state->id != 0) {
    const VkMemoryPropertyFlags flags = physical->memory.memoryTypes[state->type].propertyFlags;
    result = (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0
                 ? ShareMemory(channel, device, *pAllocateInfo, state)
                 : AllocateLocal(channel, device, *pAllocateInfo, state->id);
  }
  if (result < 0) {
    channel.ids().Free(state->id);
    delete state;
    return result;
  }
  physical->heap_usage[physical->memory.memoryTypes[state->type].heapIndex] += state->size;
  *pMemory = FromState<VkDeviceMemory>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks*) {
  if (memory == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Send_vkFreeMemory(channel, device, memory);
  GuestMemory* state = State(memory);
  GuestPhysicalDevice* physical = State(device)->physical;
  physical->heap_usage[physical->memory.memoryTypes[state->type].heapIndex] -= state->size;
  channel.ids().Free(state->id);
  if (state->shared.resource_id != 0) channel.memory().Free(channel, state->shared);
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

namespace sluice::guest {

void FillMemoryBudget(VkPhysicalDevice device, VkPhysicalDeviceMemoryBudgetPropertiesEXT* budget) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  const GuestPhysicalDevice* physical = State(device);
  for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) budget->heapBudget[i] = budget->heapUsage[i] = 0;
  if (!LoadMemoryProperties(channel, device)) return;
  // All heaps draw on one quota: each could have what is left of it, beside what it has.
  const uint64_t limit = channel.memory_limit(), used = channel.memory_used();
  const uint64_t left = used < limit ? limit - used : 0;
  // What the program has freed, or not yet asked for, of blobs that are charged already.
  const uint64_t slack = channel.memory().slack_bytes();
  for (uint32_t i = 0; i < physical->memory.memoryHeapCount && i < VK_MAX_MEMORY_HEAPS; i++) {
    const uint64_t usage = physical->heap_usage[i], size = physical->memory.memoryHeaps[i].size;
    const uint64_t budgeted = usage + left + slack;
    budget->heapUsage[i] = usage;
    budget->heapBudget[i] = budgeted < size ? budgeted : size;
  }
}

}  // namespace sluice::guest
