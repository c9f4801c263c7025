#include "gpu-domain/worker/fence_tracker.h"

#include <limits>

namespace sluice::worker {
namespace {
constexpr uint64_t kEverything = std::numeric_limits<uint64_t>::max();
}  // namespace

void FenceTracker::Signal(const PendingFence& fence) {
  signal_(fence.ring_idx, fence.fence_id);
}

void FenceTracker::Insert(std::multimap<uint64_t, PendingFence>& where, uint64_t key, const PendingFence& fence) {
  where.emplace(key, fence);
  // seq_cst against OnRingProgress: either this thread then sees the ring's new position, or the ring sees the fence.
  pending_.fetch_add(1, std::memory_order_seq_cst);
}

void FenceTracker::RingDone(const PendingFence& fence) {
  const std::shared_ptr<QueueProgress>& queue = timelines_[fence.ring_idx];
  if (fence.ring_idx == 0 || queue == nullptr) {
    Signal(fence);
    return;
  }
  const uint64_t target = queue->submitted.load(std::memory_order_seq_cst);
  if (queue->completed.load(std::memory_order_seq_cst) >= target) {
    Signal(fence);
    return;
  }
  QueueFences& fences = queues_[queue.get()];
  fences.queue = queue;
  Insert(fences.waiting, target, fence);
  // The queue may have come there meanwhile, and its waiter may have passed before the insertion.
  ReleaseQueue(fences, queue->completed.load(std::memory_order_seq_cst));
}

void FenceTracker::ReleaseRing(uint32_t ring, uint64_t key) {
  auto& waiting = rings_[ring];
  while (!waiting.empty() && waiting.begin()->first <= key) {
    const PendingFence fence = waiting.begin()->second;
    waiting.erase(waiting.begin());
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    RingDone(fence);
  }
}

void FenceTracker::ReleaseQueue(QueueFences& fences, uint64_t key) {
  while (!fences.waiting.empty() && fences.waiting.begin()->first <= key) {
    const PendingFence fence = fences.waiting.begin()->second;
    fences.waiting.erase(fences.waiting.begin());
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    Signal(fence);
  }
}

bool FenceTracker::Add(const PendingFence& fence) {
  MutexLock lock(&mu_);
  if (all_signaled_ || fence.ring >= wire::kMaxRings || fence.ring_idx >= wire::kMaxTimelines) {
    Signal(fence);
    return true;
  }
  if (pending_.load(std::memory_order_relaxed) >= kMaxPending) return false;
  Insert(rings_[fence.ring], fence.position, fence);
  ReleaseRing(fence.ring, positions_[fence.ring].load(std::memory_order_seq_cst));
  return true;
}

void FenceTracker::Bind(uint8_t timeline, std::shared_ptr<QueueProgress> queue) {
  if (timeline == 0 || timeline >= wire::kMaxTimelines) return;
  MutexLock lock(&mu_);
  timelines_[timeline] = std::move(queue);
}

void FenceTracker::OnRingProgress(uint32_t ring, uint64_t position) {
  positions_[ring].store(position, std::memory_order_seq_cst);
  if (pending_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(&mu_);
  ReleaseRing(ring, position);
}

void FenceTracker::OnRingGone(uint32_t ring) {
  MutexLock lock(&mu_);
  ReleaseRing(ring, kEverything);
  positions_[ring].store(0, std::memory_order_seq_cst);
}

void FenceTracker::OnQueueProgress(const QueueProgress* queue) {
  if (pending_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(&mu_);
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  ReleaseQueue(it->second, queue->completed.load(std::memory_order_seq_cst));
  if (it->second.waiting.empty()) queues_.erase(it);
}

void FenceTracker::OnQueueGone(const QueueProgress* queue) {
  MutexLock lock(&mu_);
  for (std::shared_ptr<QueueProgress>& bound : timelines_) {
    if (bound.get() == queue) bound.reset();
  }
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  ReleaseQueue(it->second, kEverything);
  queues_.erase(it);
}

void FenceTracker::SignalAll() {
  MutexLock lock(&mu_);
  all_signaled_ = true;
  timelines_ = {};
  for (uint32_t ring = 0; ring < wire::kMaxRings; ++ring) ReleaseRing(ring, kEverything);
  for (auto& [queue, fences] : queues_) ReleaseQueue(fences, kEverything);
  queues_.clear();
}

}  // namespace sluice::worker
