// File: leaving_blobs.h
//
// Blobs that the driver has imported, after their memory was freed: they stay mapped until the GPU work that was
// submitted before is complete, even if the guest should not have freed the memory yet. The driver may write there, and
// nothing else may be there by then. Nobody waits for that.
//
//   LeavingBlobs leaving;
//   leaving.Add(std::move(blob), {{queue->progress(), submitted}});   // after the driver's vkFreeMemory
//   leaving.Sweep();                                                  // whenever a queue has come further
#ifndef SLUICE_GPU_DOMAIN_WORKER_LEAVING_BLOBS_H_
#define SLUICE_GPU_DOMAIN_WORKER_LEAVING_BLOBS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "vmm/base/mutex.h"

namespace sluice::worker {

// How far queues must come: {progress, submissions}.
using Unfinished = std::vector<std::pair<std::shared_ptr<QueueProgress>, uint64_t>>;

// Thread-safe.
class LeavingBlobs {
 public:
  void Add(std::shared_ptr<Blob> blob, Unfinished unfinished);
  // Drops blobs whose work is complete. Cheap when there are none.
  void Sweep();
  // Drops all: the devices are idle, or lost and destroyed.
  void SweepAll();
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  struct Leaving {
    std::shared_ptr<Blob> blob;
    Unfinished unfinished;
  };
  Mutex mu_;
  std::atomic<size_t> count_{0};
  std::vector<Leaving> leaving_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_LEAVING_BLOBS_H_
