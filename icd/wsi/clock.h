// File: clock.h
//
// When frames are due: a 60 Hz clock, put in step with the display where the window system says when it refreshes.
// Times are nanoseconds of CLOCK_MONOTONIC.
#ifndef SLUICE_ICD_WSI_CLOCK_H_
#define SLUICE_ICD_WSI_CLOCK_H_

#include <cstdint>

namespace sluice::wsi {

// Now, and never: later than every time.
int64_t MonotonicNow();
inline constexpr int64_t kNever = INT64_MAX;

// Thread-compatible.
class VblankClock {
 public:
  explicit VblankClock(int64_t now) : phase_(now) {}

  // The display refreshed for the `count`th time at `time`. What cannot be true (far from `now`, faster than 1 kHz,
  // slower than 10 Hz) is ignored.
  void Observe(int64_t time, uint64_t count, int64_t now);
  // The first refresh after `time`.
  int64_t NextAfter(int64_t time) const;
  // The refresh at which a frame is due that follows one shown at `last` (0: none). `relaxed`: at once if it is late.
  int64_t Turn(int64_t last, int64_t now, bool relaxed) const;

 private:
  int64_t phase_;
  int64_t period_ = 16'666'667;
  bool observed_ = false;
  int64_t last_time_ = 0;
  uint64_t last_count_ = 0;
};

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_CLOCK_H_
