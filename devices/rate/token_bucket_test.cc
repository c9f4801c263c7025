#include "devices/rate/token_bucket.h"

#include <gtest/gtest.h>

namespace sluice::rate {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TokenBucket::Clock::duration kNow = TokenBucket::Clock::duration::zero();

class TokenBucketTest : public ::testing::Test {
 protected:
  // Some time after the clock's start.
  TokenBucket::Clock::time_point now_{seconds(1000)};
};

TEST_F(TokenBucketTest, WithoutARateNobodyWaits) {
  TokenBucket bucket;
  EXPECT_FALSE(bucket.limited());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(bucket.Wait(now_), kNow);
    bucket.Take(UINT64_MAX, now_);
  }
}

TEST_F(TokenBucketTest, ItStartsFullAndRefillsAtItsRate) {
  TokenBucket bucket({.per_second = 100, .burst = 10});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(bucket.Wait(now_), kNow) << i;
    bucket.Take(1, now_);
  }
  EXPECT_EQ(bucket.Wait(now_), milliseconds(10));
  now_ += milliseconds(10);
  EXPECT_EQ(bucket.Wait(now_), kNow);
  bucket.Take(1, now_);
  EXPECT_GT(bucket.Wait(now_), kNow);
}

TEST_F(TokenBucketTest, NoMoreThanTheBurstGathers) {
  TokenBucket bucket({.per_second = 100, .burst = 10});
  bucket.Take(10, now_);
  now_ += seconds(3600);
  bucket.Take(10, now_);
  EXPECT_GT(bucket.Wait(now_), kNow);
}

TEST_F(TokenBucketTest, ALargeCostPassesAndIsPaidAfterwards) {
  TokenBucket bucket({.per_second = 1000, .burst = 100});
  EXPECT_EQ(bucket.Wait(now_), kNow);
  bucket.Take(2100, now_);
  const auto wait = bucket.Wait(now_);
  EXPECT_GE(wait, seconds(2));
  EXPECT_LE(wait, milliseconds(2002));
  now_ += wait;
  EXPECT_EQ(bucket.Wait(now_), kNow);
}

TEST_F(TokenBucketTest, TheRateOverTimeIsKept) {
  TokenBucket bucket({.per_second = 5000, .burst = 50});
  const auto end = now_ + seconds(10);
  uint64_t taken = 0;
  while (now_ < end) {
    const auto wait = bucket.Wait(now_);
    if (wait > kNow) {
      now_ += wait;
      continue;
    }
    bucket.Take(70, now_);
    taken += 70;
  }
  EXPECT_NEAR(static_cast<double>(taken), 50000, 200);
}

TEST_F(TokenBucketTest, WithoutABurstItIsATenthOfASecondsWorth) {
  TokenBucket bucket({.per_second = 1000});
  bucket.Take(99, now_);
  EXPECT_EQ(bucket.Wait(now_), kNow);
  bucket.Take(1, now_);
  EXPECT_GT(bucket.Wait(now_), kNow);
  TokenBucket slow({.per_second = 1});
  EXPECT_EQ(slow.Wait(now_), kNow);
}

TEST_F(TokenBucketTest, AClockThatStandsStillOrGoesBackGivesNothing) {
  TokenBucket bucket({.per_second = 1'000'000'000, .burst = 1});
  bucket.Take(1, now_);
  EXPECT_GT(bucket.Wait(now_), kNow);
  EXPECT_GT(bucket.Wait(now_ - seconds(5)), kNow);
  EXPECT_EQ(bucket.Wait(now_ + nanoseconds(2)), kNow);
}

TEST_F(TokenBucketTest, AnEndlessDebtIsAskedForAgainWithinADay) {
  TokenBucket bucket({.per_second = 1, .burst = 1});
  bucket.Take(UINT64_MAX, now_);
  EXPECT_EQ(bucket.Wait(now_), std::chrono::hours(24));
}

}  // namespace
}  // namespace sluice::rate
