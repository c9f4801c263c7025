// PCI as a guest sees it: through ports, ECAM and addresses.
#include "vmm/pci/bus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vmm/pci/host_bridge.h"

namespace sluice::pci {
namespace {

using memory::GuestAddress;
using memory::GuestRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kEcam = 0xe0000000;
constexpr uint64_t kWindow32 = 0xe1000000;
constexpr uint64_t kWindow64 = 0x4000000000;

// BAR 0: 16 KiB; BAR 2: 4 KiB with MSI-X; BAR 4: 1 MiB, 64-bit prefetchable. BAR 0 remembers its last byte written.
class Lamp : public PciDevice {
 public:
  explicit Lamp(std::string name = "lamp")
      : PciDevice(std::move(name), {.vendor_id = 0x1234,
                                    .device_id = 0x5678,
                                    .revision = 9,
                                    .class_code = 0x038001,
                                    .subsystem_vendor_id = 0xaaaa,
                                    .subsystem_id = 0xbbbb}) {
    EXPECT_TRUE(AddBar({.index = 0, .kind = BarKind::kMemory32, .size = 0x4000}).ok());
    EXPECT_TRUE(AddBar({.index = 2, .kind = BarKind::kMemory32, .size = 0x1000}).ok());
    EXPECT_TRUE(AddBar({.index = 4, .kind = BarKind::kMemory64Prefetchable, .size = 1 << 20}).ok());
    const std::vector<uint8_t> body = {5, 'h', 'i'};
    EXPECT_TRUE(AddCapability(kCapabilityVendor, body).ok());
    EXPECT_TRUE(EnableMsix(2, 2, 0, 0x800, nullptr).ok());
  }
  void BarRead(uint8_t bar, uint64_t offset, absl::Span<uint8_t> to) override {
    if (bar == 2) return MsixRead(offset, to);
    for (uint8_t& b : to) b = bar == 0 ? value : 0x44;
  }
  void BarWrite(uint8_t bar, uint64_t offset, absl::Span<const uint8_t> from) override {
    if (bar == 2) return MsixWrite(offset, from);
    last_offset = offset;
    value = from[0];
  }
  using PciDevice::AddBar;
  using PciDevice::AddCapability;
  using PciDevice::EnableMsix;
  uint8_t value = 0x11;
  uint64_t last_offset = 0;
};

class Follower : public BarObserver {
 public:
  void BarMapped(const PciDevice&, uint8_t bar, GuestRange range) override {
    events.push_back(absl::StrCat("+", bar, " ", range.ToString()));
  }
  void BarUnmapped(const PciDevice&, uint8_t bar, GuestRange range) override {
    events.push_back(absl::StrCat("-", bar, " ", range.ToString()));
  }
  std::vector<std::string> events;
};

PciBus::Options Options() {
  return {.ecam = GuestAddress(kEcam),
          .windows = {*GuestRange::Create(GuestAddress(kWindow32), 0xf000000),
                      *GuestRange::Create(GuestAddress(kWindow64), uint64_t{1} << 36)}};
}

class BusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bus_.Add(0, &bridge_).ok());
    ASSERT_TRUE(bus_.Add(1, &lamp_).ok());
    ASSERT_TRUE(bus_.AssignBars().ok());
  }
  uint64_t Read(uint64_t address, size_t size) {
    std::vector<uint8_t> bytes(size);
    claimed_ = bus_.MmioRead(GuestAddress(address), absl::MakeSpan(bytes));
    return Value(bytes);
  }
  void Write(uint64_t address, size_t size, uint64_t value) {
    claimed_ = bus_.MmioWrite(GuestAddress(address), Bytes(size, value));
  }
  uint64_t In(uint16_t port, size_t size) {
    std::vector<uint8_t> bytes(size);
    claimed_ = bus_.IoRead(port, absl::MakeSpan(bytes));
    return Value(bytes);
  }
  void Out(uint16_t port, size_t size, uint64_t value) { claimed_ = bus_.IoWrite(port, Bytes(size, value)); }
  static uint64_t Value(const std::vector<uint8_t>& bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size() && i < 8; ++i) value |= uint64_t{bytes[i]} << (8 * i);
    return value;
  }
  static std::vector<uint8_t> Bytes(size_t size, uint64_t value) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return bytes;
  }
  // Configuration space of slot 1 through ECAM.
  static uint64_t Reg(uint16_t offset) { return kEcam + EcamOffset(1, 0, offset); }

  HostBridge bridge_;
  Lamp lamp_;
  PciBus bus_{Options()};
  bool claimed_ = false;
};

TEST_F(BusTest, BothMechanismsReadTheSameIdentity) {
  EXPECT_EQ(Read(Reg(kRegVendorId), 4), 0x56781234u);
  Out(kConfigAddressPort, 4, ConfigAddress(0, 1, 0, kRegVendorId));
  EXPECT_EQ(In(kConfigDataPort, 4), 0x56781234u);
  EXPECT_EQ(In(kConfigDataPort + 2, 2), 0x5678u);
  EXPECT_EQ(In(kConfigDataPort + 3, 1), 0x56u);
  EXPECT_EQ(Read(Reg(kRegRevision), 4), 0x03800109u);
  EXPECT_EQ(Read(Reg(kRegSubsystemVendorId), 4), 0xbbbbaaaau);
  EXPECT_EQ(Read(Reg(kRegHeaderType), 1), 0u);
  EXPECT_EQ(Read(Reg(kRegInterruptPin), 1), 0u);
}

TEST_F(BusTest, SlotZeroIsTheHostBridge) {
  EXPECT_EQ(Read(kEcam, 4), 0x00081b36u);
  EXPECT_EQ(Read(kEcam + 8, 4), 0x06000000u);
}

TEST_F(BusTest, EmptySlotsFunctionsAndBusesReadAllOnes) {
  EXPECT_EQ(Read(kEcam + EcamOffset(2, 0, 0), 4), 0xffffffffu);
  EXPECT_EQ(Read(kEcam + EcamOffset(1, 1, 0), 4), 0xffffffffu);
  EXPECT_TRUE(claimed_);
  Out(kConfigAddressPort, 4, ConfigAddress(1, 1, 0, 0));
  EXPECT_EQ(In(kConfigDataPort, 4), 0xffffffffu);
  Out(kConfigAddressPort, 4, ConfigAddress(0, 31, 7, 0));
  EXPECT_EQ(In(kConfigDataPort, 4), 0xffffffffu);
  Out(kConfigDataPort, 4, 0x1234);
}

TEST_F(BusTest, ConfigAddressIsADwordRegister) {
  Out(kConfigAddressPort, 4, 0xffffffff);
  EXPECT_EQ(In(kConfigAddressPort, 4), 0x80fffffcu);
  Out(kConfigAddressPort, 1, 0);
  Out(kConfigAddressPort + 2, 2, 0);
  EXPECT_EQ(In(kConfigAddressPort, 4), 0x80fffffcu);
  EXPECT_EQ(In(kConfigAddressPort, 2), 0xffffu);
}

TEST_F(BusTest, WithoutTheEnableBitDataReadsAllOnes) {
  Out(kConfigAddressPort, 4, ConfigAddress(0, 1, 0, 0) & ~kConfigEnable);
  EXPECT_EQ(In(kConfigDataPort, 4), 0xffffffffu);
  EXPECT_TRUE(claimed_);
}

TEST_F(BusTest, OtherPortsAreNotClaimed) {
  EXPECT_EQ(In(0xcf7, 1), 0xffu);
  EXPECT_FALSE(claimed_);
  Out(0xd00, 4, 0);
  EXPECT_FALSE(claimed_);
}

TEST_F(BusTest, ConfigurationAccessesThatCrossADwordReadAllOnes) {
  EXPECT_EQ(Read(Reg(1), 2), 0x7812u);
  EXPECT_EQ(Read(Reg(3), 2), 0xffffu);
  EXPECT_EQ(Read(Reg(2), 4), 0xffffffffu);
  EXPECT_EQ(Read(Reg(0), 8), UINT64_MAX);
  EXPECT_EQ(Read(Reg(0), 3), 0xffffffu);
  Out(kConfigAddressPort, 4, ConfigAddress(0, 1, 0, 0));
  EXPECT_EQ(In(kConfigDataPort + 1, 4), 0xffffffffu);
  const uint64_t before = Read(Reg(kRegCommand), 4);
  Write(Reg(kRegCommand - 1), 2, 0);
  Write(Reg(kRegCommand), 8, 0);
  EXPECT_EQ(Read(Reg(kRegCommand), 4), before);
}

TEST_F(BusTest, ExtendedSpaceExistsThroughEcamOnly) {
  EXPECT_EQ(Read(Reg(0x100), 4), 0u);
  EXPECT_EQ(Read(Reg(0xffc), 4), 0u);
  EXPECT_EQ(Read(kEcam + kEcamBytes, 4), 0xffffffffu);
  EXPECT_FALSE(claimed_);
}

TEST_F(BusTest, ReadOnlyRegistersStay) {
  for (const uint16_t reg : {kRegVendorId, kRegRevision, kRegSubsystemVendorId}) {
    const uint64_t before = Read(Reg(reg), 4);
    Write(Reg(reg), 4, ~before);
    EXPECT_EQ(Read(Reg(reg), 4), before);
  }
  Write(Reg(kRegCommand), 2, 0xffff);
  EXPECT_EQ(Read(Reg(kRegCommand), 2), 0x0546u);
  Write(Reg(kRegInterruptLine), 1, 0x5a);
  EXPECT_EQ(Read(Reg(kRegInterruptLine), 1), 0x5au);
}

TEST_F(BusTest, CapabilitiesFormAList) {
  EXPECT_EQ(Read(Reg(kRegStatus), 2) & kStatusCapabilities, kStatusCapabilities);
  const uint64_t first = Read(Reg(kRegCapabilities), 1);
  EXPECT_EQ(Read(Reg(first), 1), kCapabilityVendor);
  EXPECT_EQ(Read(Reg(first + 2), 1), 5u);
  EXPECT_EQ(Read(Reg(first + 3), 1), uint64_t{'h'});
  const uint64_t second = Read(Reg(first + 1), 1);
  EXPECT_EQ(second % 4, 0u);
  EXPECT_EQ(Read(Reg(second), 1), kCapabilityMsix);
  EXPECT_EQ(Read(Reg(second + 1), 1), 0u);
  EXPECT_EQ(Read(Reg(second + kMsixControl), 2), 1u);  // two vectors
  EXPECT_EQ(Read(Reg(second + kMsixTableOffset), 4), 2u);
  EXPECT_EQ(Read(Reg(second + kMsixPbaOffset), 4), 0x802u);
}

TEST_F(BusTest, CapabilitiesThatDoNotFitAreRefused) {
  Lamp lamp;
  const std::vector<uint8_t> big(200);
  EXPECT_EQ(lamp.AddCapability(kCapabilityVendor, big).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BusTest, BarsAreAssignedInTheirWindowsNaturallyAligned) {
  EXPECT_EQ(Read(Reg(kRegBar0), 4), kWindow32);
  EXPECT_EQ(Read(Reg(kRegBar0 + 8), 4), kWindow32 + 0x4000);
  EXPECT_EQ(Read(Reg(kRegBar0 + 16), 4), (kWindow64 & 0xffffffff) | kBarMemory64 | kBarPrefetchable);
  EXPECT_EQ(Read(Reg(kRegBar0 + 20), 4), kWindow64 >> 32);
  EXPECT_EQ(Read(Reg(kRegBar0 + 4), 4), 0u);
  EXPECT_EQ(lamp_.BarRange(4)->start().value(), kWindow64);
}

TEST_F(BusTest, SizingWritesReadBackTheSize) {
  Write(Reg(kRegCommand), 2, 0);
  Write(Reg(kRegBar0), 4, 0xffffffff);
  EXPECT_EQ(Read(Reg(kRegBar0), 4), 0xffffc000u);
  Write(Reg(kRegBar0 + 16), 4, 0xffffffff);
  Write(Reg(kRegBar0 + 20), 4, 0xffffffff);
  EXPECT_EQ(Read(Reg(kRegBar0 + 16), 4), 0xfff00000u | kBarMemory64 | kBarPrefetchable);
  EXPECT_EQ(Read(Reg(kRegBar0 + 20), 4), 0xffffffffu);
  Write(Reg(kRegBar0 + 4), 4, 0xffffffff);  // no such BAR
  EXPECT_EQ(Read(Reg(kRegBar0 + 4), 4), 0u);
}

TEST_F(BusTest, ABarAnswersAtItsAddress) {
  EXPECT_EQ(Read(kWindow32, 4), 0x11111111u);
  Write(kWindow32 + 0x123, 1, 0x77);
  EXPECT_EQ(lamp_.last_offset, 0x123u);
  EXPECT_EQ(Read(kWindow32 + 0x3fff, 1), 0x77u);
  EXPECT_EQ(Read(kWindow64 + 5, 1), 0x44u);
}

TEST_F(BusTest, AccessesThatLeaveABarAreNotClaimed) {
  EXPECT_EQ(Read(kWindow32 + 0x3ffe, 4), 0xffffffffu);
  EXPECT_FALSE(claimed_);
  EXPECT_EQ(Read(kWindow32 - 1, 2), 0xffffu);
  EXPECT_FALSE(claimed_);
  Write(UINT64_MAX, 8, 0);
  EXPECT_FALSE(claimed_);
}

TEST_F(BusTest, WithDecodingOffNothingAnswers) {
  Write(Reg(kRegCommand), 2, 0);
  EXPECT_EQ(Read(kWindow32, 4), 0xffffffffu);
  EXPECT_FALSE(claimed_);
  EXPECT_FALSE(lamp_.BarRange(0).has_value());
}

TEST_F(BusTest, TheObserverFollowsMovesAndSwitches) {
  Follower follower;
  lamp_.SetBarObserver(&follower);
  EXPECT_THAT(follower.events, ElementsAre("+0 0xe1000000+0x4000", "+2 0xe1004000+0x1000", "+4 0x4000000000+0x100000"));
  follower.events.clear();
  Write(Reg(kRegBar0), 4, 0xe2000000);
  EXPECT_THAT(follower.events, ElementsAre("-0 0xe1000000+0x4000", "+0 0xe2000000+0x4000"));
  EXPECT_EQ(Read(0xe2000000, 1), 0x11u);
  follower.events.clear();
  Write(Reg(kRegBar0), 4, 0xe2000000);  // the same again
  EXPECT_THAT(follower.events, IsEmpty());
  Write(Reg(kRegCommand), 2, 0);
  EXPECT_THAT(follower.events, ElementsAre("-0 0xe2000000+0x4000", "-2 0xe1004000+0x1000", "-4 0x4000000000+0x100000"));
  follower.events.clear();
  Write(Reg(kRegBar0 + 20), 4, 0x41);
  EXPECT_THAT(follower.events, IsEmpty());
  Write(Reg(kRegCommand), 2, kCommandMemory);
  EXPECT_THAT(follower.events, ElementsAre("+0 0xe2000000+0x4000", "+2 0xe1004000+0x1000", "+4 0x4100000000+0x100000"));
  lamp_.SetBarObserver(nullptr);
}

TEST_F(BusTest, ABarOutsideTheWindowsDecodesNowhere) {
  Follower follower;
  lamp_.SetBarObserver(&follower);
  // Unassigned, over RAM, over the local APIC, the end of the address space, just above the window, over ECAM.
  for (const uint32_t address : {0x00000000u, 0x00100000u, 0xfee00000u, 0xffffc000u, 0xf0000000u, 0xe0000000u}) {
    Write(Reg(kRegBar0), 4, 0xe1000000);
    follower.events.clear();
    Write(Reg(kRegBar0), 4, address);
    EXPECT_THAT(follower.events, ElementsAre("-0 0xe1000000+0x4000")) << address;
    EXPECT_FALSE(lamp_.BarRange(0).has_value());
  }
  lamp_.SetBarObserver(nullptr);
}

TEST_F(BusTest, MsixIsReachedThroughItsBarAndCapability) {
  const uint64_t table = kWindow32 + 0x4000;
  EXPECT_EQ(Read(table + kMsixEntryControl, 4), kMsixEntryMasked);
  Write(table + kMsixEntryControl, 4, 0);
  Write(table + 0x800, 8, UINT64_MAX);  // pending bits are read-only
  EXPECT_EQ(Read(table + 0x800, 8), 0u);
  EXPECT_EQ(Read(table + 0x400, 4), 0u);
  const uint64_t capability = Reg(Read(Reg(Read(Reg(kRegCapabilities), 1) + 1), 1));
  Write(capability + kMsixControl, 2, 0xffff);
  EXPECT_EQ(Read(capability + kMsixControl, 2), uint64_t{kMsixEnable | kMsixFunctionMask | 1});
  EXPECT_TRUE(lamp_.msix()->enabled());
  lamp_.msix()->Signal(0);
  EXPECT_EQ(Read(table + 0x800, 8), 1u);
  Write(capability + kMsixControl + 1, 1, 0x80);  // byte access: function mask off
  EXPECT_EQ(Read(table + 0x800, 8), 0u);
  EXPECT_EQ(lamp_.msix()->sent(), 1u);
}

TEST(Bus, SlotsAreTakenOnce) {
  HostBridge a;
  HostBridge b;
  PciBus bus(Options());
  EXPECT_TRUE(bus.Add(5, &a).ok());
  EXPECT_FALSE(bus.Add(5, &b).ok());
  EXPECT_FALSE(bus.Add(32, &b).ok());
  EXPECT_EQ(bus.device(5), &a);
  EXPECT_EQ(bus.device(6), nullptr);
  EXPECT_EQ(bus.device(200), nullptr);
}

TEST(Bus, ABarThatFitsNowhereIsNamed) {
  Lamp lamp("the-lamp");
  PciBus bus({.ecam = GuestAddress(kEcam), .windows = {*GuestRange::Create(GuestAddress(kWindow32), 0x100000)}});
  ASSERT_TRUE(bus.Add(1, &lamp).ok());
  const absl::Status status = bus.AssignBars();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("BAR 4 of the-lamp"));
}

TEST(Device, BadBarsAreRefused) {
  Lamp lamp;
  EXPECT_FALSE(lamp.AddBar({.index = 0, .size = 0x1000}).ok());  // taken
  EXPECT_FALSE(lamp.AddBar({.index = 5, .size = 0x1000}).ok());  // upper half of 4
  EXPECT_FALSE(lamp.AddBar({.index = 1, .kind = BarKind::kMemory64Prefetchable, .size = 4096}).ok());  // 2 is taken
  EXPECT_FALSE(lamp.AddBar({.index = 1, .size = 0x1800}).ok());
  EXPECT_FALSE(lamp.AddBar({.index = 1, .size = 0x800}).ok());
  EXPECT_FALSE(lamp.AddBar({.index = 1, .size = uint64_t{1} << 32}).ok());
  EXPECT_FALSE(lamp.AddBar({.index = 6, .size = 0x1000}).ok());
  EXPECT_TRUE(lamp.AddBar({.index = 1, .size = 0x1000}).ok());
}

TEST(Device, BadMsixPlacesAreRefused) {
  Lamp lamp;
  EXPECT_FALSE(lamp.EnableMsix(2, 3, 0, 0x800, nullptr).ok());
  EXPECT_FALSE(lamp.EnableMsix(2, 2, 4, 0x800, nullptr).ok());
  EXPECT_FALSE(lamp.EnableMsix(2, 2, 0x7f0, 0x800, nullptr).ok());
  EXPECT_FALSE(lamp.EnableMsix(2, 2, 0xff0, 0x800, nullptr).ok());
  EXPECT_FALSE(lamp.EnableMsix(0, 2, 0, 0x800, nullptr).ok());
  EXPECT_FALSE(lamp.EnableMsix(kMaxMsixVectors + 1, 2, 0, 0x800, nullptr).ok());
}

TEST_F(BusTest, AddressesThatCannotBeAreNotAssigned) {
  EXPECT_FALSE(lamp_.AssignBar(0, GuestAddress(0xe1000800)).ok());
  EXPECT_FALSE(lamp_.AssignBar(0, GuestAddress(kWindow64)).ok());
  EXPECT_FALSE(lamp_.AssignBar(1, GuestAddress(kWindow32)).ok());
  EXPECT_TRUE(lamp_.AssignBar(4, GuestAddress(kWindow64 + (1 << 20))).ok());
}

TEST_F(BusTest, VcpusMayAccessEverythingAtOnce) {
  Follower follower;  // guarded by the device's lock
  lamp_.SetBarObserver(&follower);
  std::vector<std::thread> vcpus;
  for (int t = 0; t < 3; ++t) {
    vcpus.emplace_back([this, t] {
      for (uint64_t i = 0; i < 3000; ++i) {
        bus_.MmioWrite(GuestAddress(Reg(kRegBar0)), Bytes(4, kWindow32 + ((i + t) % 8) * 0x10000));
        bus_.IoWrite(kConfigAddressPort, Bytes(4, ConfigAddress(0, 1, 0, static_cast<uint8_t>(i))));
        bus_.IoWrite(kConfigDataPort, Bytes(4, i));
        std::vector<uint8_t> bytes(4);
        bus_.MmioRead(GuestAddress(kWindow32 + 0x4000), absl::MakeSpan(bytes));
        lamp_.msix()->Signal(0);
      }
    });
  }
  for (std::thread& vcpu : vcpus) vcpu.join();
  lamp_.SetBarObserver(nullptr);
}

}  // namespace
}  // namespace sluice::pci
