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
}  // namespace

bool DeviceFunctions::Load(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceFunctions* out) {
  return LoadFunction(get, device, "vkCreateFence", &out->create_fence) &&
         LoadFunction(get, device, "vkDestroyFence", &out->destroy_fence) &&
         LoadFunction(get, device, "vkResetFences", &out->reset_fences) &&
         LoadFunction(get, device, "vkWaitForFences", &out->wait_for_fences) &&
         LoadFunction(get, device, "vkQueueSubmit", &out->queue_submit);
}

QueueTracker::QueueTracker(const DeviceFunctions& vk, VkDevice device, VkQueue queue,
                           const QueueTrackerOptions& options, QueueListener* listener)
    : vk_(vk), device_(device), queue_(queue), options_(options), listener_(listener) {}

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
  {
    MutexLock lock(&mu_);
    lost_ = true;
    changed_.SignalAll();
  }
  listener_->OnQueueLost(absl::StrCat("a queue without a thread: ", thread.status().message()));
  return false;
}

VkResult QueueTracker::Submit(uint32_t count, const VkSubmitInfo* submits, FeedbackTarget feedback) {
  if (!EnsureThread()) return VK_ERROR_DEVICE_LOST;
  VkFence fence = VK_NULL_HANDLE;
  {
    MutexLock lock(&mu_);
    const absl::Time deadline = absl::Now() + options_.gpu_timeout;
    while (!lost_ && !stop_ && in_flight_.size() >= options_.max_in_flight) {
      if (absl::Now() >= deadline) return VK_ERROR_DEVICE_LOST;
      changed_.WaitWithTimeout(&mu_, kSlice);
    }
    if (lost_ || stop_) return VK_ERROR_DEVICE_LOST;
    if (const VkResult result = TakeFence(&fence); result != VK_SUCCESS) return result;
  }
  const int64_t start = absl::GetCurrentTimeNanos();
  const VkResult result = vk_.queue_submit(queue_, count, submits, fence);
  MutexLock lock(&mu_);
  if (result != VK_SUCCESS) {
    free_.push_back(fence);
    return result;
  }
  options_.stats->submits.fetch_add(1, std::memory_order_relaxed);
  in_flight_.push_back(InFlight{fence, std::move(feedback), start});
  progress_->submitted.fetch_add(1, std::memory_order_seq_cst);
  changed_.SignalAll();
  return VK_SUCCESS;
}

bool QueueTracker::WaitIdle() {
  // Bounded by the waiter, which declares the queue lost when it makes no progress.
  MutexLock lock(&mu_);
  while (!in_flight_.empty() && !lost_) changed_.Wait(&mu_);
  return !lost_;
}

bool QueueTracker::hung() const {
  MutexLock lock(&mu_);
  return hung_;
}

bool QueueTracker::Stop() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
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

void QueueTracker::Run() {
  for (;;) {
    VkFence fence = VK_NULL_HANDLE;
    int64_t start = 0;
    {
      MutexLock lock(&mu_);
      while (in_flight_.empty() && !stop_) changed_.Wait(&mu_);
      if (in_flight_.empty()) return;
      fence = in_flight_.front().fence;
      start = in_flight_.front().start_ns;
    }
    // The driver's own wait, in slices; a submission that does not end is a hang.
    VkResult result = VK_TIMEOUT;
    const absl::Time deadline = absl::Now() + options_.gpu_timeout;
    while (result == VK_TIMEOUT && absl::Now() < deadline) {
      result =
          vk_.wait_for_fences(device_, 1, &fence, VK_TRUE, static_cast<uint64_t>(absl::ToInt64Nanoseconds(kSlice)));
    }
    if (result != VK_SUCCESS) {
      {
        MutexLock lock(&mu_);
        lost_ = true;
        hung_ = result == VK_TIMEOUT;
        changed_.SignalAll();
      }
      listener_->OnQueueLost(result == VK_TIMEOUT ? "GPU work did not end within the limit"
                                                  : "the driver lost the device");
      return;
    }
    const int64_t now = absl::GetCurrentTimeNanos();
    options_.stats->gpu_ns.fetch_add(static_cast<uint64_t>(std::max<int64_t>(now - start, 0)),
                                     std::memory_order_relaxed);
    FeedbackTarget feedback;
    {
      MutexLock lock(&mu_);
      feedback = std::move(in_flight_.front().feedback);
    }
    if (feedback.ring != nullptr) RingView(feedback.ring->mapping()).StoreFeedback(feedback.slot, feedback.value);
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
    changed_.SignalAll();
  }
}

}  // namespace sluice::worker
