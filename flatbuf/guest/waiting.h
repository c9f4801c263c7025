// File: waiting.h
//
// How a thread waits for the worker: it looks for a short while, as long as waits of late have been short, then sleeps
// in the platform until the worker says that there is news. Never a fixed sleep. Freestanding.
//
//   switch (WaitUntil(channel, timeout, [&] { return Signaled(channel, fence); }, [&] { return Awaited{...}; })) ...
#ifndef SLUICE_FLATBUF_GUEST_WAITING_H_
#define SLUICE_FLATBUF_GUEST_WAITING_H_

#include <stdint.h>

#include "flatbuf/guest/channel.h"

namespace sluice::guest {

enum class WaitResult { kDone, kTimeout, kLost };

// Until `done()` (cheap, called often) is true, `timeout_ns` is over (~0: never), or the context is lost; `done` wins
// over both. `awaited()` says what a platform without shared wake words sleeps for. Any thread, without the channel's
// lock.
template <typename Done, typename What>
WaitResult WaitUntil(GuestChannel& channel, uint64_t timeout_ns, Done done, What awaited) {
  if (done()) return WaitResult::kDone;
  if (channel.lost()) return done() ? WaitResult::kDone : WaitResult::kLost;
  if (timeout_ns == 0) return WaitResult::kTimeout;
  Platform& platform = channel.platform();
  const uint64_t start = platform.NowNs();
  const uint64_t spin_ns = channel.spin().Length();
  uint64_t waited = 0;
  for (uint32_t round = 0;; round++) {
    for (int i = 0; i < 16; i++) {
      if (done()) {
        channel.spin().Learn(platform.NowNs() - start);
        return WaitResult::kDone;
      }
      wire::CpuPause();
    }
    if (channel.lost()) return done() ? WaitResult::kDone : WaitResult::kLost;
    waited = platform.NowNs() - start;
    if (waited >= timeout_ns) return WaitResult::kTimeout;
    // A platform without a clock looks a number of times.
    if (start == 0 ? round > 100 : waited >= spin_ns) break;
    if (round > 0) platform.Yield();
  }
  for (;;) {
    Awaited what = awaited();
    const uint64_t rest = timeout_ns - waited;
    if (what.timeout_ns > rest) what.timeout_ns = rest;
    channel.SleepUnless(channel.completion(), what, [&] { return done() || channel.lost(); });
    waited = platform.NowNs() - start;
    if (done()) {
      channel.spin().Learn(waited);
      return WaitResult::kDone;
    }
    if (channel.lost()) return done() ? WaitResult::kDone : WaitResult::kLost;
    if (waited >= timeout_ns) return WaitResult::kTimeout;
  }
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_WAITING_H_
