// Queues and semaphores: what is submitted, what its completion means, and how an end comes to what waits for ever.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "flatbuf/vk/exec_dispatch.h"
#include "gpu-domain/worker/policy.h"
#include "gpu-domain/worker/shared_raw.h"

namespace sluice::worker {
namespace {

template <typename T>
const T* FindChained(const void* next, VkStructureType type) {
  for (const auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType == type) return static_cast<const T*>(static_cast<const void*>(s));
  }
  return nullptr;
}

}  // namespace

void WorkerPolicy::vkGetDeviceQueue(exec::Call& call, VkDevice device, uint32_t family, uint32_t index, VkQueue* queue,
                                    uint8_t timeline) {
  *queue = VK_NULL_HANDLE;
  Device* state = FindDevice(device);
  if (state == nullptr) return;
  const auto count = state->queue_counts.find(family);
  if (count == state->queue_counts.end() || index >= count->second || timeline >= wire::kMaxTimelines) {
    call.lost = absl::InvalidArgumentError(
        absl::StrCat("vkGetDeviceQueue: no queue ", index, " of family ", family, " or no timeline ", timeline));
    return;
  }
  DriverPolicy::vkGetDeviceQueue(call, device, family, index, queue, timeline);
  if (*queue == VK_NULL_HANDLE) return;
  std::shared_ptr<QueueTracker>& tracker = queues_[*queue];
  if (tracker == nullptr) {
    QueueTrackerOptions options;
    options.gpu_timeout = options_.gpu_timeout;
    options.stats = options_.stats;
    options.copies = &copies_;
    tracker = std::make_shared<QueueTracker>(state->vk, device, options, listener_);
    state->queues.push_back(*queue);
  }
  if (timeline != 0) fences_->Bind(timeline, tracker->progress());
}

void WorkerPolicy::AddPoint(VkSemaphore semaphore, uint64_t value, std::vector<TimelinePoint>* points) {
  const auto it = timelines_.find(semaphore);
  if (it != timelines_.end()) points->push_back({it->second, value});
}

Completion WorkerPolicy::CompletionOf(const VkSubmitInfo& submit) {
  Completion completion;
  const auto* values =
      FindChained<VkTimelineSemaphoreSubmitInfo>(submit.pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  if (values == nullptr) return completion;
  for (uint32_t i = 0; i < std::min(submit.waitSemaphoreCount, values->waitSemaphoreValueCount); ++i) {
    AddPoint(submit.pWaitSemaphores[i], values->pWaitSemaphoreValues[i], &completion.waits);
  }
  for (uint32_t i = 0; i < std::min(submit.signalSemaphoreCount, values->signalSemaphoreValueCount); ++i) {
    AddPoint(submit.pSignalSemaphores[i], values->pSignalSemaphoreValues[i], &completion.signals);
  }
  return completion;
}

Completion WorkerPolicy::CompletionOf(const VkSubmitInfo2& submit) {
  Completion completion;
  for (uint32_t i = 0; i < submit.waitSemaphoreInfoCount; ++i) {
    AddPoint(submit.pWaitSemaphoreInfos[i].semaphore, submit.pWaitSemaphoreInfos[i].value, &completion.waits);
  }
  for (uint32_t i = 0; i < submit.signalSemaphoreInfoCount; ++i) {
    AddPoint(submit.pSignalSemaphoreInfos[i].semaphore, submit.pSignalSemaphoreInfos[i].value, &completion.signals);
  }
  return completion;
}

template <typename Info, typename Submit>
VkResult WorkerPolicy::SubmitBatches(exec::Call& call, VkQueue queue, uint32_t count, const Info* submits,
                                     uint32_t slot, uint64_t batch, Submit submit) {
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return VK_ERROR_DEVICE_LOST;
  QueueTracker& tracker = *it->second;
  std::shared_ptr<Blob> ring;
  if (slot != exec::kNoSlot) {
    if (ring_ == nullptr || slot >= RingView(ring_->mapping()).feedback_slots()) {
      call.lost = absl::InvalidArgumentError(absl::StrCat("submission with feedback slot ", slot));
      return VK_ERROR_DEVICE_LOST;
    }
    ring = ring_;
  }
  // Batches go to the driver together as long as nobody can see one of them complete before the others: a timeline
  // semaphore that is signaled is seen, and a wait for one may be answered by somebody who has seen that.
  copies_.ToDevice();
  uint32_t first = 0;
  Completion completion;
  for (uint32_t i = 0; i < count; ++i) {
    Completion one = CompletionOf(submits[i]);
    std::move(one.waits.begin(), one.waits.end(), std::back_inserter(completion.waits));
    std::move(one.signals.begin(), one.signals.end(), std::back_inserter(completion.signals));
    if (i + 1 < count && completion.signals.empty()) continue;
    completion.feedback = FeedbackTarget{ring, slot, batch - (count - 1 - i)};
    const auto part = [&](VkFence fence) { return submit(i + 1 - first, submits + first, fence); };
    if (const VkResult result = tracker.Submit(part, std::move(completion)); result != VK_SUCCESS) return result;
    completion = Completion();
    first = i + 1;
  }
  if (count != 0) return VK_SUCCESS;
  completion.feedback = FeedbackTarget{ring, slot, batch};
  return tracker.Submit([&](VkFence fence) { return submit(0, submits, fence); }, std::move(completion));
}

VkResult WorkerPolicy::vkQueueSubmit(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                     uint32_t slot, uint64_t batch) {
  return SubmitBatches(call, queue, count, submits, slot, batch,
                       [&](uint32_t part, const VkSubmitInfo* infos, VkFence fence) {
                         return call.device_vk->QueueSubmit(queue, part, infos, fence);
                       });
}

VkResult WorkerPolicy::vkQueueSubmit2(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits,
                                      uint32_t slot, uint64_t batch) {
  return SubmitBatches(call, queue, count, submits, slot, batch,
                       [&](uint32_t part, const VkSubmitInfo2* infos, VkFence fence) {
                         return call.device_vk->QueueSubmit2(queue, part, infos, fence);
                       });
}

VkResult WorkerPolicy::vkCreateSemaphore(exec::Call& call, VkDevice device, const VkSemaphoreCreateInfo* info,
                                         const VkAllocationCallbacks* allocator, VkSemaphore* semaphore) {
  const VkResult result = DriverPolicy::vkCreateSemaphore(call, device, info, allocator, semaphore);
  if (result != VK_SUCCESS) return result;
  const auto* type = FindChained<VkSemaphoreTypeCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  if (type != nullptr && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE) {
    auto counter = std::make_shared<TimelineCounter>();
    counter->value = type->initialValue;
    counter->semaphore = *semaphore;
    timelines_[*semaphore] = std::move(counter);
  }
  return VK_SUCCESS;
}

void WorkerPolicy::vkDestroySemaphore(exec::Call& call, VkDevice device, VkSemaphore semaphore,
                                      const VkAllocationCallbacks* allocator) {
  if (const auto it = timelines_.find(semaphore); it != timelines_.end()) {
    it->second->semaphore.store(VK_NULL_HANDLE, std::memory_order_release);
    timelines_.erase(it);
  }
  DriverPolicy::vkDestroySemaphore(call, device, semaphore, allocator);
}

VkResult WorkerPolicy::vkSignalSemaphore(exec::Call& call, VkDevice device, const VkSemaphoreSignalInfo* info) {
  const auto it = timelines_.find(info->semaphore);
  if (it == timelines_.end()) {
    call.lost = absl::InvalidArgumentError("vkSignalSemaphore: not a timeline semaphore");
    return VK_ERROR_DEVICE_LOST;
  }
  copies_.ToDevice();
  const VkResult result = DriverPolicy::vkSignalSemaphore(call, device, info);
  if (result == VK_SUCCESS) it->second->RaiseTo(info->value);
  return result;
}

bool WorkerPolicy::PollQueues() {
  bool busy = false;
  for (const auto& [handle, tracker] : queues_) busy = tracker->Poll() || busy;
  return busy;
}

void WorkerPolicy::HandOverQueues() {
  for (const auto& [handle, tracker] : queues_) tracker->HandOver();
}

void WorkerPolicy::Unblock(const Device& device, VkDevice handle) {
  if (device.vk.signal_semaphore == nullptr) return;
  for (const VkQueue queue : device.queues) {
    for (const TimelinePoint& point : queues_[queue]->Blocked()) {
      for (const auto& [semaphore, counter] : timelines_) {
        if (counter != point.counter || counter->value.load(std::memory_order_acquire) >= point.value) continue;
        VkSemaphoreSignalInfo info{};
        info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
        info.semaphore = semaphore;
        info.value = point.value;
        if (device.vk.signal_semaphore(handle, &info) == VK_SUCCESS) counter->RaiseTo(point.value);
      }
    }
  }
}

bool WorkerPolicy::WaitDeviceIdle(const Device& device, VkDevice handle, bool ending) {
  const absl::Time deadline = absl::Now() + options_.gpu_timeout;
  return std::all_of(device.queues.begin(), device.queues.end(), [&](VkQueue queue) {
    return queues_[queue]->WaitIdle([&] {
      // What waits for a signal that nobody will send any more: its end is wanted, not its result.
      if (ending) Unblock(device, handle);
      return absl::Now() > deadline;
    });
  });
}

VkResult WorkerPolicy::vkDeviceWaitIdle(exec::Call&, VkDevice device) {
  const Device* state = FindDevice(device);
  if (state == nullptr) return VK_ERROR_DEVICE_LOST;
  // Every submission of a guest goes through a tracker: when they are idle the device is.
  if (WaitDeviceIdle(*state, device, /*ending=*/true)) return VK_SUCCESS;
  if (Hung(*state)) host_->OnHung("GPU work does not end");
  return VK_ERROR_DEVICE_LOST;
}

bool WorkerPolicy::Hung(const Device& device) {
  return std::any_of(device.queues.begin(), device.queues.end(), [&](VkQueue queue) { return queues_[queue]->hung(); });
}

}  // namespace sluice::worker
