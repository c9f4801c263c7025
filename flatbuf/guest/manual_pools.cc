// Descriptor pools and sets, pipelines: what makes or frees many objects at once. Command pools: manual_commands.cc.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/pipeline_fix.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

template <typename T>
void RemoveFrom(Buffer<T>* items, const T& item) {
  for (size_t i = 0; i < items->size(); i++) {
    if ((*items)[i] == item) {
      (*items)[i] = items->back();
      items->Pop();
      return;
    }
  }
}

// Pipelines of either kind: reply->made() names those that exist.
template <typename Reply>
VkResult FinishPipelines(GuestChannel& channel, const Reply* reply, const Buffer<uint64_t>& ids,
                         VkPipeline* pipelines) {
  for (size_t i = 0; i < ids.size(); i++) {
    const bool made = reply != nullptr && reply->made() != nullptr && i < reply->made()->size() &&
                      reply->made()->Get(static_cast<uint32_t>(i)) == ids[i];
    pipelines[i] = made ? FromId<VkPipeline>(ids[i]) : VK_NULL_HANDLE;
    if (!made) channel.ids().Free(ids[i]);
  }
  return reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorPool(VkDevice device, const VkDescriptorPoolCreateInfo* pCreateInfo,
                                                      const VkAllocationCallbacks*, VkDescriptorPool* pDescriptorPool) {
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateDescriptorPool(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestDescriptorPool;
  state->id = id;
  *pDescriptorPool = FromState<VkDescriptorPool>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorPool(VkDevice device, VkDescriptorPool descriptorPool,
                                                   const VkAllocationCallbacks*) {
  if (descriptorPool == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  Send_vkDestroyDescriptorPool(lock.channel(), device, descriptorPool);
  FreeIds(lock.channel(), State(descriptorPool)->sets);
  lock.channel().ids().Free(State(descriptorPool)->id);
  delete State(descriptorPool);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetDescriptorPool(VkDevice device, VkDescriptorPool descriptorPool,
                                                     VkDescriptorPoolResetFlags flags) {
  ChannelLock lock(device);
  if (!Send_vkResetDescriptorPool(lock.channel(), device, descriptorPool, flags)) return VK_ERROR_DEVICE_LOST;
  FreeIds(lock.channel(), State(descriptorPool)->sets);
  State(descriptorPool)->sets.Clear();
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateDescriptorSets(VkDevice device,
                                                        const VkDescriptorSetAllocateInfo* pAllocateInfo,
                                                        VkDescriptorSet* pDescriptorSets) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Buffer<uint64_t> ids;
  if (!NewIds(channel, pAllocateInfo->descriptorSetCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkAllocateDescriptorSets(channel, device, pAllocateInfo, ids.data(), ids.size());
  const VkResult result = reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
  if (result < 0) FreeIds(channel, ids);
  for (size_t i = 0; i < ids.size(); i++) {
    pDescriptorSets[i] = result < 0 ? VK_NULL_HANDLE : FromId<VkDescriptorSet>(ids[i]);
    if (result >= 0) State(pAllocateInfo->descriptorPool)->sets.Push(ids[i]);
  }
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL vkFreeDescriptorSets(VkDevice device, VkDescriptorPool descriptorPool,
                                                    uint32_t descriptorSetCount,
                                                    const VkDescriptorSet* pDescriptorSets) {
  ChannelLock lock(device);
  if (!Send_vkFreeDescriptorSets(lock.channel(), device, descriptorPool, descriptorSetCount, pDescriptorSets))
    return VK_ERROR_DEVICE_LOST;
  for (uint32_t i = 0; i < descriptorSetCount; i++) {
    if (pDescriptorSets[i] == VK_NULL_HANDLE) continue;
    RemoveFrom(&State(descriptorPool)->sets, ToId(pDescriptorSets[i]));
    lock.channel().ids().Free(ToId(pDescriptorSets[i]));
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateGraphicsPipelines(VkDevice device, VkPipelineCache pipelineCache,
                                                         uint32_t createInfoCount,
                                                         const VkGraphicsPipelineCreateInfo* pCreateInfos,
                                                         const VkAllocationCallbacks*, VkPipeline* pPipelines) {
  for (uint32_t i = 0; i < createInfoCount; i++) ClearCreationFeedback(pCreateInfos[i].pNext);
  ChannelLock lock(device);
  Buffer<uint64_t> ids;
  if (!NewIds(lock.channel(), createInfoCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkCreateGraphicsPipelines(lock.channel(), device, pipelineCache, createInfoCount,
                                                     pCreateInfos, ids.data(), ids.size());
  return FinishPipelines(lock.channel(), reply, ids, pPipelines);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateComputePipelines(VkDevice device, VkPipelineCache pipelineCache,
                                                        uint32_t createInfoCount,
                                                        const VkComputePipelineCreateInfo* pCreateInfos,
                                                        const VkAllocationCallbacks*, VkPipeline* pPipelines) {
  for (uint32_t i = 0; i < createInfoCount; i++) ClearCreationFeedback(pCreateInfos[i].pNext);
  ChannelLock lock(device);
  Buffer<uint64_t> ids;
  if (!NewIds(lock.channel(), createInfoCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkCreateComputePipelines(lock.channel(), device, pipelineCache, createInfoCount,
                                                    pCreateInfos, ids.data(), ids.size());
  return FinishPipelines(lock.channel(), reply, ids, pPipelines);
}

}  // extern "C"
