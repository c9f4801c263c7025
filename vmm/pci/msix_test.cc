#include "vmm/pci/msix.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::pci {
namespace {

struct Call {
  uint16_t vector;
  bool signal;
  bool deliverable = false;
  MsiMessage message = {};
  friend bool operator==(const Call&, const Call&) = default;
};

class Recorder : public MsixNotifier {
 public:
  void SetVector(uint16_t vector, bool deliverable, const MsiMessage& message) override {
    calls.push_back({vector, false, deliverable, message});
  }
  void Signal(uint16_t vector) override { calls.push_back({vector, true}); }
  size_t signals() const {
    size_t n = 0;
    for (const Call& call : calls) n += call.signal ? 1 : 0;
    return n;
  }
  std::vector<Call> calls;
};

class MsixTest : public ::testing::Test {
 protected:
  void Write(uint64_t offset, size_t size, uint64_t value) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < size; ++i) bytes.push_back(i < 8 ? static_cast<uint8_t>(value >> (8 * i)) : 0);
    table_.WriteTable(offset, bytes);
  }
  uint64_t Read(uint64_t offset, size_t size) { return Value(offset, size, &MsixTable::ReadTable); }
  uint64_t Pba(uint64_t offset, size_t size) { return Value(offset, size, &MsixTable::ReadPba); }
  uint64_t Value(uint64_t offset, size_t size, void (MsixTable::*read)(uint64_t, absl::Span<uint8_t>) const) {
    std::vector<uint8_t> bytes(size);
    (table_.*read)(offset, absl::MakeSpan(bytes));
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[i]} << (8 * i);
    return value;
  }
  void Program(uint16_t vector) {
    Write(16 * vector + kMsixEntryAddress, 4, 0xfee01000);
    Write(16 * vector + kMsixEntryData, 4, 0x40 + vector);
    Write(16 * vector + kMsixEntryControl, 4, 0);
  }
  Recorder recorder_;
  MsixTable table_{3, &recorder_};
};

TEST_F(MsixTest, AllVectorsStartMasked) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(16 * i + kMsixEntryControl, 4), kMsixEntryMasked);
  table_.SetControl(kMsixEnable);
  EXPECT_FALSE(table_.Signal(0));
  EXPECT_EQ(recorder_.signals(), 0u);
}

TEST_F(MsixTest, AProgrammedVectorIsAnnouncedOnceAndFires) {
  Program(1);
  EXPECT_TRUE(recorder_.calls.empty());  // nothing before MSI-X is on
  table_.SetControl(kMsixEnable);
  const std::vector<Call> announced = {{1, false, true, {0xfee01000, 0x41}}};
  EXPECT_EQ(recorder_.calls, announced);
  EXPECT_TRUE(table_.Signal(1));
  EXPECT_EQ(recorder_.signals(), 1u);
  EXPECT_EQ(table_.sent(), 1u);
}

TEST_F(MsixTest, AMaskedVectorPendsAndFiresWhenUnmasked) {
  Program(1);
  table_.SetControl(kMsixEnable);
  Write(16 + kMsixEntryControl, 4, kMsixEntryMasked);
  EXPECT_FALSE(table_.Signal(1));
  EXPECT_FALSE(table_.Signal(1));
  EXPECT_EQ(Pba(0, 8), 0b10u);
  Write(16 + kMsixEntryControl, 4, 0);
  EXPECT_EQ(recorder_.signals(), 1u);
  EXPECT_EQ(Pba(0, 8), 0u);
  EXPECT_TRUE((recorder_.calls.back() == Call{1, true}));  // after the route was announced
}

TEST_F(MsixTest, TheFunctionMaskHoldsAllVectors) {
  Program(0);
  Program(2);
  table_.SetControl(kMsixEnable | kMsixFunctionMask);
  EXPECT_FALSE(table_.Signal(0));
  EXPECT_FALSE(table_.Signal(2));
  EXPECT_EQ(Pba(0, 1), 0b101u);
  table_.SetControl(kMsixEnable);
  EXPECT_EQ(recorder_.signals(), 2u);
}

TEST_F(MsixTest, WithMsixOffInterruptsAreDropped) {
  Program(0);
  EXPECT_FALSE(table_.Signal(0));
  EXPECT_EQ(Pba(0, 1), 0u);
  table_.SetControl(kMsixEnable);
  EXPECT_EQ(recorder_.signals(), 0u);
}

TEST_F(MsixTest, SwitchingMsixOffForgetsWhatWasPending) {
  Program(0);
  table_.SetControl(kMsixEnable | kMsixFunctionMask);
  table_.Signal(0);
  table_.SetControl(0);
  table_.SetControl(kMsixEnable);
  EXPECT_EQ(recorder_.signals(), 0u);
}

TEST_F(MsixTest, MaskingIsAnnounced) {
  Program(0);
  table_.SetControl(kMsixEnable);
  table_.SetControl(0);
  EXPECT_FALSE(recorder_.calls.back().deliverable);
  EXPECT_EQ(recorder_.calls.size(), 2u);
}

TEST_F(MsixTest, ReprogrammingWhileMaskedIsAnnouncedOnceOnUnmasking) {
  Program(0);
  table_.SetControl(kMsixEnable);
  recorder_.calls.clear();
  Write(kMsixEntryControl, 4, kMsixEntryMasked);
  for (int i = 0; i < 10; ++i) Write(kMsixEntryData, 4, i);
  Write(kMsixEntryControl, 4, 0);
  ASSERT_EQ(recorder_.calls.size(), 2u);
  EXPECT_EQ(recorder_.calls[1].message.data, 9u);
}

TEST_F(MsixTest, AQwordWriteSetsBothHalvesOfTheAddress) {
  Write(kMsixEntryAddress, 8, 0x12345678'fee00004);
  EXPECT_EQ(Read(kMsixEntryAddress, 8), 0x12345678'fee00004u);
  Write(kMsixEntryData, 8, 0x1'00000055);  // data, and masked
  EXPECT_EQ(Read(kMsixEntryData, 4), 0x55u);
  EXPECT_EQ(Read(kMsixEntryControl, 4), 1u);
}

TEST_F(MsixTest, ReservedBitsReadZero) {
  Write(kMsixEntryAddress, 4, 0xffffffff);
  EXPECT_EQ(Read(kMsixEntryAddress, 4), 0xfffffffcu);
  Write(kMsixEntryControl, 4, 0xfffffffe);
  EXPECT_EQ(Read(kMsixEntryControl, 4), 0u);
}

TEST_F(MsixTest, OddWritesAreIgnoredAndReadsOutsideAreAllOnes) {
  Write(kMsixEntryData, 4, 0x55);
  Write(kMsixEntryData, 1, 0xff);
  Write(kMsixEntryData, 2, 0xff);
  Write(kMsixEntryData + 2, 4, 0xff);
  Write(kMsixEntryAddressHigh, 8, 0xff);
  Write(48, 4, 0xff);
  Write(UINT64_MAX - 3, 4, 0xff);
  EXPECT_EQ(Read(kMsixEntryData, 4), 0x55u);
  EXPECT_EQ(Read(kMsixEntryData, 1), 0x55u);
  EXPECT_EQ(Read(48, 4), 0xffffffffu);
  EXPECT_EQ(Read(46, 4), 0xffffffffu);
  EXPECT_EQ(Pba(8, 8), UINT64_MAX);
  EXPECT_EQ(Read(UINT64_MAX, 4), 0xffffffffu);
}

TEST_F(MsixTest, AVectorThatDoesNotExistIsIgnored) {
  table_.SetControl(kMsixEnable);
  EXPECT_FALSE(table_.Signal(3));
  EXPECT_FALSE(table_.Signal(0xffff));
}

TEST(Msix, SizesCoverAllVectors) {
  const MsixTable table(65, nullptr);
  EXPECT_EQ(table.table_bytes(), 65u * 16);
  EXPECT_EQ(table.pba_bytes(), 16u);
}

}  // namespace
}  // namespace sluice::pci
