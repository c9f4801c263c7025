#include "vmm/machine/bus.h"

#include <array>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::machine {
namespace {

class Recorder : public BusHandler {
 public:
  explicit Recorder(uint8_t answer) : answer_(answer) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override {
    std::fill(to.begin(), to.end(), answer_);
    seen.push_back({offset, to.size()});
  }
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override { seen.push_back({offset, from.size()}); }
  std::vector<std::pair<uint64_t, size_t>> seen;

 private:
  uint8_t answer_;
};

TEST(Bus, AnAccessReachesTheRangeThatContainsIt) {
  Bus bus;
  Recorder low(1), high(2);
  ASSERT_TRUE(bus.Add(0x400, 0x10, "high", &high).ok());
  ASSERT_TRUE(bus.Add(0x100, 0x10, "low", &low).ok());
  std::array<uint8_t, 2> bytes = {};
  EXPECT_TRUE(bus.Read(0x10e, absl::MakeSpan(bytes)));
  EXPECT_EQ(bytes[1], 1);
  EXPECT_TRUE(bus.Write(0x400, bytes));
  EXPECT_EQ(low.seen, (std::vector<std::pair<uint64_t, size_t>>{{0xe, 2}}));
  EXPECT_EQ(high.seen, (std::vector<std::pair<uint64_t, size_t>>{{0, 2}}));
}

TEST(Bus, WhatIsNotThereReadsAsOnes) {
  Bus bus;
  Recorder device(1);
  ASSERT_TRUE(bus.Add(0x100, 0x10, "device", &device).ok());
  for (uint64_t address : {uint64_t{0}, uint64_t{0xff}, uint64_t{0x10f}, uint64_t{0x110}, ~uint64_t{0}}) {
    std::array<uint8_t, 2> bytes = {};
    EXPECT_FALSE(bus.Read(address, absl::MakeSpan(bytes))) << address;
    EXPECT_EQ(bytes, (std::array<uint8_t, 2>{0xff, 0xff}));
    EXPECT_FALSE(bus.Write(address, bytes));
  }
  EXPECT_TRUE(device.seen.empty()) << "an access across the end is nobody's";
}

TEST(Bus, OverlapsAreRefusedAndNamed) {
  Bus bus;
  Recorder device(1);
  ASSERT_TRUE(bus.Add(0x100, 0x10, "first", &device).ok());
  EXPECT_EQ(bus.Add(0x10f, 1, "second", &device).message(), "bus range of second overlaps that of first");
  EXPECT_FALSE(bus.Add(0xff, 2, "second", &device).ok());
  EXPECT_FALSE(bus.Add(0x80, 0x1000, "second", &device).ok());
  EXPECT_FALSE(bus.Add(0x200, 0, "empty", &device).ok());
  EXPECT_FALSE(bus.Add(~uint64_t{0}, 2, "wraps", &device).ok());
  EXPECT_TRUE(bus.Add(0x110, 1, "after", &device).ok());
  EXPECT_TRUE(bus.Add(0xff, 1, "before", &device).ok());
}

}  // namespace
}  // namespace sluice::machine
