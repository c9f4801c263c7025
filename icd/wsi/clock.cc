#include "icd/wsi/clock.h"

#include <ctime>

namespace sluice::wsi {

namespace {
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kShortestPeriod = kSecond / 1000, kLongestPeriod = kSecond / 10;
}  // namespace

int64_t MonotonicNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

void VblankClock::Observe(int64_t time, uint64_t count, int64_t now) {
  if (time < now - 2 * kSecond || time > now + kLongestPeriod) return;
  if (observed_ && count > last_count_ && time > last_time_) {
    const uint64_t refreshes = count - last_count_;
    const int64_t elapsed = time - last_time_;
    if (refreshes <= static_cast<uint64_t>(elapsed / kShortestPeriod)) {
      const int64_t period = elapsed / static_cast<int64_t>(refreshes);
      if (period <= kLongestPeriod) period_ = period;
    }
  }
  observed_ = true;
  last_time_ = time;
  last_count_ = count;
  phase_ = time;
}

int64_t VblankClock::NextAfter(int64_t time) const {
  const int64_t since = time - phase_;
  // Rounded towards minus infinity, also before the phase.
  const int64_t periods = since >= 0 ? since / period_ : -((-since + period_ - 1) / period_);
  return phase_ + (periods + 1) * period_;
}

int64_t VblankClock::Turn(int64_t last, int64_t now, bool relaxed) const {
  if (last == 0) return relaxed ? now : NextAfter(now);
  // Half a period: the clock may have been set a little later since, and a refresh must not count twice.
  const int64_t next = NextAfter(last + period_ / 2);
  if (next >= now) return next;
  return relaxed ? now : NextAfter(now);
}

}  // namespace sluice::wsi
