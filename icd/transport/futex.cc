#include "icd/transport/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace sluice::icd {
namespace {

constexpr int kSpins = 100;  // some microseconds: longer than most holders hold
constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kLongestNs = 1'000'000 * kNsPerSecond;

inline void CpuPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns, bool shared) {
  timeout_ns = std::min(timeout_ns, kLongestNs);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / kNsPerSecond);
  timeout.tv_nsec = static_cast<int64_t>(timeout_ns % kNsPerSecond);
  syscall(SYS_futex, &word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>& word, int count, bool shared) {
  syscall(SYS_futex, &word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void FutexLock::LockSlow() {
  for (int i = 0; i < kSpins; i++) {
    CpuPause();
    uint32_t free = 0;
    if (state_.load(std::memory_order_relaxed) == 0 &&
        state_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return;
    }
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) FutexWait(state_, 2, UINT64_MAX, false);
}

}  // namespace sluice::icd
