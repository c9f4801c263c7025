#include "vmm/machine/ioapic.h"

#include <array>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::machine {
namespace {

class IoapicTest : public ::testing::Test {
 protected:
  void Write(uint32_t index, uint32_t value) {
    Put(0x00, index);
    Put(0x10, value);
  }
  uint32_t Read(uint32_t index) {
    Put(0x00, index);
    std::array<uint8_t, 4> bytes = {};
    ioapic_.Read(0x10, absl::MakeSpan(bytes));
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
  }
  void Put(uint64_t offset, uint32_t value) {
    const std::array<uint8_t, 4> bytes = {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8),
                                          static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 24)};
    ioapic_.Write(offset, bytes);
  }

  std::vector<kvm::MsiMessage> sent_;
  Ioapic ioapic_{[this](const kvm::MsiMessage& message) { sent_.push_back(message); }};
};

TEST_F(IoapicTest, HasTwentyFourPinsAndStartsMasked) {
  EXPECT_EQ(Read(1), 0x0017'0011u);
  for (uint32_t pin = 0; pin < kIoapicPins; ++pin) {
    EXPECT_EQ(Read(0x10 + 2 * pin), 0x10000u);
    ioapic_.SetLine(pin, true);
  }
  EXPECT_TRUE(sent_.empty());
}

TEST_F(IoapicTest, ARisingEdgeIsDeliveredOnceAsTheEntrySays) {
  Write(0x10 + 2 * 4 + 1, 0x0300'0000);  // destination 3
  Write(0x10 + 2 * 4, 0x31);             // vector 0x31, fixed, physical, edge, not masked
  ioapic_.SetLine(4, true);
  ioapic_.SetLine(4, true);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0], (kvm::MsiMessage{0xfee0'3000, 0x31}));
  ioapic_.SetLine(4, false);
  EXPECT_EQ(sent_.size(), 1u);
  ioapic_.SetLine(4, true);
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(IoapicTest, DeliveryModeDestinationModeAndTriggerReachTheMessage) {
  Write(0x10, 0x8931);  // level, logical, lowest priority, vector 0x31
  ioapic_.SetLine(0, true);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0], (kvm::MsiMessage{0xfee0'0004, 0xc131}));
}

TEST_F(IoapicTest, ReadOnlyBitsStayZeroAndStrangeAccessesAreIgnored) {
  Write(0x10, 0xffff'ffff);
  EXPECT_EQ(Read(0x10), 0xffff'afffu);
  Write(0xff, 1);
  EXPECT_EQ(Read(0xff), 0u);
  Write(1, 0);
  EXPECT_EQ(Read(1), 0x0017'0011u);
  std::array<uint8_t, 8> wide = {1, 2, 3, 4, 5, 6, 7, 8};
  ioapic_.Write(0x10, wide);
  ioapic_.Read(0x10, absl::MakeSpan(wide));
  EXPECT_EQ(wide, (std::array<uint8_t, 8>{}));
  ioapic_.SetLine(24, true);
  EXPECT_TRUE(sent_.empty());
}

}  // namespace
}  // namespace sluice::machine
