// The display clock and pixel conversion by themselves.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "icd/wsi/clock.h"
#include "icd/wsi/pixels.h"

namespace sluice::wsi {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(ClockTest, TicksAreOnePeriodApart) {
  const VblankClock clock(1000 * kMs);
  const int64_t first = clock.NextAfter(1000 * kMs);
  EXPECT_EQ(clock.NextAfter(first) - first, first - 1000 * kMs);
  EXPECT_EQ(clock.NextAfter(first - 1), first);
  EXPECT_GT(clock.NextAfter(10 * kMs), 10 * kMs);  // before the start
  EXPECT_LT(clock.NextAfter(10 * kMs), 30 * kMs);
}

TEST(ClockTest, FollowsTheDisplay) {
  VblankClock clock(0);
  clock.Observe(5000 * kMs, 100, 5000 * kMs);
  clock.Observe(5040 * kMs, 104, 5041 * kMs);
  EXPECT_EQ(clock.NextAfter(5041 * kMs), 5050 * kMs);
}

TEST(ClockTest, IgnoresWhatCannotBeTrue) {
  VblankClock clock(0);
  clock.Observe(5000 * kMs, 100, 5000 * kMs);
  const int64_t before = clock.NextAfter(5000 * kMs);
  clock.Observe(INT64_MAX, 101, 5000 * kMs);  // far away
  clock.Observe(-5 * kMs, 102, 5000 * kMs);   // another clock
  EXPECT_EQ(clock.NextAfter(5000 * kMs), before);
  clock.Observe(5001 * kMs, UINT64_MAX, 5001 * kMs);  // too fast to be a display
  EXPECT_EQ(clock.NextAfter(5001 * kMs) - 5001 * kMs, before - 5000 * kMs);
}

TEST(ClockTest, ARefreshCountsOnce) {
  VblankClock clock(0);
  const int64_t shown = clock.Turn(0, 100 * kMs, false);
  EXPECT_GT(shown, 100 * kMs);
  // The clock turns out to be a little late: the same refresh again, a moment later.
  clock.Observe(shown + kMs / 10, 7, shown + kMs);
  EXPECT_GT(clock.Turn(shown, shown + kMs / 20, false), shown + kMs);
}

TEST(ClockTest, RelaxedTurnsComeAtOnceWhenLate) {
  const VblankClock clock(0);
  const int64_t shown = clock.Turn(0, 100 * kMs, false);
  EXPECT_EQ(clock.Turn(shown, shown + 500 * kMs, true), shown + 500 * kMs);
  EXPECT_GT(clock.Turn(shown, shown + 500 * kMs, false), shown + 500 * kMs);
  EXPECT_GT(clock.Turn(shown, shown + kMs, true), shown + kMs);
}

TEST(PixelsTest, ConversionsTouchWhatTheySay) {
  const std::vector<uint8_t> from = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint8_t> to(8);
  ConvertPixels(from.data(), to.data(), 2, 1, {false, false});
  EXPECT_EQ(to, from);
  ConvertPixels(from.data(), to.data(), 1, 2, {true, false});
  EXPECT_EQ(to, (std::vector<uint8_t>{3, 2, 1, 4, 7, 6, 5, 8}));
  ConvertPixels(from.data(), to.data(), 2, 1, {false, true});
  EXPECT_EQ(to, (std::vector<uint8_t>{1, 2, 3, 255, 5, 6, 7, 255}));
  ConvertPixels(from.data(), to.data(), 2, 1, {true, true});
  EXPECT_EQ(to, (std::vector<uint8_t>{3, 2, 1, 255, 7, 6, 5, 255}));
}

}  // namespace
}  // namespace sluice::wsi
