// File: queue_tracker.h
//
// Completion of one VkQueue's submissions: each carries an internal VkFence from a pool and is published, in order,
// when it signals: in a feedback slot, in the counters of the timeline semaphores that it signals, and to whoever is
// interested.
//
// Two threads look at the fences, never both at once. The ring's thread, which has just submitted and is about to be
// idle, looks for a moment (Poll): short work is published without any further thread being woken. When it has
// something else to do or goes to sleep it hands over (HandOver) to the tracker's own thread, which waits in the driver
// until nothing is in flight any more.
//
//   auto queue = std::make_shared<QueueTracker>(device_functions, device, options, listener);
//   queue->Submit([&](VkFence fence) { return vk.queue_submit(vk_queue, count, submits, fence); }, completion);
//   while (queue->Poll()) ...
//   queue->HandOver();
#ifndef SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_
#define SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_

#include <vulkan/vulkan_core.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "flatbuf/stats.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "gpu-domain/worker/host_copies.h"
#include "vmm/base/mutex.h"
#include "vmm/base/thread.h"

namespace sluice::worker {

// The device functions that the worker itself calls, whatever the guest may call.
struct DeviceFunctions {
  PFN_vkCreateFence create_fence = nullptr;
  PFN_vkDestroyFence destroy_fence = nullptr;
  PFN_vkResetFences reset_fences = nullptr;
  PFN_vkGetFenceStatus get_fence_status = nullptr;
  PFN_vkWaitForFences wait_for_fences = nullptr;
  PFN_vkQueueSubmit queue_submit = nullptr;
  PFN_vkQueueSubmit2 queue_submit2 = nullptr;        // null before 1.3
  PFN_vkSignalSemaphore signal_semaphore = nullptr;  // null before 1.2
  PFN_vkWaitSemaphores wait_semaphores = nullptr;    // null before 1.2

  // False if one that is needed is missing.
  static bool Load(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceFunctions* out);
};

// Where a completed submission is published. No blob: nowhere.
struct FeedbackTarget {
  std::shared_ptr<Blob> ring;  // a ring blob
  uint64_t slot = 0;           // < its feedback_slots()
  uint64_t value = 0;
};

// What the worker knows of a timeline semaphore's counter, without asking the driver: the guest may have destroyed the
// semaphore meanwhile. Any thread.
struct TimelineCounter {
  std::atomic<uint64_t> value{0};
  std::atomic<VkSemaphore> semaphore{VK_NULL_HANDLE};  // null: destroyed

  void RaiseTo(uint64_t to) {
    uint64_t now = value.load(std::memory_order_relaxed);
    while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
    }
  }
};
struct TimelinePoint {
  std::shared_ptr<TimelineCounter> counter;
  uint64_t value = 0;
};

// What a submission's completion means.
struct Completion {
  FeedbackTarget feedback;
  std::vector<TimelinePoint> waits;    // it does not start before these are reached
  std::vector<TimelinePoint> signals;  // reached when it is complete
};

// Told from whichever thread sees it.
class QueueListener {
 public:
  virtual ~QueueListener() = default;
  virtual void OnQueueProgress(const QueueProgress* queue) = 0;
  // The device is lost or a submission takes longer than the limit. Called once per queue.
  virtual void OnQueueLost(absl::string_view why) = 0;
};

struct QueueTrackerOptions {
  // One submission, from when its predecessor completed. A submission that waits for a timeline semaphore which the
  // host has not signaled yet has not begun.
  absl::Duration gpu_timeout = absl::Seconds(30);
  size_t max_in_flight = 65536;        // submissions: beyond, Submit answers VK_ERROR_OUT_OF_DEVICE_MEMORY
  wire::WorkerStats* stats = nullptr;  // submits, gpu_ns
  HostCopies* copies = nullptr;        // brought up to date before a completion is published; may be null
};

// Submit, WaitIdle, Poll, HandOver: one thread at a time (the context's executing thread). None but WaitIdle waits for
// the GPU. The rest is internal.
class QueueTracker {
 public:
  // `listener` and `device` outlive the tracker.
  QueueTracker(const DeviceFunctions& vk, VkDevice device, const QueueTrackerOptions& options, QueueListener* listener);
  // Stop()s.
  ~QueueTracker();

  // Calls `submit` with the internal fence, and publishes `completion` when it signals. VK_ERROR_DEVICE_LOST also when
  // the host gives no thread to wait with (the queue is then lost).
  VkResult Submit(absl::FunctionRef<VkResult(VkFence)> submit, Completion completion);
  // Publishes what has completed, unless that is the other thread's business at present. True: something is in flight
  // that this thread has to look after: go on polling, or hand over.
  bool Poll();
  // The tracker's thread looks after what is in flight. Cheap when nothing is, or it does already.
  void HandOver();
  // True: everything submitted has completed. False: the queue is lost, because the driver says so or because a
  // submission takes longer than the limit; or `give_up` says so, which is asked now and then.
  bool WaitIdle(absl::FunctionRef<bool()> give_up);
  // What in flight waits for a timeline value that has not been reached.
  std::vector<TimelinePoint> Blocked() const;
  // A submission took longer than the limit: nothing that it uses can be freed.
  bool hung() const;
  // Waits for what is in flight, ends the thread and destroys the fences. False: the queue hangs, and its fences had to
  // be left alone. Idempotent.
  bool Stop();

  const std::shared_ptr<QueueProgress>& progress() const { return progress_; }

 private:
  struct InFlight {
    VkFence fence;
    Completion completion;
    int64_t start_ns;
  };
  void Run();
  // Before anything is submitted. False: lost or stopped.
  bool EnsureThread();
  VkResult TakeFence(VkFence* fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the first submission out and tells everybody. Its fence has signaled.
  void CompleteFirst();
  // Waits until the driver has counted what a completed submission signals. Mesa does that after the fence: whoever
  // signaled the next value, or destroyed the semaphore, on the word of the fence alone would come too early.
  void AwaitSignals(const std::vector<TimelinePoint>& points) const;
  void SetLost(bool hung);
  static bool Reached(const std::vector<TimelinePoint>& points);

  const DeviceFunctions vk_;
  const VkDevice device_;
  const QueueTrackerOptions options_;
  QueueListener* const listener_;
  const std::shared_ptr<QueueProgress> progress_ = std::make_shared<QueueProgress>();

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mu_);
  std::vector<VkFence> free_ ABSL_GUARDED_BY(mu_);
  bool handed_over_ ABSL_GUARDED_BY(mu_) = false;  // the fences are the thread's, until nothing is in flight
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  bool hung_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;  // started with the first submission
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_
