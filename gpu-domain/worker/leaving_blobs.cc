#include "gpu-domain/worker/leaving_blobs.h"

#include <algorithm>
#include <iterator>

namespace sluice::worker {
namespace {

bool Complete(const Unfinished& unfinished) {
  return std::all_of(unfinished.begin(), unfinished.end(), [](const auto& queue) {
    return queue.first->completed.load(std::memory_order_acquire) >= queue.second;
  });
}

}  // namespace

void LeavingBlobs::Add(std::shared_ptr<Blob> blob, Unfinished unfinished) {
  if (blob == nullptr || Complete(unfinished)) return;
  MutexLock lock(&mu_);
  leaving_.push_back(Leaving{std::move(blob), std::move(unfinished)});
  count_.store(leaving_.size(), std::memory_order_release);
}

void LeavingBlobs::Sweep() {
  if (empty()) return;
  std::vector<Leaving> dropped;  // unmapped outside the lock
  MutexLock lock(&mu_);
  const auto kept = std::partition(leaving_.begin(), leaving_.end(),
                                   [](const Leaving& leaving) { return !Complete(leaving.unfinished); });
  dropped.assign(std::make_move_iterator(kept), std::make_move_iterator(leaving_.end()));
  leaving_.erase(kept, leaving_.end());
  count_.store(leaving_.size(), std::memory_order_release);
}

void LeavingBlobs::SweepAll() {
  std::vector<Leaving> dropped;
  MutexLock lock(&mu_);
  dropped.swap(leaving_);
  count_.store(0, std::memory_order_release);
}

}  // namespace sluice::worker
