// File: futex.h
//
// Sleeping on a word of memory, and a lock made of that: 4 bytes, no allocation, nothing to destroy, about ten
// nanoseconds when nobody else wants it.
//
//   FutexLock lock;
//   std::lock_guard guard(lock);
#ifndef SLUICE_ICD_TRANSPORT_FUTEX_H_
#define SLUICE_ICD_TRANSPORT_FUTEX_H_

#include <atomic>
#include <cstdint>

namespace sluice::icd {

// Sleeps while `word` holds `expected`, at most `timeout_ns`. May return early. `shared`: the word lies in memory
// shared with other processes.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns, bool shared);
// Wakes up to `count` sleepers.
void FutexWake(const std::atomic<uint32_t>& word, int count, bool shared);

// A mutex (BasicLockable). Not recursive.
class FutexLock {
 public:
  void lock() {
    uint32_t free = 0;
    if (!state_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed)) LockSlow();
  }
  void unlock() {
    if (state_.exchange(0, std::memory_order_release) == 2) FutexWake(state_, 1, false);
  }

 private:
  void LockSlow();

  std::atomic<uint32_t> state_{0};  // 0 free, 1 taken, 2 taken and somebody may sleep
};

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_FUTEX_H_
