// File: ring_thread.h
//
// The consumer of one ring: a thread that takes messages out, hands them to a handler, publishes what it has executed,
// and sleeps on the doorbell when nothing comes. No work, no cost: an idle ring burns `spin` at most, once, then
// nothing.
//
// The sleep protocol (flatbuf/ring.h has the other half): consumer_sleeping = 1, full fence, look once more, block. The
// producer publishes, full fence, looks at consumer_sleeping. One of the two sees the other.
//
//   auto ring = RingThread::Start(options, blob, doorbell, handler);
//   ...
//   ring->Stop();   // joins
#ifndef SLUICE_GPU_DOMAIN_WORKER_RING_THREAD_H_
#define SLUICE_GPU_DOMAIN_WORKER_RING_THREAD_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "flatbuf/spin.h"
#include "flatbuf/stats.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/quota.h"
#include "gpu-domain/worker/reply_writer.h"
#include "gpu-domain/worker/ring_reader.h"
#include "gpu-domain/worker/shared_raw.h"
#include "vmm/base/thread.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker {

class RingThread;

// What a ring's messages are given to. Called on the ring's thread.
class RingHandler {
 public:
  virtual ~RingHandler() = default;
  // Executes one message. An error ends the ring (and, the handler sees to it, the context).
  virtual absl::Status OnMessage(RingThread& ring, const Message& message) = 0;
  // The ring was executed up to `position`.
  virtual void OnProgress(RingThread& ring, uint64_t position) = 0;
  // The ring has nothing to execute: a moment for other things. Called again and again until the thread sleeps.
  virtual void OnIdle(RingThread&) {}
  // The thread is about to sleep, or to end: somebody else has to look after other things.
  virtual void OnSleep(RingThread&) {}
  // The ring ends: the guest broke the protocol, or OnMessage failed. Called once, last.
  virtual void OnError(RingThread& ring, const absl::Status& error) = 0;
};

struct RingThreadOptions {
  uint32_t number = 0;  // of the ring in its context
  absl::Duration spin =
      absl::Microseconds(200);  // the most; how long an idle thread really looks it learns (flatbuf/spin.h)
  absl::Duration reply_timeout = absl::Seconds(10);
  MemoryQuota* staging = nullptr;      // bounds private copies; outlives the thread
  wire::WorkerStats* stats = nullptr;  // frames, bytes_in, doorbells; outlives the thread
};

class RingThread {
 public:
  // `blob` is an initialised ring; `doorbell` a nonblocking eventfd that the guest's doorbell page signals, and
  // outlives the thread, as `handler` does. Errors: from epoll_create1(2), eventfd(2), pthread_create(3).
  static absl::StatusOr<std::unique_ptr<RingThread>> Start(const RingThreadOptions& options, std::shared_ptr<Blob> blob,
                                                           int doorbell, RingHandler* handler);
  ~RingThread();
  RingThread(const RingThread&) = delete;
  RingThread& operator=(const RingThread&) = delete;

  // Ends the thread after the message that it is executing; joins. Idempotent; not for the ring's own thread.
  void Stop();
  // Tells the thread to end, without waiting.
  void RequestStop();

  uint32_t number() const { return options_.number; }
  const RingView& view() const { return view_; }
  const std::shared_ptr<Blob>& blob() const { return blob_; }
  // For the handler, on the ring's thread.
  ReplyWriter& replies() { return replies_; }

 private:
  RingThread(const RingThreadOptions& options, std::shared_ptr<Blob> blob, RingHandler* handler, UniqueFd epoll,
             UniqueFd stop_event);
  void Run();
  // Spins, then sleeps, until the ring may have something or the thread is to stop.
  void WaitForWork();
  void Sleep();

  const RingThreadOptions options_;
  const std::shared_ptr<Blob> blob_;
  RingHandler* const handler_;
  const RingView view_;
  const UniqueFd epoll_;
  const UniqueFd stop_event_;
  std::atomic<bool> stop_{false};
  RingReader reader_;
  ReplyWriter replies_;
  wire::AdaptiveSpin spin_;
  Thread thread_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_RING_THREAD_H_
