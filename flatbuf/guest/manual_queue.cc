// Queues and fences. The worker counts each queue's completed batches in a feedback slot; a fence is a queue and a
// batch.
#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/waiting.h"
#include "flatbuf/vk/guest_send.h"

namespace sluice::guest {

// Batches in flight on one queue, at most: the worker holds a fence for each.
constexpr uint64_t kMaxInFlight = 60'000;

GuestQueue* NewQueue(GuestChannel& channel, VkDevice device) {
  auto* queue = new GuestQueue;
  const int64_t slot = channel.NewSlot(&queue->base);
  if (slot < 0) {
    delete queue;
    return nullptr;
  }
  queue->id = channel.ids().New();
  queue->channel = &channel;
  queue->device = State(device);
  queue->timeline = channel.NewTimeline();
  queue->slot = static_cast<uint32_t>(slot);
  queue->submitted.store(queue->base, std::memory_order_relaxed);
  State(device)->queues.Push(queue);
  return queue;
}

void DeleteQueue(GuestChannel& channel, GuestQueue* queue) {
  channel.ids().Free(queue->id);
  channel.FreeTimeline(queue->timeline);
  channel.FreeSlot(queue->slot, queue->submitted.load(std::memory_order_relaxed));
  delete queue;
}

uint64_t BeginSubmit(GuestChannel& channel, GuestQueue* queue, uint32_t batches) {
  const uint64_t last = queue->submitted.load(std::memory_order_relaxed) + batches;
  const uint64_t complete = channel.SlotValue(queue->slot);
  return last - queue->base > kMaxInFlight && last > complete + kMaxInFlight ? 0 : last;
}

VkResult EndSubmit(GuestChannel& channel, GuestQueue* queue, uint64_t last, VkFence fence) {
  queue->submitted.store(last, std::memory_order_release);
  queue->position.store(channel.position(), std::memory_order_release);
  if (fence != VK_NULL_HANDLE) {
    GuestFence* state = State(fence);
    state->queue = queue;
    state->batch = last;
    state->position = channel.position();
    state->signaled = false;
  }
  return VK_SUCCESS;
}

}  // namespace sluice::guest

using namespace sluice::guest;

namespace {

bool Signaled(const GuestChannel& channel, const GuestFence* fence) {
  return fence->signaled || (fence->queue != nullptr && channel.SlotValue(fence->queue->slot) >= fence->batch);
}

VkResult ToResult(WaitResult result) {
  switch (result) {
    case WaitResult::kDone:
      return VK_SUCCESS;
    case WaitResult::kTimeout:
      return VK_TIMEOUT;
    case WaitResult::kLost:
      break;
  }
  return VK_ERROR_DEVICE_LOST;
}

VkResult WaitIdle(GuestChannel& channel, const GuestQueue* queue) {
  const uint64_t last = queue->submitted.load(std::memory_order_acquire);
  if (last == queue->base) return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  return ToResult(WaitUntil(
      channel, ~uint64_t{0}, [&] { return channel.SlotValue(queue->slot) >= last; },
      [&] {
        return Awaited{queue->timeline, queue->position.load(std::memory_order_acquire)};
      }));
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
  *pQueue = VK_NULL_HANDLE;
  auto* queue = NewQueue(channel, device);
  if (queue == nullptr) return;
  queue->family = queueFamilyIndex;
  queue->index = queueIndex;
  Send_vkGetDeviceQueue(channel, device, queueFamilyIndex, queueIndex, queue->id, queue->timeline);
  *pQueue = FromState<VkQueue>(queue);
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, uint32_t submitCount, const VkSubmitInfo* pSubmits,
                                             VkFence fence) {
  ChannelLock lock(queue);
  GuestChannel& channel = lock.channel();
  if (submitCount == 0 && fence == VK_NULL_HANDLE) return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  GuestQueue* state = State(queue);
  const uint32_t batches = submitCount == 0 ? 1 : submitCount;
  const uint64_t last = BeginSubmit(channel, state, batches);
  if (last == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (uint32_t i = 0; i < submitCount; i++) PromiseSignals(state, last - batches + i + 1, pSubmits[i]);
  if (!Send_vkQueueSubmit(channel, queue, submitCount, pSubmits, state->slot, last)) return VK_ERROR_DEVICE_LOST;
  return EndSubmit(channel, state, last, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueWaitIdle(VkQueue queue) {
  return WaitIdle(ChannelOf(queue), State(queue));
}

VKAPI_ATTR VkResult VKAPI_CALL vkDeviceWaitIdle(VkDevice device) {
  Buffer<GuestQueue*> queues;
  {
    ChannelLock lock(device);
    for (size_t i = 0; i < State(device)->queues.size(); i++) queues.Push(State(device)->queues[i]);
  }
  for (size_t i = 0; i < queues.size(); i++) {
    if (const VkResult result = WaitIdle(ChannelOf(device), queues[i]); result != VK_SUCCESS) return result;
  }
  return ChannelOf(device).lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit2(VkQueue queue, uint32_t submitCount, const VkSubmitInfo2* pSubmits,
                                              VkFence fence) {
  ChannelLock lock(queue);
  GuestChannel& channel = lock.channel();
  if (submitCount == 0 && fence == VK_NULL_HANDLE) return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  GuestQueue* state = State(queue);
  const uint32_t batches = submitCount == 0 ? 1 : submitCount;
  const uint64_t last = BeginSubmit(channel, state, batches);
  if (last == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (uint32_t i = 0; i < submitCount; i++) {
    for (uint32_t j = 0; j < pSubmits[i].signalSemaphoreInfoCount; j++) {
      const VkSemaphoreSubmitInfo& signal = pSubmits[i].pSignalSemaphoreInfos[j];
      PromiseSignal(state, last - batches + i + 1, signal.semaphore, signal.value);
    }
  }
  if (!Send_vkQueueSubmit2(channel, queue, submitCount, pSubmits, state->slot, last)) return VK_ERROR_DEVICE_LOST;
  return EndSubmit(channel, state, last, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateFence(VkDevice device, const VkFenceCreateInfo* pCreateInfo,
                                             const VkAllocationCallbacks*, VkFence* pFence) {
  (void)device;
  // Payloads of fences do not leave the program.
  for (const auto* s = static_cast<const VkBaseInStructure*>(pCreateInfo->pNext); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_EXPORT_FENCE_CREATE_INFO) continue;
    VkExportFenceCreateInfo info;
    memcpy(&info, s, sizeof(info));
    if (info.handleTypes != 0) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  auto* state = new GuestFence;
  state->signaled = (pCreateInfo->flags & VK_FENCE_CREATE_SIGNALED_BIT) != 0;
  *pFence = FromState<VkFence>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyFence(VkDevice, VkFence fence, const VkAllocationCallbacks*) {
  if (fence != VK_NULL_HANDLE) delete State(fence);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetFences(VkDevice, uint32_t fenceCount, const VkFence* pFences) {
  for (uint32_t i = 0; i < fenceCount; i++) *State(pFences[i]) = GuestFence{};
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetFenceStatus(VkDevice device, VkFence fence) {
  const GuestChannel& channel = ChannelOf(device);
  if (Signaled(channel, State(fence))) return VK_SUCCESS;
  if (!channel.lost()) return VK_NOT_READY;
  return Signaled(channel, State(fence)) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL vkWaitForFences(VkDevice device, uint32_t fenceCount, const VkFence* pFences,
                                               VkBool32 waitAll, uint64_t timeout) {
  GuestChannel& channel = ChannelOf(device);
  uint32_t first = 0;  // all before it are signaled (waitAll)
  return ToResult(WaitUntil(
      channel, timeout,
      [&] {
        if (waitAll != VK_FALSE) {
          while (first < fenceCount && Signaled(channel, State(pFences[first]))) first++;
          return first == fenceCount;
        }
        for (uint32_t i = 0; i < fenceCount; i++) {
          if (Signaled(channel, State(pFences[i]))) return true;
        }
        return fenceCount == 0;
      },
      [&] {
        Awaited awaited;
        awaited.several = waitAll == VK_FALSE && fenceCount > 1;
        for (uint32_t i = first; i < fenceCount; i++) {
          const GuestFence* fence = State(pFences[i]);
          if (fence->queue == nullptr) continue;
          awaited.timeline = fence->queue->timeline;
          awaited.position = fence->position;
          break;
        }
        return awaited;
      }));
}

}  // extern "C"
