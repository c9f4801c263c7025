// File: reaper.h
//
// One thread that ends things which may take time: ring threads that are in the driver, contexts with work in flight.
// The channel's loop hands them over and goes on; a watchdog sees when one never ends.
#ifndef SLUICE_GPU_DOMAIN_WORKER_REAPER_H_
#define SLUICE_GPU_DOMAIN_WORKER_REAPER_H_

#include <deque>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "vmm/base/mutex.h"
#include "vmm/base/thread.h"

namespace sluice::worker {

// Thread-safe. Jobs run in order.
class Reaper {
 public:
  Reaper() = default;
  // Runs what is left, then ends.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Where the host gives no thread, the job runs before this returns.
  void Post(std::function<void()> job);
  // True when no job waits or runs; false if that did not come true within `timeout`.
  bool WaitIdle(absl::Duration timeout);
  bool busy() const;
  // How long the running job has been running; zero when none is.
  absl::Duration RunningFor() const;

 private:
  void Run();
  // Runs the first job. False: it was told to stop and nothing is left.
  bool RunOne(bool wait);

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  bool running_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time since_ ABSL_GUARDED_BY(mu_);
  Thread thread_ ABSL_GUARDED_BY(mu_);  // started with the first job
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_REAPER_H_
