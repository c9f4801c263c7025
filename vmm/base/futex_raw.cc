#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "vmm/base/futex.h"

namespace sluice {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

bool FutexWait(const std::atomic<uint32_t>* word, uint32_t seen, absl::Duration timeout) {
  timespec limit{};
  const bool finite = timeout < absl::Hours(24 * 365);
  if (finite) limit = absl::ToTimespec(timeout < absl::ZeroDuration() ? absl::ZeroDuration() : timeout);
  // SAFETY: the kernel reads four bytes at `word`, which lives for the call, and `limit`; it writes nothing.
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, finite ? &limit : nullptr, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

void FutexWakeAll(const std::atomic<uint32_t>* word) {
  // SAFETY: the kernel uses the address as a key only.
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace sluice
