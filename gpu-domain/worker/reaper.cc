#include "gpu-domain/worker/reaper.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "vmm/base/log.h"

namespace sluice::worker {

Reaper::~Reaper() {
  Thread thread;
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.SignalAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.Join();
}

void Reaper::Post(std::function<void()> job) {
  {
    MutexLock lock(&mu_);
    jobs_.push_back(std::move(job));
    changed_.SignalAll();
    if (thread_.joinable()) return;
    absl::StatusOr<Thread> thread = StartThread([this] { Run(); });
    if (thread.ok()) {
      thread_ = *std::move(thread);
      return;
    }
    SLUICE_LOG(warn, "reaper: {}", std::string(thread.status().message()));
  }
  RunOne(/*wait=*/false);
  MutexLock lock(&mu_);
  running_ = false;
  changed_.SignalAll();
}

bool Reaper::WaitIdle(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (running_ || !jobs_.empty()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitWithTimeout(&mu_, left);
  }
  return true;
}

bool Reaper::busy() const {
  MutexLock lock(&mu_);
  return running_ || !jobs_.empty();
}

absl::Duration Reaper::RunningFor() const {
  MutexLock lock(&mu_);
  return running_ ? absl::Now() - since_ : absl::ZeroDuration();
}

bool Reaper::RunOne(bool wait) {
  std::function<void()> job;
  {
    MutexLock lock(&mu_);
    running_ = false;
    changed_.SignalAll();
    while (wait && jobs_.empty() && !stop_) changed_.Wait(&mu_);
    if (jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = true;
    since_ = absl::Now();
  }
  job();
  return true;  // what it captured goes while it still counts as running
}

void Reaper::Run() {
  while (RunOne(/*wait=*/true)) {
  }
}

}  // namespace sluice::worker
