// File: queue_tracker.h
//
// Completion of one VkQueue's submissions without anybody polling: each submission carries an internal VkFence from a
// pool; one thread per queue waits for them in order, writes feedback slots, counts, and tells whoever is interested.
//
//   auto queue = std::make_shared<QueueTracker>(device_functions, device, vk_queue, options, listener);
//   queue->Submit(count, submits, FeedbackTarget{ring_blob, slot, value});
//   queue->WaitIdle();
#ifndef SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_
#define SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "flatbuf/stats.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "vmm/base/mutex.h"
#include "vmm/base/thread.h"

namespace sluice::worker {

// The device functions that the worker itself calls, whatever the guest may call.
struct DeviceFunctions {
  PFN_vkCreateFence create_fence = nullptr;
  PFN_vkDestroyFence destroy_fence = nullptr;
  PFN_vkResetFences reset_fences = nullptr;
  PFN_vkWaitForFences wait_for_fences = nullptr;
  PFN_vkQueueSubmit queue_submit = nullptr;

  // False if one that is needed is missing.
  static bool Load(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceFunctions* out);
};

// Where a completed submission is published. No blob: nowhere.
struct FeedbackTarget {
  std::shared_ptr<Blob> ring;  // a ring blob
  uint64_t slot = 0;           // < its feedback_slots()
  uint64_t value = 0;
};

// Told from a queue's thread.
class QueueListener {
 public:
  virtual ~QueueListener() = default;
  virtual void OnQueueProgress(const QueueProgress* queue) = 0;
  // The device is lost or a submission takes longer than the limit. Called once per queue.
  virtual void OnQueueLost(absl::string_view why) = 0;
};

struct QueueTrackerOptions {
  absl::Duration gpu_timeout = absl::Seconds(30);  // one submission, from when its predecessor completed
  size_t max_in_flight = 1024;                     // submissions; more wait in Submit
  wire::WorkerStats* stats = nullptr;              // submits, gpu_ns
};

// Submit and WaitIdle: one thread at a time (the context's executing thread). The rest is internal.
class QueueTracker {
 public:
  // `listener` and `device` outlive the tracker.
  QueueTracker(const DeviceFunctions& vk, VkDevice device, VkQueue queue, const QueueTrackerOptions& options,
               QueueListener* listener);
  // Stop()s.
  ~QueueTracker();

  // vkQueueSubmit with the internal fence; publishes to `feedback` when complete. VK_ERROR_DEVICE_LOST also when the
  // queue does not get below max_in_flight within the limit, or the host gives no thread to wait with (the queue is
  // then lost).
  VkResult Submit(uint32_t count, const VkSubmitInfo* submits, FeedbackTarget feedback);
  // True: everything submitted has completed. False: the queue is lost, because the driver says so or because a
  // submission takes longer than the limit.
  bool WaitIdle();
  // A submission took longer than the limit: nothing that it uses can be freed.
  bool hung() const;
  // Waits for what is in flight, ends the thread and destroys the fences. False: the queue hangs, and its fences had to
  // be left alone. Idempotent.
  bool Stop();

  const std::shared_ptr<QueueProgress>& progress() const { return progress_; }

 private:
  struct InFlight {
    VkFence fence;
    FeedbackTarget feedback;
    int64_t start_ns;
  };
  void Run();
  // Before anything is submitted. False: lost or stopped.
  bool EnsureThread();
  VkResult TakeFence(VkFence* fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const DeviceFunctions vk_;
  const VkDevice device_;
  const VkQueue queue_;
  const QueueTrackerOptions options_;
  QueueListener* const listener_;
  const std::shared_ptr<QueueProgress> progress_ = std::make_shared<QueueProgress>();

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mu_);
  std::vector<VkFence> free_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  bool hung_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;  // started with the first submission
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_QUEUE_TRACKER_H_
