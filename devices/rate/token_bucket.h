// File: token_bucket.h
//
// A token bucket: how fast a guest may use something of the host's.
//
//   TokenBucket bytes({.per_second = 100 << 20, .burst = 10 << 20});
//   const auto wait = bytes.Wait(now);
//   if (wait > TokenBucket::Clock::duration::zero()) return ComeBackIn(wait);
//   bytes.Take(request_size, now);
//
// Whoever finds the bucket not empty may take any number of tokens, into debt if need be, and later ones wait until the
// debt is paid. So a cost need not be known beforehand and may exceed the burst, and the rate over time is still kept.
#ifndef SLUICE_DEVICES_RATE_TOKEN_BUCKET_H_
#define SLUICE_DEVICES_RATE_TOKEN_BUCKET_H_

#include <chrono>
#include <cstdint>

namespace sluice::rate {

struct Rate {
  uint64_t per_second = 0;  // tokens; 0: no limit
  // Tokens that gather while nobody takes any; also what a new bucket holds. 0: a tenth of a second's.
  uint64_t burst = 0;
};

// Thread-compatible: one thread at a time. Time is passed in, and never goes back.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  // No limit.
  TokenBucket() = default;
  // A full bucket.
  explicit TokenBucket(const Rate& rate);

  bool limited() const { return rate_.per_second != 0; }
  // How long until there is a token; zero: there is one.
  Clock::duration Wait(Clock::time_point now);
  // Takes `tokens`, whether or not they are there.
  void Take(uint64_t tokens, Clock::time_point now);

 private:
  void Refill(Clock::time_point now);

  Rate rate_;
  double level_ = 0;  // negative: debt
  Clock::time_point filled_at_{};
  bool started_ = false;
};

}  // namespace sluice::rate

#endif  // SLUICE_DEVICES_RATE_TOKEN_BUCKET_H_
