// File: mutex.h
//
// absl::Mutex that ThreadSanitizer understands: Debian's Abseil is built without TSan, so in a TSan build each
// operation is announced through the sanitizer's own interface. In every other build this is absl::Mutex and nothing
// else.
//
//   Mutex mu_;
//   int value_ ABSL_GUARDED_BY(mu_);
//   { MutexLock lock(&mu_); value_++; cv_.SignalAll(); }
#ifndef SLUICE_VMM_BASE_MUTEX_H_
#define SLUICE_VMM_BASE_MUTEX_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#ifdef SLUICE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace sluice {

class CondVar;

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
#ifdef SLUICE_TSAN
    __tsan_mutex_pre_lock(this, 0);
    mu_.Lock();
    __tsan_mutex_post_lock(this, 0, 0);
#else
    mu_.Lock();
#endif
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
#ifdef SLUICE_TSAN
    __tsan_mutex_pre_unlock(this, 0);
    mu_.Unlock();
    __tsan_mutex_post_unlock(this, 0);
#else
    mu_.Unlock();
#endif
  }

 private:
  friend class CondVar;
  absl::Mutex mu_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

class CondVar {
 public:
  // Waits with `mu` held; it is released meanwhile. Wakes spuriously: loop on the condition.
  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { WaitWithTimeout(mu, absl::InfiniteDuration()); }
  // As Wait; true if `timeout` passed first.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
#ifdef SLUICE_TSAN
    __tsan_mutex_pre_unlock(mu, 0);
    __tsan_mutex_post_unlock(mu, 0);
    const bool timed_out = cv_.WaitWithTimeout(&mu->mu_, timeout);
    __tsan_mutex_pre_lock(mu, 0);
    __tsan_mutex_post_lock(mu, 0, 0);
    return timed_out;
#else
    return cv_.WaitWithTimeout(&mu->mu_, timeout);
#endif
  }
  void Signal() {
    cv_.Signal();
  }
  void SignalAll() {
    cv_.SignalAll();
  }

 private:
  absl::CondVar cv_;
};

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_MUTEX_H_
