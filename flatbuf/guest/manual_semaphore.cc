// Semaphores. The counter of a timeline semaphore is kept here: the host's signals and the batches that signal it are
// all known to the guest, so that reading and waiting cross nothing.
#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/waiting.h"
#include "flatbuf/guest/word_lock.h"
#include "flatbuf/vk/guest_send.h"

namespace sluice::guest {
namespace {

void RaiseTo(GuestSemaphore* semaphore, uint64_t value) {
  if (semaphore->value.load(std::memory_order_relaxed) < value)
    semaphore->value.store(value, std::memory_order_release);
}

// The counter as far as it is known.
uint64_t Counter(GuestChannel& channel, GuestSemaphore* semaphore) {
  if (semaphore->waiting.load(std::memory_order_acquire) == 0) return semaphore->value.load(std::memory_order_acquire);
  WordLock lock(&semaphore->lock, channel.platform());
  Buffer<GuestSemaphore::Signal>& pending = semaphore->pending;
  for (size_t i = 0; i < pending.size();) {
    if (channel.SlotValue(pending[i].queue->slot) >= pending[i].batch) {
      RaiseTo(semaphore, pending[i].value);
      pending[i] = pending.back();
      pending.Pop();
    } else {
      i++;
    }
  }
  const uint64_t value = semaphore->value.load(std::memory_order_relaxed);
  semaphore->waiting.store(static_cast<uint32_t>(pending.size()), std::memory_order_release);
  return value;
}

}  // namespace

void PromiseSignal(GuestQueue* queue, uint64_t batch, VkSemaphore semaphore, uint64_t value) {
  GuestSemaphore* state = State(semaphore);
  if (state == nullptr || !state->timeline) return;
  GuestChannel& channel = *queue->channel;
  Counter(channel, state);  // forgets what is complete
  WordLock lock(&state->lock, channel.platform());
  state->pending.Push({queue, batch, value});
  state->waiting.store(static_cast<uint32_t>(state->pending.size()), std::memory_order_release);
}

void PromiseSignals(GuestQueue* queue, uint64_t batch, const VkSubmitInfo& submit) {
  for (const auto* s = static_cast<const VkBaseInStructure*>(submit.pNext); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) continue;
    VkTimelineSemaphoreSubmitInfo info;
    memcpy(&info, s, sizeof(info));
    if (info.pSignalSemaphoreValues == nullptr) return;
    for (uint32_t i = 0; i < submit.signalSemaphoreCount && i < info.signalSemaphoreValueCount; i++) {
      PromiseSignal(queue, batch, submit.pSignalSemaphores[i], info.pSignalSemaphoreValues[i]);
    }
    return;
  }
}

}  // namespace sluice::guest

using namespace sluice::guest;

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo* pCreateInfo,
                                                 const VkAllocationCallbacks*, VkSemaphore* pSemaphore) {
  bool timeline = false;
  uint64_t value = 0;
  for (const auto* s = static_cast<const VkBaseInStructure*>(pCreateInfo->pNext); s != nullptr; s = s->pNext) {
    if (s->sType == VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO) {
      VkSemaphoreTypeCreateInfo info;
      memcpy(&info, s, sizeof(info));
      timeline = info.semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
      value = info.initialValue;
    } else if (s->sType == VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO) {
      // Payloads of semaphores do not leave the program.
      VkExportSemaphoreCreateInfo info;
      memcpy(&info, s, sizeof(info));
      if (info.handleTypes != 0) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    }
  }
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateSemaphore(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestSemaphore;
  state->id = id;
  state->timeline = timeline;
  state->value.store(value, std::memory_order_relaxed);
  *pSemaphore = FromState<VkSemaphore>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroySemaphore(VkDevice device, VkSemaphore semaphore, const VkAllocationCallbacks*) {
  if (semaphore == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  Send_vkDestroySemaphore(lock.channel(), device, semaphore);
  lock.channel().ids().Free(State(semaphore)->id);
  delete State(semaphore);
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t* pValue) {
  GuestChannel& channel = ChannelOf(device);
  *pValue = Counter(channel, State(semaphore));
  return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkSignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo* pSignalInfo) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  GuestSemaphore* state = State(pSignalInfo->semaphore);
  if (!Send_vkSignalSemaphore(channel, device, pSignalInfo)) return VK_ERROR_DEVICE_LOST;
  {
    WordLock guard(&state->lock, channel.platform());
    RaiseTo(state, pSignalInfo->value);
  }
  channel.WakeOwn();
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo* pWaitInfo,
                                                uint64_t timeout) {
  GuestChannel& channel = ChannelOf(device);
  const VkSemaphoreWaitInfo& info = *pWaitInfo;
  const bool any = (info.flags & VK_SEMAPHORE_WAIT_ANY_BIT) != 0;
  uint32_t first = 0;  // all before it are reached (unless any is enough)
  const auto reached = [&](uint32_t i) { return Counter(channel, State(info.pSemaphores[i])) >= info.pValues[i]; };
  const WaitResult result = WaitUntil(
      channel, timeout,
      [&] {
        if (!any) {
          while (first < info.semaphoreCount && reached(first)) first++;
          return first == info.semaphoreCount;
        }
        for (uint32_t i = 0; i < info.semaphoreCount; i++) {
          if (reached(i)) return true;
        }
        return info.semaphoreCount == 0;
      },
      [&] {
        Awaited awaited;
        awaited.several = true;  // another thread's signal may come first
        GuestSemaphore* state = State(info.pSemaphores[first < info.semaphoreCount ? first : 0]);
        WordLock lock(&state->lock, channel.platform());
        for (size_t i = 0; i < state->pending.size(); i++) {
          const GuestSemaphore::Signal& signal = state->pending[i];
          if (signal.value < info.pValues[first < info.semaphoreCount ? first : 0]) continue;
          awaited.timeline = signal.queue->timeline;
          awaited.position = signal.queue->position.load(std::memory_order_acquire);
        }
        return awaited;
      });
  if (result == WaitResult::kTimeout) return VK_TIMEOUT;
  return result == WaitResult::kDone ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

}  // extern "C"
