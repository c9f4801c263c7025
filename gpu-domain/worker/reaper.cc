#include "gpu-domain/worker/reaper.h"

#include <utility>

#include "absl/time/clock.h"

namespace sluice::worker {

Reaper::Reaper() : thread_([this] { Run(); }) {}

Reaper::~Reaper() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void Reaper::Post(std::function<void()> job) {
  MutexLock lock(&mu_);
  jobs_.push_back(std::move(job));
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

void Reaper::Run() {
  for (;;) {
    std::function<void()> job;
    {
      MutexLock lock(&mu_);
      running_ = false;
      changed_.SignalAll();
      while (jobs_.empty() && !stop_) changed_.Wait(&mu_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      running_ = true;
      since_ = absl::Now();
    }
    job();
    job = nullptr;  // what it captured goes while it still counts as running
  }
}

}  // namespace sluice::worker
