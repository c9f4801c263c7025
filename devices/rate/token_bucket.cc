#include "devices/rate/token_bucket.h"

#include <algorithm>
#include <cmath>

namespace sluice::rate {

TokenBucket::TokenBucket(const Rate& rate) : rate_(rate) {
  if (rate_.burst == 0) rate_.burst = std::max<uint64_t>(1, rate_.per_second / 10);
  level_ = static_cast<double>(rate_.burst);
}

void TokenBucket::Refill(Clock::time_point now) {
  if (started_ && now > filled_at_) {
    const double seconds = std::chrono::duration<double>(now - filled_at_).count();
    level_ = std::min(static_cast<double>(rate_.burst), level_ + seconds * static_cast<double>(rate_.per_second));
  }
  if (!started_ || now > filled_at_) filled_at_ = now;
  started_ = true;
}

TokenBucket::Clock::duration TokenBucket::Wait(Clock::time_point now) {
  if (!limited()) return Clock::duration::zero();
  Refill(now);
  // A whole token, not a part of one: otherwise waiters would wake for every nanosecond's worth.
  if (level_ >= 1) return Clock::duration::zero();
  const double seconds = (1 - level_) / static_cast<double>(rate_.per_second);
  // At most a day: what is later than that is asked again.
  const double nanoseconds = std::min(std::ceil(seconds * 1e9), 86400e9);
  return std::chrono::nanoseconds(std::max<int64_t>(1, static_cast<int64_t>(nanoseconds)));
}

void TokenBucket::Take(uint64_t tokens, Clock::time_point now) {
  if (!limited()) return;
  Refill(now);
  level_ -= static_cast<double>(tokens);
}

}  // namespace sluice::rate
