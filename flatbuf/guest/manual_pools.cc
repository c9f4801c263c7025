// Command pools and buffers, descriptor pools and sets, pipelines: what makes or frees many objects at once.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/recorder.h"
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

void FreeIds(GuestChannel& channel, const Buffer<uint64_t>& ids) {
  for (size_t i = 0; i < ids.size(); i++) channel.ids().Free(ids[i]);
}

// `count` new ids. False, and none taken, when there are not enough.
bool NewIds(GuestChannel& channel, uint32_t count, Buffer<uint64_t>* ids) {
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t id = channel.ids().New();
    if (id == 0) {
      FreeIds(channel, *ids);
      return false;
    }
    ids->Push(id);
  }
  return true;
}

void DeleteCommandBuffer(GuestChannel& channel, GuestCommandBuffer* buffer) {
  channel.ids().Free(buffer->id);
  delete buffer->recorder;
  delete buffer;
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

VKAPI_ATTR VkResult VKAPI_CALL vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo* pCreateInfo,
                                                   const VkAllocationCallbacks*, VkCommandPool* pCommandPool) {
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateCommandPool(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestCommandPool;
  state->id = id;
  *pCommandPool = FromState<VkCommandPool>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyCommandPool(VkDevice device, VkCommandPool commandPool,
                                                const VkAllocationCallbacks*) {
  if (commandPool == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  Send_vkDestroyCommandPool(lock.channel(), device, commandPool);
  GuestCommandPool* state = State(commandPool);
  for (size_t i = 0; i < state->buffers.size(); i++) DeleteCommandBuffer(lock.channel(), state->buffers[i]);
  lock.channel().ids().Free(state->id);
  delete state;
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetCommandPool(VkDevice device, VkCommandPool commandPool,
                                                  VkCommandPoolResetFlags flags) {
  ChannelLock lock(device);
  GuestCommandPool* state = State(commandPool);
  for (size_t i = 0; i < state->buffers.size(); i++) state->buffers[i]->recorder->Clear();
  return Send_vkResetCommandPool(lock.channel(), device, commandPool, flags) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateCommandBuffers(VkDevice device,
                                                        const VkCommandBufferAllocateInfo* pAllocateInfo,
                                                        VkCommandBuffer* pCommandBuffers) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Buffer<uint64_t> ids;
  if (!NewIds(channel, pAllocateInfo->commandBufferCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkAllocateCommandBuffers(channel, device, pAllocateInfo, ids.data(), ids.size()))
    return VK_ERROR_DEVICE_LOST;
  GuestCommandPool* pool = State(pAllocateInfo->commandPool);
  for (size_t i = 0; i < ids.size(); i++) {
    auto* buffer = new GuestCommandBuffer;
    buffer->id = ids[i];
    buffer->channel = &channel;
    buffer->pool = pool;
    buffer->level = pAllocateInfo->level;
    buffer->recorder = new Recorder;
    pool->buffers.Push(buffer);
    pCommandBuffers[i] = FromState<VkCommandBuffer>(buffer);
  }
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeCommandBuffers(VkDevice device, VkCommandPool commandPool, uint32_t commandBufferCount,
                                                const VkCommandBuffer* pCommandBuffers) {
  ChannelLock lock(device);
  Send_vkFreeCommandBuffers(lock.channel(), device, commandPool, commandBufferCount, pCommandBuffers);
  for (uint32_t i = 0; i < commandBufferCount; i++) {
    if (pCommandBuffers[i] == VK_NULL_HANDLE) continue;
    RemoveFrom(&State(commandPool)->buffers, State(pCommandBuffers[i]));
    DeleteCommandBuffer(lock.channel(), State(pCommandBuffers[i]));
  }
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetCommandBuffer(VkCommandBuffer commandBuffer, VkCommandBufferResetFlags flags) {
  RecorderOf(commandBuffer).Clear();
  RecorderOf(commandBuffer).begin_pending = false;
  ChannelLock lock(commandBuffer);
  return Send_vkResetCommandBuffer(lock.channel(), commandBuffer, flags) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL vkBeginCommandBuffer(VkCommandBuffer commandBuffer,
                                                    const VkCommandBufferBeginInfo* pBeginInfo) {
  Recorder& r = RecorderOf(commandBuffer);
  r.Clear();
  r.begin = *pBeginInfo;
  r.begin.pNext = nullptr;
  r.begin_pending = true;
  if (State(commandBuffer)->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY && pBeginInfo->pInheritanceInfo != nullptr) {
    r.inheritance = *pBeginInfo->pInheritanceInfo;
    r.inheritance.pNext = nullptr;
    if ((pBeginInfo->flags & VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT) == 0) {
      r.inheritance.renderPass = VK_NULL_HANDLE;  // ignored then, and may hold anything
      r.inheritance.framebuffer = VK_NULL_HANDLE;
      r.inheritance.subpass = 0;
    }
  }
  return ChannelOf(commandBuffer).lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer commandBuffer) {
  return FlushRecorder(commandBuffer, true) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

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
  ChannelLock lock(device);
  Buffer<uint64_t> ids;
  if (!NewIds(lock.channel(), createInfoCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkCreateComputePipelines(lock.channel(), device, pipelineCache, createInfoCount,
                                                    pCreateInfos, ids.data(), ids.size());
  return FinishPipelines(lock.channel(), reply, ids, pPipelines);
}

}  // extern "C"
