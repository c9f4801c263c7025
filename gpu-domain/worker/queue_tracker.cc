#include "gpu-domain/worker/queue_tracker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gpu-domain/worker/shared_raw.h"
#include "gpu-domain/worker/vulkan_raw.h"

namespace sluice::worker {
namespace {
// How long one wait in the driver lasts; between two the thread looks whether it is to end.
constexpr absl::Duration kSlice = absl::Milliseconds(100);
// What remains between a fence and the semaphores of the same submission is some microseconds of the driver.
constexpr absl::Duration kSignalLag = absl::Seconds(1);
}  // namespace

bool DeviceFunctions::Load(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceFunctions* out) {
  LoadFunction(get, device, "vkQueueSubmit2", &out->queue_submit2);
  LoadFunction(get, device, "vkSignalSemaphore", &out->signal_semaphore);
  LoadFunction(get, device, "vkWaitSemaphores", &out->wait_semaphores);
  return LoadFunction(get, device, "vkCreateFence", &out->create_fence) &&
         LoadFunction(get, device, "vkDestroyFence", &out->destroy_fence) &&
         LoadFunction(get, device, "vkResetFences", &out->reset_fences) &&
         LoadFunction(get, device, "vkGetFenceStatus", &out->get_fence_status) &&
         LoadFunction(get, device, "vkWaitForFences", &out->wait_for_fences) &&
         LoadFunction(get, device, "vkQueueSubmit", &out->queue_submit);
}

QueueTracker::QueueTracker(const DeviceFunctions& vk, VkDevice device, const QueueTrackerOptions& options,
                           QueueListener* listener)
    : vk_(vk), device_(device), options_(options), listener_(listener) {}

QueueTracker::~QueueTracker() {
  Stop();
}

VkResult QueueTracker::TakeFence(VkFence* fence) {
  if (!free_.empty()) {
    *fence = free_.back();
    free_.pop_back();
    return VK_SUCCESS;
  }
  VkFenceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  return vk_.create_fence(device_, &info, nullptr, fence);
}

bool QueueTracker::EnsureThread() {
  if (thread_.joinable()) return true;
  {
    MutexLock lock(&mu_);
    if (lost_ || stop_) return false;
  }
  absl::StatusOr<Thread> thread = StartThread([this] { Run(); });
  if (thread.ok()) {
    thread_ = *std::move(thread);
    return true;
  }
  SetLost(/*hung=*/false);
  listener_->OnQueueLost(absl::StrCat("a queue without a thread: ", thread.status().message()));
  return false;
}

VkResult QueueTracker::Submit(absl::FunctionRef<VkResult(VkFence)> submit, Completion completion) {
  if (!EnsureThread()) return VK_ERROR_DEVICE_LOST;
  VkFence fence = VK_NULL_HANDLE;
  {
    MutexLock lock(&mu_);
    if (lost_ || stop_) return VK_ERROR_DEVICE_LOST;
    if (in_flight_.size() >= options_.max_in_flight) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (const VkResult result = TakeFence(&fence); result != VK_SUCCESS) return result;
  }
  const int64_t start = absl::GetCurrentTimeNanos();
  const VkResult result = submit(fence);
  MutexLock lock(&mu_);
  if (result != VK_SUCCESS) {
    free_.push_back(fence);
    return result;
  }
  options_.stats->submits.fetch_add(1, std::memory_order_relaxed);
  in_flight_.push_back(InFlight{fence, std::move(completion), start});
  progress_->submitted.fetch_add(1, std::memory_order_seq_cst);
  return VK_SUCCESS;
}

bool QueueTracker::Poll() {
  for (;;) {
    VkFence fence = VK_NULL_HANDLE;
    {
      MutexLock lock(&mu_);
      if (in_flight_.empty() || handed_over_ || lost_) return false;
      fence = in_flight_.front().fence;
    }
    // Only this thread takes entries out and reuses fences as long as they are not handed over.
    const VkResult result = vk_.get_fence_status(device_, fence);
    if (result == VK_NOT_READY) return true;
    if (result != VK_SUCCESS) {
      SetLost(/*hung=*/false);
      listener_->OnQueueLost("the driver lost the device");
      return false;
    }
    CompleteFirst();
  }
}

void QueueTracker::HandOver() {
  MutexLock lock(&mu_);
  if (in_flight_.empty() || handed_over_ || lost_) return;
  handed_over_ = true;
  changed_.SignalAll();
}

bool QueueTracker::WaitIdle(absl::FunctionRef<bool()> give_up) {
  HandOver();
  // Bounded by the thread, which declares the queue lost when it makes no progress.
  MutexLock lock(&mu_);
  while (!in_flight_.empty() && !lost_) {
    if (!changed_.WaitWithTimeout(&mu_, kSlice)) continue;
    mu_.Unlock();
    const bool enough = give_up();
    mu_.Lock();
    if (enough) break;
  }
  return in_flight_.empty() && !lost_;
}

bool QueueTracker::Reached(const std::vector<TimelinePoint>& points) {
  return std::all_of(points.begin(), points.end(), [](const TimelinePoint& point) {
    return point.counter->value.load(std::memory_order_acquire) >= point.value;
  });
}

std::vector<TimelinePoint> QueueTracker::Blocked() const {
  std::vector<TimelinePoint> blocked;
  MutexLock lock(&mu_);
  for (const InFlight& submission : in_flight_) {
    for (const TimelinePoint& point : submission.completion.waits) {
      if (point.counter->value.load(std::memory_order_acquire) < point.value) blocked.push_back(point);
    }
  }
  return blocked;
}

bool QueueTracker::hung() const {
  MutexLock lock(&mu_);
  return hung_;
}

void QueueTracker::SetLost(bool hung) {
  MutexLock lock(&mu_);
  lost_ = true;
  hung_ = hung;
  changed_.SignalAll();
}

bool QueueTracker::Stop() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    handed_over_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.Join();
  MutexLock lock(&mu_);
  for (const VkFence fence : free_) vk_.destroy_fence(device_, fence, nullptr);
  free_.clear();
  if (hung_) return false;
  // After VK_ERROR_DEVICE_LOST objects in use may be destroyed.
  for (const InFlight& lost : in_flight_) vk_.destroy_fence(device_, lost.fence, nullptr);
  in_flight_.clear();
  return true;
}

void QueueTracker::AwaitSignals(const std::vector<TimelinePoint>& points) const {
  if (vk_.wait_semaphores == nullptr) return;
  for (const TimelinePoint& point : points) {
    const VkSemaphore semaphore = point.counter->semaphore.load(std::memory_order_acquire);
    if (semaphore == VK_NULL_HANDLE) continue;
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &point.value;
    vk_.wait_semaphores(device_, &info, static_cast<uint64_t>(absl::ToInt64Nanoseconds(kSignalLag)));
  }
}

void QueueTracker::CompleteFirst() {
  Completion completion;
  VkFence fence = VK_NULL_HANDLE;
  {
    MutexLock lock(&mu_);
    InFlight& first = in_flight_.front();
    completion = std::move(first.completion);
    fence = first.fence;
    const int64_t took = absl::GetCurrentTimeNanos() - first.start_ns;
    options_.stats->gpu_ns.fetch_add(static_cast<uint64_t>(std::max<int64_t>(took, 0)), std::memory_order_relaxed);
  }
  AwaitSignals(completion.signals);
  if (options_.copies != nullptr) options_.copies->ToHost();
  for (const TimelinePoint& point : completion.signals) point.counter->RaiseTo(point.value);
  const FeedbackTarget& feedback = completion.feedback;
  if (feedback.ring != nullptr) {
    const RingView view(feedback.ring->mapping());
    view.StoreFeedback(feedback.slot, feedback.value);
    view.WakeCompletion();
  }
  progress_->completed.fetch_add(1, std::memory_order_seq_cst);
  listener_->OnQueueProgress(progress_.get());
  const VkResult reset = vk_.reset_fences(device_, 1, &fence);
  MutexLock lock(&mu_);
  in_flight_.pop_front();
  if (reset == VK_SUCCESS) {
    free_.push_back(fence);
  } else {
    vk_.destroy_fence(device_, fence, nullptr);
  }
  if (!in_flight_.empty()) return;
  handed_over_ = false;
  changed_.SignalAll();
}

void QueueTracker::Run() {
  for (;;) {
    VkFence fence = VK_NULL_HANDLE;
    {
      MutexLock lock(&mu_);
      while ((in_flight_.empty() || !handed_over_) && !stop_) changed_.Wait(&mu_);
      if (in_flight_.empty() || lost_) return;
      fence = in_flight_.front().fence;
    }
    // The driver's own wait, in slices; a submission that has begun and does not end is a hang.
    VkResult result = VK_TIMEOUT;
    absl::Time deadline = absl::Now() + options_.gpu_timeout;
    while (result == VK_TIMEOUT && absl::Now() < deadline) {
      result =
          vk_.wait_for_fences(device_, 1, &fence, VK_TRUE, static_cast<uint64_t>(absl::ToInt64Nanoseconds(kSlice)));
      if (result != VK_TIMEOUT) break;
      MutexLock lock(&mu_);
      if (!stop_ && !Reached(in_flight_.front().completion.waits)) deadline = absl::Now() + options_.gpu_timeout;
    }
    if (result != VK_SUCCESS) {
      SetLost(/*hung=*/result == VK_TIMEOUT);
      listener_->OnQueueLost(result == VK_TIMEOUT ? "GPU work did not end within the limit"
                                                  : "the driver lost the device");
      return;
    }
    CompleteFirst();
  }
}

}  // namespace sluice::worker
