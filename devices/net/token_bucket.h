// File: token_bucket.h
//
// A limit of bytes and of operations a second, with a burst: each has a bucket that fills at its rate up to the burst.
// Something may pass while no bucket is in debt; its cost is taken afterwards (a frame's size is known only then), so
// that the long-term rate holds exactly and a large frame needs no bucket of its size.
//
//   TokenBucket bucket({.bytes_per_second = 125'000'000});
//   if (absl::Duration wait = bucket.Wait(now); wait > absl::ZeroDuration()) ... later
//   bucket.Take(now, bytes);
#ifndef SLUICE_DEVICES_NET_TOKEN_BUCKET_H_
#define SLUICE_DEVICES_NET_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace sluice::net {

// 0: no limit. A burst of 0 is a tenth of a second's worth.
struct RateLimit {
  uint64_t bytes_per_second = 0;
  uint64_t burst_bytes = 0;
  uint64_t frames_per_second = 0;
  uint64_t burst_frames = 0;
  bool any() const { return bytes_per_second != 0 || frames_per_second != 0; }
};

// Thread-compatible. Times come from one monotonic clock.
class TokenBucket {
 public:
  explicit TokenBucket(const RateLimit& limit)
      : any_(limit.any()),
        bytes_(limit.bytes_per_second, limit.burst_bytes),
        frames_(limit.frames_per_second, limit.burst_frames) {}

  bool limited() const { return any_; }
  // How long until something may pass; zero: now.
  absl::Duration Wait(absl::Time now) { return std::max(bytes_.Wait(now), frames_.Wait(now)); }
  // One frame of `bytes` passed.
  void Take(absl::Time now, uint64_t bytes) {
    bytes_.Take(now, bytes);
    frames_.Take(now, 1);
  }

 private:
  class Bucket {
   public:
    Bucket(uint64_t rate, uint64_t burst)
        : rate_(static_cast<double>(rate)),
          burst_(static_cast<double>(burst != 0 ? burst : std::max<uint64_t>(rate / 10, 1))),
          tokens_(burst_) {}
    absl::Duration Wait(absl::Time now) {
      if (rate_ == 0) return absl::ZeroDuration();
      Fill(now);
      return tokens_ >= 0 ? absl::ZeroDuration() : absl::Seconds(-tokens_ / rate_);
    }
    void Take(absl::Time now, uint64_t count) {
      if (rate_ == 0) return;
      Fill(now);
      tokens_ -= static_cast<double>(count);
    }

   private:
    void Fill(absl::Time now) {
      if (last_ != absl::InfinitePast() && now > last_) {
        tokens_ = std::min(burst_, tokens_ + rate_ * absl::ToDoubleSeconds(now - last_));
      }
      last_ = std::max(now, last_);
    }
    double rate_;
    double burst_;
    double tokens_;
    absl::Time last_ = absl::InfinitePast();
  };

  bool any_;
  Bucket bytes_;
  Bucket frames_;
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_TOKEN_BUCKET_H_
