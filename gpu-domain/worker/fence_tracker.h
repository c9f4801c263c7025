// File: fence_tracker.h
//
// The virtio-gpu fences of one context that are not signaled yet, and when each becomes true (flatbuf/wire.h,
// SubmitCommand): first the ring must have been executed up to a position, then, on timelines 1..63, the work that was
// submitted by then to the queue bound to the timeline must have completed. Fences of different rings and timelines
// come true in any order.
//
//   FenceTracker fences([&](uint8_t ring_idx, uint64_t id) { outbox.FenceSignaled(context, ring_idx, id); });
//   fences.Add({.ring = 0, .position = 4096, .ring_idx = 1, .fence_id = 7});
//   fences.OnRingProgress(0, 4096);        // ring thread
//   fences.OnQueueProgress(queue.get());   // queue's waiter thread
#ifndef SLUICE_GPU_DOMAIN_WORKER_FENCE_TRACKER_H_
#define SLUICE_GPU_DOMAIN_WORKER_FENCE_TRACKER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "flatbuf/wire.h"
#include "vmm/base/mutex.h"

namespace sluice::worker {

// How far a queue has come. Counts submissions: 1, 2, 3 ... Written by the queue's owner.
struct QueueProgress {
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> completed{0};
};

struct PendingFence {
  uint32_t ring = 0;      // < wire::kMaxRings
  uint64_t position = 0;  // 0: nothing to wait for in the ring
  uint8_t ring_idx = 0;   // < wire::kMaxTimelines
  uint64_t fence_id = 0;
};

// Thread-safe. `signal` is called with the tracker's lock held, from any of the threads that report progress.
class FenceTracker {
 public:
  using SignalFn = std::function<void(uint8_t ring_idx, uint64_t fence_id)>;
  static constexpr size_t kMaxPending = 16384;

  explicit FenceTracker(SignalFn signal) : signal_(std::move(signal)) {}

  // Signals at once what is already true, or when the context is lost. False: too many fences are pending.
  bool Add(const PendingFence& fence);
  // Fences on `timeline` (1..63) wait for `queue` from now on; null unbinds.
  void Bind(uint8_t timeline, std::shared_ptr<QueueProgress> queue);
  // Ring thread: `ring` was executed up to `position`.
  void OnRingProgress(uint32_t ring, uint64_t position);
  // A ring is gone (its blob was destroyed): what waited for it comes true; a new ring of that number starts at 0.
  void OnRingGone(uint32_t ring);
  // Queue's waiter: `queue->completed` has grown.
  void OnQueueProgress(const QueueProgress* queue);
  // The queue goes away: unbinds it and signals what waited for it.
  void OnQueueGone(const QueueProgress* queue);
  // The context is lost or destroyed: everything pending is signaled, and everything later at once.
  void SignalAll();

  size_t pending() const { return pending_.load(std::memory_order_relaxed); }

 private:
  struct QueueFences {
    std::shared_ptr<QueueProgress> queue;
    std::multimap<uint64_t, PendingFence> waiting;  // by submission number
  };

  // The ring condition holds: signals the fence, or lets it wait for its queue.
  void RingDone(const PendingFence& fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Signal(const PendingFence& fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Insert(std::multimap<uint64_t, PendingFence>& where, uint64_t key, const PendingFence& fence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes out all up to and including `key` and passes each on: to RingDone or to Signal.
  void ReleaseRing(uint32_t ring, uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReleaseQueue(QueueFences& fences, uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SignalFn signal_;
  // Read without the lock by ring threads: nothing pending, nothing to do.
  std::atomic<size_t> pending_{0};
  std::array<std::atomic<uint64_t>, wire::kMaxRings> positions_{};
  Mutex mu_;
  bool all_signaled_ ABSL_GUARDED_BY(mu_) = false;
  std::array<std::multimap<uint64_t, PendingFence>, wire::kMaxRings> rings_ ABSL_GUARDED_BY(mu_);
  std::array<std::shared_ptr<QueueProgress>, wire::kMaxTimelines> timelines_ ABSL_GUARDED_BY(mu_);
  std::map<const QueueProgress*, QueueFences> queues_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_FENCE_TRACKER_H_
