// File: context.h
//
// One context of a front-end (one Vulkan instance of one guest process): its rings, memory blobs, fences and Vulkan
// objects. Contexts know nothing of each other except that they share a quota; what one does wrong ends it alone.
//
// Threads: the loop thread calls everything that is not marked otherwise; each ring has a thread that executes its
// messages (one at a time over all rings of the context: exec::Context is not shared), each queue one that waits for
// completions.
#ifndef SLUICE_GPU_DOMAIN_WORKER_CONTEXT_H_
#define SLUICE_GPU_DOMAIN_WORKER_CONTEXT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "flatbuf/wire.h"
#include "gpu-domain/exec/context.h"
#include "gpu-domain/trace/capture.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/driver.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "gpu-domain/worker/leaving_blobs.h"
#include "gpu-domain/worker/options.h"
#include "gpu-domain/worker/outbox.h"
#include "gpu-domain/worker/policy.h"
#include "gpu-domain/worker/quota.h"
#include "gpu-domain/worker/reaper.h"
#include "gpu-domain/worker/ring_thread.h"
#include "vmm/base/mutex.h"

namespace sluice::worker {

// What all contexts of a worker share. Outlives them.
struct WorkerShared {
  const WorkerOptions* options = nullptr;
  const VulkanDriver* driver = nullptr;
  wire::WorkerStats* stats = nullptr;
  MemoryQuota* quota = nullptr;    // the front-end's memory
  MemoryQuota* staging = nullptr;  // private copies of frames
  Outbox* outbox = nullptr;
  trace::CaptureWriter* capture = nullptr;
  Reaper* reaper = nullptr;
  // Ends the process: something in the driver will never end.
  std::function<void(absl::string_view)> on_hung;
};

class WorkerContext final : public RingHandler, public QueueListener, public PolicyHost {
 public:
  WorkerContext(uint32_t id, std::string name, const WorkerShared* shared);
  ~WorkerContext() override;

  uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }

  // A new ring: initialises it and starts its thread. Errors: INVALID_ARGUMENT: the number is too large or taken, or
  // the size is not a ring's; others from the host.
  absl::Status AddRing(std::shared_ptr<Blob> blob);
  // The eventfd of a ring number (made on first use; a ring made later takes it), duplicated for the peer.
  absl::StatusOr<UniqueFd> Doorbell(uint64_t number);
  void AddMemory(std::shared_ptr<Blob> blob);
  // The guest gave up the resource: its ring ends, or its memory can no longer be named.
  void RemoveBlob(const BlobId& id);

  // A SUBMIT_3D command. A wrong payload loses the context.
  void Submit(uint8_t ring_idx, bool fenced, uint64_t fence_id, absl::Span<const uint8_t> payload);

  // Any thread. Ends the context for the guest: rings refuse, fences come true, the front-end is told. The first reason
  // counts.
  void Lose(wire::LostReason reason, absl::string_view message);
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  // Any thread. Gives back memory that was freed and is no longer in use. True: some is still in use.
  bool SweepMemory();

  // Tells all threads to end and publishes kDestroyed. Then Finish().
  void BeginDestroy();
  // Joins all threads and frees all objects. May take as long as the GPU does: runs on the reaper.
  void Finish();

 private:
  // RingHandler: ring threads.
  absl::Status OnMessage(RingThread& ring, const Message& message) override;
  void OnProgress(RingThread& ring, uint64_t position) override;
  void OnIdle(RingThread& ring) override;
  void OnSleep(RingThread& ring) override;
  void OnError(RingThread& ring, const absl::Status& error) override;
  // QueueListener: queue threads.
  void OnQueueProgress(const QueueProgress* queue) override;
  void OnQueueLost(absl::string_view why) override;
  // PolicyHost: the executing thread.
  std::shared_ptr<Blob> FindMemory(uint32_t resource) override;
  std::optional<MemoryCharge> TakeMemory(uint64_t bytes) override;
  void DropLater(std::shared_ptr<Blob> blob, Unfinished unfinished) override;
  void DropAll() override;
  void OnHung(absl::string_view what) override;

  absl::StatusOr<int> DoorbellFd(uint64_t number);
  void PublishStatus(wire::LostReason reason);
  void CountObjects() ABSL_EXCLUSIVE_LOCKS_REQUIRED(exec_mu_);

  const uint32_t id_;
  const std::string name_;
  const WorkerShared* const shared_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> ending_{false};
  FenceTracker fences_;
  LeavingBlobs leaving_;

  Mutex exec_mu_;
  WorkerPolicy policy_ ABSL_GUARDED_BY(exec_mu_);
  std::unique_ptr<exec::Context> exec_ ABSL_GUARDED_BY(exec_mu_);
  uint32_t unpolled_ ABSL_GUARDED_BY(exec_mu_) = 0;  // messages since completions were looked for
  uint64_t counted_objects_ ABSL_GUARDED_BY(exec_mu_) = 0;
  uint64_t counted_commands_ ABSL_GUARDED_BY(exec_mu_) = 0;

  Mutex mu_;  // leaf
  absl::flat_hash_map<uint32_t, std::shared_ptr<Blob>> memory_ ABSL_GUARDED_BY(mu_);
  std::array<std::shared_ptr<Blob>, wire::kMaxRings> ring_blobs_ ABSL_GUARDED_BY(mu_);
  std::array<std::unique_ptr<PublishedUse>, wire::kMaxRings> published_ ABSL_GUARDED_BY(mu_);

  // Rings whose threads the reaper is ending.
  std::array<std::atomic<bool>, wire::kMaxRings> ending_rings_{};
  // Loop thread only, then the reaper's.
  std::array<UniqueFd, wire::kMaxRings> doorbells_;
  std::array<std::unique_ptr<RingThread>, wire::kMaxRings> rings_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_CONTEXT_H_
