// Queues, fences and query results. A fence is a feedback slot: the worker writes a count, the guest compares.
#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

constexpr uint32_t kNoSlot = 0xffffffff;
constexpr int kSpins = 2000;              // polls before the platform is asked to sleep
constexpr uint64_t kSliceNs = 1'000'000;  // longest sleep while several fences could be first

bool Signaled(const GuestChannel& channel, GuestFence* fence) {
  if (fence->pending && channel.SlotValue(fence->slot) >= fence->expected) {
    fence->pending = false;
    fence->signaled = true;
  }
  return fence->signaled;
}

}  // namespace

extern "C" {

VKAPI_ATTR void VKAPI_CALL vkGetDeviceQueue(VkDevice device, uint32_t queueFamilyIndex, uint32_t queueIndex,
                                            VkQueue* pQueue) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  GuestDevice* state = State(device);
  for (size_t i = 0; i < state->queues.size(); i++) {
    if (state->queues[i]->family == queueFamilyIndex && state->queues[i]->index == queueIndex) {
      *pQueue = FromState<VkQueue>(state->queues[i]);
      return;
    }
  }
  auto* queue = new GuestQueue;
  queue->id = channel.ids().New();
  queue->channel = &channel;
  queue->device = state;
  queue->family = queueFamilyIndex;
  queue->index = queueIndex;
  queue->timeline = channel.NewTimeline();
  Send_vkGetDeviceQueue(channel, device, queueFamilyIndex, queueIndex, queue->id, queue->timeline);
  state->queues.Push(queue);
  *pQueue = FromState<VkQueue>(queue);
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, uint32_t submitCount, const VkSubmitInfo* pSubmits,
                                             VkFence fence) {
  ChannelLock lock(queue);
  GuestChannel& channel = lock.channel();
  uint32_t slot = kNoSlot;
  uint64_t value = 0;
  if (fence != VK_NULL_HANDLE) {
    GuestFence* state = State(fence);
    slot = state->slot;
    value = ++state->last;
    state->expected = value;
    state->pending = true;
    state->signaled = false;
  }
  if (!Send_vkQueueSubmit(channel, queue, submitCount, pSubmits, slot, value)) return VK_ERROR_DEVICE_LOST;
  State(queue)->position = channel.position();
  if (fence != VK_NULL_HANDLE) {
    State(fence)->queue = State(queue);
    State(fence)->position = channel.position();
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit2(VkQueue queue, uint32_t submitCount, const VkSubmitInfo2* pSubmits,
                                              VkFence fence) {
  ChannelLock lock(queue);
  GuestChannel& channel = lock.channel();
  uint32_t slot = kNoSlot;
  uint64_t value = 0;
  if (fence != VK_NULL_HANDLE) {
    GuestFence* state = State(fence);
    slot = state->slot;
    value = ++state->last;
    state->expected = value;
    state->pending = true;
    state->signaled = false;
  }
  if (!Send_vkQueueSubmit2(channel, queue, submitCount, pSubmits, slot, value)) return VK_ERROR_DEVICE_LOST;
  State(queue)->position = channel.position();
  if (fence != VK_NULL_HANDLE) {
    State(fence)->queue = State(queue);
    State(fence)->position = channel.position();
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateFence(VkDevice device, const VkFenceCreateInfo* pCreateInfo,
                                             const VkAllocationCallbacks*, VkFence* pFence) {
  ChannelLock lock(device);
  uint64_t last = 0;
  const int64_t slot = lock.channel().NewSlot(&last);
  if (slot < 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  auto* state = new GuestFence;
  state->slot = static_cast<uint32_t>(slot);
  state->last = last;
  state->signaled = (pCreateInfo->flags & VK_FENCE_CREATE_SIGNALED_BIT) != 0;
  *pFence = FromState<VkFence>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyFence(VkDevice device, VkFence fence, const VkAllocationCallbacks*) {
  if (fence == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  lock.channel().FreeSlot(State(fence)->slot, State(fence)->last);
  delete State(fence);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetFences(VkDevice, uint32_t fenceCount, const VkFence* pFences) {
  for (uint32_t i = 0; i < fenceCount; i++) {
    State(pFences[i])->pending = false;
    State(pFences[i])->signaled = false;
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetFenceStatus(VkDevice device, VkFence fence) {
  GuestChannel& channel = ChannelOf(device);
  if (Signaled(channel, State(fence))) return VK_SUCCESS;
  return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_NOT_READY;
}

VKAPI_ATTR VkResult VKAPI_CALL vkWaitForFences(VkDevice device, uint32_t fenceCount, const VkFence* pFences,
                                               VkBool32 waitAll, uint64_t timeout) {
  GuestChannel& channel = ChannelOf(device);
  Platform& platform = channel.platform();
  const uint64_t start = platform.NowNs();
  for (int spins = 0;; spins++) {
    uint32_t signaled = 0;
    GuestFence* waiting = nullptr;
    for (uint32_t i = 0; i < fenceCount; i++) {
      GuestFence* fence = State(pFences[i]);
      if (Signaled(channel, fence)) {
        signaled++;
      } else if (fence->pending && waiting == nullptr) {
        waiting = fence;
      }
    }
    if (signaled == fenceCount || (signaled > 0 && waitAll == VK_FALSE)) return VK_SUCCESS;
    if (channel.lost()) return VK_ERROR_DEVICE_LOST;
    const uint64_t waited = platform.NowNs() - start;
    if (timeout == 0 || waited > timeout) return VK_TIMEOUT;
    if (spins < kSpins || waiting == nullptr || waiting->queue == nullptr) {
      platform.Yield();
      continue;
    }
    uint64_t rest = timeout - waited;
    if (waitAll == VK_FALSE && fenceCount > 1 && rest > kSliceNs) rest = kSliceNs;
    platform.WaitTimeline(waiting->queue->timeline, waiting->position, rest);
  }
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetQueryPoolResults(VkDevice device, VkQueryPool queryPool, uint32_t firstQuery,
                                                     uint32_t queryCount, size_t dataSize, void* pData,
                                                     VkDeviceSize stride, VkQueryResultFlags flags) {
  ChannelLock lock(device);
  const auto* reply =
      Call_vkGetQueryPoolResults(lock.channel(), device, queryPool, firstQuery, queryCount, dataSize, stride, flags);
  if (reply == nullptr) return VK_ERROR_DEVICE_LOST;
  if (reply->data() != nullptr && reply->data()->size() <= dataSize)
    memcpy(pData, reply->data()->Data(), reply->data()->size());
  return static_cast<VkResult>(reply->result());
}

}  // extern "C"
