// The modern virtio-pci transport, driven through its registers alone.
#include "vmm/virtio/pci_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "vmm/pci/bus.h"
#include "vmm/virtio/testing/echo_device.h"
#include "vmm/virtio/testing/fake_driver.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::EchoDevice;
using testing::FakeNotifier;
using testing::FakePciDriver;
using testing::TaskQueue;

constexpr uint64_t kAllTransportFeatures = kFeatureVersion1 | kFeatureIndirectDescriptors | kFeatureEventIdx;
constexpr uint8_t kNegotiating = kStatusAcknowledge | kStatusDriver;
constexpr uint8_t kRunning = kStatusAcknowledge | kStatusDriver | kStatusFeaturesOk | kStatusDriverOk;

std::vector<uint8_t> Bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

class TransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ram = GuestMemory::CreateSimple(16 << 20);
    ASSERT_TRUE(ram.ok()) << ram.status();
    ram_ = *ram;
    auto device = std::make_unique<EchoDevice>();
    echo_ = device.get();
    auto transport = PciTransport::Create(
        std::move(device), {.name = "echo", .memory = ram_, .notifier = &notifier_, .post = loop_.poster()});
    ASSERT_TRUE(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
    pci_ = std::make_unique<FakePciDriver>(transport_.get(), &loop_);
  }
  void Start(uint64_t features = kFeatureVersion1) {
    const absl::Status status = pci_->Start(features, ram_, {16, 16});
    ASSERT_TRUE(status.ok()) << status;
  }
  void Negotiate(uint64_t features) {
    pci_->SetStatus(kNegotiating);
    for (uint32_t half = 0; half < 2; ++half) {
      pci_->WriteCommon(kCommonDriverFeatureSelect, 4, half);
      pci_->WriteCommon(kCommonDriverFeature, 4, (features >> (32 * half)) & 0xffffffff);
    }
    pci_->SetStatus(kNegotiating | kStatusFeaturesOk);
  }

  GuestMemory ram_;
  TaskQueue loop_;
  FakeNotifier notifier_;
  EchoDevice* echo_ = nullptr;
  std::unique_ptr<PciTransport> transport_;
  std::unique_ptr<FakePciDriver> pci_;
};

// ------------------------------------------------------------------------------------- discovery (section 4.1.4)

TEST_F(TransportTest, TheIdentityIsThatOfAModernDevice) {
  EXPECT_EQ(pci_->ReadConfig(pci::kRegVendorId, 2), 0x1af4u);
  EXPECT_EQ(pci_->ReadConfig(pci::kRegDeviceId, 2), 0x1040u + 42);
  EXPECT_EQ(pci_->ReadConfig(pci::kRegRevision, 1), 1u);  // "Revision ID of 1 or higher"
  EXPECT_EQ(pci_->ReadConfig(pci::kRegSubsystemId, 2), 0x1100u);
}

TEST_F(TransportTest, CapabilitiesSayWhereTheStructuresAre) {
  struct Case {
    uint8_t type;
    uint8_t length;
    uint8_t bar;
    uint32_t offset;
    uint32_t size;
  };
  for (const Case& c : {Case{kCapCommon, 16, 0, 0x0000, 0x38}, Case{kCapNotify, 20, 0, 0x3000, 8},
                        Case{kCapIsr, 16, 0, 0x1000, 1}, Case{kCapDevice, 16, 0, 0x2000, 0x1000},
                        Case{kCapPciAccess, 20, 0, 0, 0}, Case{kCapSharedMemory, 24, 4, 0, 1 << 20}}) {
    const uint8_t at = pci_->FindCapability(pci::kCapabilityVendor, c.type);
    ASSERT_NE(at, 0) << int{c.type};
    EXPECT_EQ(at % 4, 0);
    EXPECT_EQ(pci_->ReadConfig(at + kPciCapLength, 1), c.length) << int{c.type};
    EXPECT_EQ(pci_->ReadConfig(at + kPciCapBar, 1), c.bar) << int{c.type};
    EXPECT_EQ(pci_->ReadConfig(at + kPciCapOffset, 4), c.offset) << int{c.type};
    EXPECT_EQ(pci_->ReadConfig(at + kPciCapSize, 4), c.size) << int{c.type};
    EXPECT_EQ(pci_->FindCapability(pci::kCapabilityVendor, c.type, 1), 0) << "only one of each";
  }
  const uint8_t notify = pci_->FindCapability(pci::kCapabilityVendor, kCapNotify);
  EXPECT_EQ(pci_->ReadConfig(notify + kPciCapNotifyMultiplier, 4), 4u);
  const uint8_t shared = pci_->FindCapability(pci::kCapabilityVendor, kCapSharedMemory);
  EXPECT_EQ(pci_->ReadConfig(shared + kPciCapId, 1), 1u);
  EXPECT_EQ(pci_->ReadConfig(shared + kPciCapOffsetHigh, 4), 0u);
  EXPECT_EQ(pci_->ReadConfig(shared + kPciCapSizeHigh, 4), 0u);
  const uint8_t msix = pci_->FindCapability(pci::kCapabilityMsix);
  EXPECT_EQ(pci_->ReadConfig(msix + pci::kMsixControl, 2) & pci::kMsixSizeMask, 2u);  // three vectors
  EXPECT_EQ(pci_->ReadConfig(msix + pci::kMsixTableOffset, 4), 2u);
  EXPECT_EQ(pci_->ReadConfig(msix + pci::kMsixPbaOffset, 4), 0x802u);
}

TEST_F(TransportTest, BarsHaveTheSizesOfTheArchitecture) {
  EXPECT_EQ(transport_->BarSize(kRegisterBar), 16u << 10);
  EXPECT_EQ(transport_->BarSize(kMsixBar), 4u << 10);
  EXPECT_EQ(transport_->BarSize(kSharedMemoryBar), EchoDevice::kRegionBytes);
  ASSERT_TRUE(transport_->SharedMemory(1).has_value());
  EXPECT_EQ(transport_->SharedMemory(1)->size, EchoDevice::kRegionBytes);
  EXPECT_FALSE(transport_->SharedMemory(2).has_value());
  EXPECT_EQ(PciTransport::NotifyOffset(1), 0x3004u);
}

TEST_F(TransportTest, ABigRegionHasItsHighHalvesInTheCapability) {
  class Big : public EchoDevice {
    std::vector<SharedMemoryRegion> shared_memory_regions() const override {
      return {{.id = 7, .size = 0x1000}, {.id = 1, .size = uint64_t{5} << 32}};
    }
  };
  auto transport =
      PciTransport::Create(std::make_unique<Big>(), {.name = "big", .memory = ram_, .post = loop_.poster()});
  ASSERT_TRUE(transport.ok());
  FakePciDriver pci(transport->get(), &loop_);
  const uint8_t at = pci.FindCapability(pci::kCapabilityVendor, kCapSharedMemory, 1);
  EXPECT_EQ(pci.ReadConfig(at + kPciCapId, 1), 1u);
  EXPECT_EQ(pci.ReadConfig(at + kPciCapOffset, 4), 0x1000u);
  EXPECT_EQ(pci.ReadConfig(at + kPciCapSize, 4), 0u);
  EXPECT_EQ(pci.ReadConfig(at + kPciCapSizeHigh, 4), 5u);
  EXPECT_EQ((*transport)->BarSize(kSharedMemoryBar), uint64_t{8} << 32);
}

TEST_F(TransportTest, BadDevicesAreRefused) {
  class Odd : public EchoDevice {
   public:
    explicit Odd(std::vector<uint16_t> sizes) : sizes_(std::move(sizes)) {}
    absl::Span<const uint16_t> queue_max_sizes() const override { return sizes_; }
    std::vector<uint16_t> sizes_;
  };
  const auto create = [&](std::vector<uint16_t> sizes) {
    return PciTransport::Create(std::make_unique<Odd>(std::move(sizes)), {.memory = ram_, .post = loop_.poster()}).ok();
  };
  EXPECT_TRUE(create({16}));
  EXPECT_FALSE(create({}));
  EXPECT_FALSE(create({24}));
  EXPECT_FALSE(create({0}));
  EXPECT_FALSE(create(std::vector<uint16_t>(65, 16)));
  EXPECT_FALSE(PciTransport::Create(std::make_unique<EchoDevice>(), {.memory = ram_}).ok());
}

// ---------------------------------------------------------------------------------- common configuration (4.1.4.3)

TEST_F(TransportTest, AfterResetTheRegistersHoldTheirDefaults) {
  EXPECT_EQ(pci_->Status(), 0);
  EXPECT_EQ(pci_->ReadCommon(kCommonNumQueues, 2), 2u);
  EXPECT_EQ(pci_->ReadCommon(kCommonConfigMsixVector, 2), kNoVector);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 64u);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueMsixVector, 2), kNoVector);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueEnable, 2), 0u);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDesc, 8), 0u);
}

TEST_F(TransportTest, OfferedFeaturesAreTheDevicesAndTheTransports) {
  EXPECT_EQ(pci_->OfferedFeatures(), EchoDevice::kFeatureShout | kAllTransportFeatures);
  pci_->WriteCommon(kCommonDeviceFeatureSelect, 4, 2);
  EXPECT_EQ(pci_->ReadCommon(kCommonDeviceFeature, 4), 0u);
}

TEST_F(TransportTest, FeaturesOkIsRefusedWithoutVersion1) {
  Negotiate(EchoDevice::kFeatureShout);
  EXPECT_EQ(pci_->Status(), kNegotiating);
}

TEST_F(TransportTest, FeaturesOkIsRefusedForWhatWasNotOffered) {
  Negotiate(kFeatureVersion1 | (uint64_t{1} << 40));
  EXPECT_EQ(pci_->Status(), kNegotiating);
  Negotiate(kFeatureVersion1);  // the driver may try again
  EXPECT_EQ(pci_->Status(), kNegotiating | kStatusFeaturesOk);
}

TEST_F(TransportTest, FeaturesAreFixedOnceAccepted) {
  Negotiate(kFeatureVersion1);
  pci_->WriteCommon(kCommonDriverFeatureSelect, 4, 0);
  pci_->WriteCommon(kCommonDriverFeature, 4, EchoDevice::kFeatureShout);
  EXPECT_EQ(pci_->ReadCommon(kCommonDriverFeature, 4), 0u);
}

TEST_F(TransportTest, DriverOkWithoutFeaturesOkStartsNothing) {
  pci_->SetStatus(kNegotiating | kStatusDriverOk);
  loop_.Run();
  EXPECT_EQ(pci_->Status(), kNegotiating);
  EXPECT_EQ(echo_->activations, 0);
}

TEST_F(TransportTest, StatusBitsCannotBeClearedOrForged) {
  Negotiate(kFeatureVersion1);
  pci_->SetStatus(kStatusAcknowledge);
  EXPECT_EQ(pci_->Status(), kNegotiating | kStatusFeaturesOk);
  pci_->SetStatus(kNegotiating | kStatusNeedsReset | 0x30);
  EXPECT_EQ(pci_->Status(), kNegotiating | kStatusFeaturesOk);
}

TEST_F(TransportTest, AFailedDriverCannotStart) {
  Negotiate(kFeatureVersion1);
  pci_->SetStatus(pci_->Status() | kStatusFailed);
  pci_->SetStatus(kRunning);
  loop_.Run();
  EXPECT_EQ(echo_->activations, 0);
}

TEST_F(TransportTest, AQueueThatDoesNotExistHasSizeZero) {
  pci_->WriteCommon(kCommonQueueSelect, 2, 2);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 0u);
  pci_->WriteCommon(kCommonQueueSize, 2, 16);
  pci_->WriteCommon(kCommonQueueEnable, 2, 1);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueEnable, 2), 0u);
  pci_->WriteCommon(kCommonQueueSelect, 2, 0xffff);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 0u);
}

TEST_F(TransportTest, QueueSizesMustBePowersOfTwoUpToTheMaximum) {
  for (const uint16_t bad : {0, 3, 128, 0xffff}) {
    pci_->WriteCommon(kCommonQueueSize, 2, bad);
    EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 64u) << bad;
  }
  pci_->WriteCommon(kCommonQueueSize, 2, 1);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 1u);
}

TEST_F(TransportTest, VectorsThatDoNotExistReadBackAsNone) {
  pci_->WriteCommon(kCommonConfigMsixVector, 2, 2);
  EXPECT_EQ(pci_->ReadCommon(kCommonConfigMsixVector, 2), 2u);
  pci_->WriteCommon(kCommonConfigMsixVector, 2, 3);
  EXPECT_EQ(pci_->ReadCommon(kCommonConfigMsixVector, 2), kNoVector);
  pci_->WriteCommon(kCommonQueueMsixVector, 2, 1);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueMsixVector, 2), 1u);
  pci_->WriteCommon(kCommonQueueMsixVector, 2, 0x1234);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueMsixVector, 2), kNoVector);
}

TEST_F(TransportTest, AddressesAreWrittenInHalves) {
  pci_->WriteCommon(kCommonQueueDesc, 4, 0x11111000);
  pci_->WriteCommon(kCommonQueueDesc + 4, 4, 0x22);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDesc, 8), 0x2211111000u);
  pci_->WriteBar(kRegisterBar, kCommonQueueDriver, 8, 0x3344556677);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDriver, 8), 0x3344556677u);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDevice, 8), 0u);
}

TEST_F(TransportTest, AnEnabledQueueIsFixed) {
  pci_->WriteCommon(kCommonQueueEnable, 2, 1);
  pci_->WriteCommon(kCommonQueueSize, 2, 16);
  pci_->WriteCommon(kCommonQueueDesc, 8, 0x1000);
  pci_->WriteCommon(kCommonQueueEnable, 2, 0);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 64u);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDesc, 8), 0u);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueEnable, 2), 1u);
}

TEST_F(TransportTest, WritesOfTheWrongWidthAreIgnored) {
  pci_->WriteCommon(kCommonQueueSelect, 2, 1);
  pci_->WriteCommon(kCommonQueueSelect, 1, 0);
  pci_->WriteCommon(kCommonQueueSelect, 4, 0);
  pci_->WriteCommon(kCommonDeviceStatus, 2, kStatusAcknowledge);
  pci_->WriteCommon(kCommonQueueDesc, 2, 0x1234);
  pci_->WriteCommon(kCommonQueueDesc + 2, 4, 0x1234);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSelect, 2), 1u);
  EXPECT_EQ(pci_->Status(), 0);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueDesc, 8), 0u);
}

TEST_F(TransportTest, ReadOnlyRegistersStay) {
  for (const uint32_t reg : {kCommonDeviceFeature, kCommonNumQueues, kCommonConfigGeneration, kCommonQueueNotifyOff}) {
    for (const size_t size : {1, 2, 4}) {
      const uint64_t before = pci_->ReadCommon(reg, size);
      pci_->WriteCommon(reg, size, ~before);
      EXPECT_EQ(pci_->ReadCommon(reg, size), before);
    }
  }
}

TEST_F(TransportTest, UnknownPlacesReadZeroAndAccessesAcrossStructuresAllOnes) {
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, 0x38, 4), 0u);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, 0x1001, 4), 0u);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, 0x0ffe, 4), 0xffffffffu);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, 0x3000, 4), 0u);
  EXPECT_EQ(pci_->ReadBar(kSharedMemoryBar, 0, 8), UINT64_MAX);
  pci_->WriteBar(kRegisterBar, 0x0ffe, 4, 0);
  pci_->WriteBar(kSharedMemoryBar, 0, 8, 0);
}

// --------------------------------------------------------------------------------------------------- at work

TEST_F(TransportTest, RequestsAreAnsweredAndInterruptTheirVector) {
  Start();
  EXPECT_EQ(pci_->Status(), kRunning);
  ASSERT_TRUE(pci_->queue(1).Chain().Readable(Bytes("hello")).Writable(8).Submit().ok());
  pci_->Notify(1);
  const auto done = pci_->queue(1).Collect();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->data, Bytes("hello"));
  EXPECT_EQ(notifier_.signals(2), 1u);
  EXPECT_EQ(notifier_.signals(1), 0u);
  EXPECT_EQ(notifier_.message(2).data, 0x42u);
}

TEST_F(TransportTest, NegotiatedFeaturesReachTheDevice) {
  Start(kFeatureVersion1 | EchoDevice::kFeatureShout | kFeatureEventIdx | kFeatureIndirectDescriptors);
  ASSERT_TRUE(pci_->queue(0).Chain().Readable(Bytes("hello")).Writable(8).Indirect().Submit().ok());
  pci_->Notify(0);
  EXPECT_EQ(pci_->queue(0).Collect()->data, Bytes("HELLO"));
  EXPECT_TRUE(echo_->activation()->queues[0]->layout().event_idx);
}

TEST_F(TransportTest, AnIndirectTableWithoutTheFeatureNeedsAReset) {
  Start(kFeatureVersion1);
  ASSERT_TRUE(pci_->queue(0).Chain().Readable(Bytes("hello")).Indirect().Submit().ok());
  pci_->Notify(0);
  EXPECT_EQ(pci_->Status(), kRunning | kStatusNeedsReset);
}

TEST_F(TransportTest, WhatCameBeforeActivationIsServed) {
  Start();
  pci_->Reset();
  // The driver fills the ring and notifies before the loop has got to the activation.
  FakePciDriver early(transport_.get(), nullptr);
  ASSERT_TRUE(early.Start(kFeatureVersion1, ram_, {16, 16}).ok());
  ASSERT_TRUE(early.queue(0).Chain().Readable(Bytes("x")).Writable(1).Submit().ok());
  early.Notify(0);
  EXPECT_FALSE(early.queue(0).Collect().has_value());
  loop_.Run();
  EXPECT_TRUE(early.queue(0).Collect().has_value());
}

TEST_F(TransportTest, IsrStatusIsClearedByReadingIt) {
  Start();
  ASSERT_TRUE(pci_->queue(0).Chain().Writable(1).Submit().ok());
  pci_->Notify(0);
  echo_->ChangeConfig(9);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, kIsrOffset, 1), uint64_t{kIsrQueue | kIsrConfig});
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, kIsrOffset, 1), 0u);
}

TEST_F(TransportTest, WithoutAVectorNothingIsSignalled) {
  Start();
  pci_->WriteCommon(kCommonQueueSelect, 2, 0);
  pci_->WriteCommon(kCommonQueueMsixVector, 2, kNoVector);
  ASSERT_TRUE(pci_->queue(0).Chain().Writable(1).Submit().ok());
  pci_->Notify(0);
  EXPECT_TRUE(pci_->queue(0).Collect().has_value());
  EXPECT_EQ(notifier_.signals(1), 0u);
}

TEST_F(TransportTest, AMaskedVectorPendsUntilUnmasked) {
  Start();
  const uint64_t control = 16 + pci::kMsixEntryControl;
  pci_->WriteBar(kMsixBar, control, 4, 1);
  ASSERT_TRUE(pci_->queue(0).Chain().Writable(1).Submit().ok());
  pci_->Notify(0);
  EXPECT_EQ(notifier_.signals(1), 0u);
  EXPECT_EQ(pci_->ReadBar(kMsixBar, kMsixPbaOffset, 8), 2u);
  pci_->WriteBar(kMsixBar, control, 4, 0);
  EXPECT_EQ(notifier_.signals(1), 1u);
}

TEST_F(TransportTest, ConfigurationChangesBumpTheGenerationAndInterrupt) {
  Start();
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, kDeviceConfigOffset, 4), 0x04030201u);
  pci_->WriteBar(kRegisterBar, kDeviceConfigOffset + 2, 1, 0x77);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, kDeviceConfigOffset, 8), 0x0807060504770201u);
  EXPECT_EQ(pci_->ReadBar(kRegisterBar, kDeviceConfigOffset + 8, 4), 0u);
  const uint64_t before = pci_->ReadCommon(kCommonConfigGeneration, 1);
  echo_->ChangeConfig(9);
  EXPECT_NE(pci_->ReadCommon(kCommonConfigGeneration, 1), before);
  EXPECT_EQ(notifier_.signals(0), 1u);
}

TEST_F(TransportTest, NotificationsAreCountedAndCoalesced) {
  Start();
  const int before = echo_->notified;
  for (int i = 0; i < 1000; ++i) transport_->Notify(0);
  EXPECT_EQ(loop_.pending(), 1u);  // a guest cannot fill the loop's queue
  loop_.Run();
  EXPECT_EQ(echo_->notified, before + 1);
  transport_->NotifyFromLoop(1);
  EXPECT_EQ(echo_->notified, before + 2);
  EXPECT_GE(transport_->notifies(), 2u);
}

TEST_F(TransportTest, NotificationsOfNothingAreIgnored) {
  transport_->Notify(0);
  transport_->NotifyFromLoop(1);
  transport_->Notify(2);
  transport_->NotifyFromLoop(0xffff);
  pci_->WriteBar(kRegisterBar, kNotifyOffset + 0xffc, 4, 0);
  loop_.Run();
  EXPECT_EQ(echo_->notified, 0);
}

TEST_F(TransportTest, QueuesThatWereNotEnabledAreNotThere) {
  ASSERT_TRUE(pci_->Start(kFeatureVersion1, ram_, {16}).ok());
  EXPECT_TRUE(echo_->activation()->queues[0].has_value());
  EXPECT_FALSE(echo_->activation()->queues[1].has_value());
  const int before = echo_->notified;
  pci_->Notify(1);
  EXPECT_EQ(echo_->notified, before);
}

TEST_F(TransportTest, ABrokenRingNeedsAResetAndSaysSoOnce) {
  Start();
  pci_->queue(0).SetAvailIdx(1000);
  pci_->Notify(0);
  EXPECT_EQ(pci_->Status(), kRunning | kStatusNeedsReset);
  EXPECT_EQ(notifier_.signals(0), 1u);
  pci_->Notify(0);
  EXPECT_EQ(notifier_.signals(0), 1u);
  EXPECT_TRUE(pci_->Reset());
  Start();
  EXPECT_EQ(pci_->Status(), kRunning);
}

TEST_F(TransportTest, QueuesOutsideRamNeedAReset) {
  Negotiate(kFeatureVersion1);
  pci_->WriteCommon(kCommonQueueDesc, 8, 0x4000000000);
  pci_->WriteCommon(kCommonQueueEnable, 2, 1);
  pci_->SetStatus(kRunning);
  loop_.Run();
  EXPECT_EQ(pci_->Status(), kRunning | kStatusNeedsReset);
  EXPECT_EQ(echo_->activations, 0);
  EXPECT_TRUE(pci_->Reset());
}

TEST_F(TransportTest, ADeviceThatCannotStartNeedsAReset) {
  echo_->activate_status = absl::InternalError("no");
  EXPECT_FALSE(pci_->Start(kFeatureVersion1, ram_, {16, 16}).ok());
  EXPECT_EQ(pci_->Status() & kStatusNeedsReset, kStatusNeedsReset);
  EXPECT_EQ(echo_->notified, 0);
  EXPECT_TRUE(pci_->Reset());
  EXPECT_EQ(echo_->resets, 1);
}

// --------------------------------------------------------------------------------------------------------- reset

TEST_F(TransportTest, BeforeActivationResetIsImmediate) {
  Negotiate(kFeatureVersion1);
  pci_->WriteCommon(kCommonQueueSize, 2, 16);
  FakePciDriver(transport_.get(), nullptr).SetStatus(0);
  EXPECT_EQ(pci_->Status(), 0);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueSize, 2), 64u);
  EXPECT_EQ(loop_.pending(), 0u);
  EXPECT_EQ(echo_->resets, 0);
}

TEST_F(TransportTest, StatusReadsZeroOnlyOnceTheDeviceIsReset) {
  Start();
  pci_->SetStatus(0);
  EXPECT_EQ(pci_->Status(), kRunning);
  pci_->WriteCommon(kCommonQueueSelect, 2, 0);
  pci_->WriteCommon(kCommonQueueMsixVector, 2, 2);  // ignored meanwhile, as all writes
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueMsixVector, 2), 2u);
  pci_->SetStatus(0xff);
  pci_->SetStatus(0);
  EXPECT_EQ(echo_->resets, 0);
  loop_.Run();
  EXPECT_EQ(pci_->Status(), 0);
  EXPECT_EQ(pci_->ReadCommon(kCommonQueueMsixVector, 2), kNoVector);
  EXPECT_EQ(echo_->resets, 1);
}

TEST_F(TransportTest, ChainsHeldAcrossAResetCompleteNothing) {
  Start();
  echo_->set_hold(true);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pci_->queue(0).Chain().Readable(Bytes("x")).Writable(1).Submit().ok());
  pci_->Notify(0);
  EXPECT_EQ(echo_->held(), 3u);
  ASSERT_TRUE(pci_->Reset());
  Start();  // the same rings at the same place
  EXPECT_EQ(echo_->ReleaseHeld(), 0u);
  EXPECT_EQ(pci_->queue(0).used_idx(), 0u);
}

TEST_F(TransportTest, HeldChainsCompleteOutOfOrder) {
  Start();
  echo_->set_hold(true);
  std::vector<uint16_t> heads;
  for (int i = 0; i < 3; ++i) heads.push_back(*pci_->queue(0).Chain().Readable(Bytes("x")).Writable(1).Submit());
  pci_->Notify(0);
  EXPECT_FALSE(pci_->queue(0).Collect().has_value());
  EXPECT_EQ(echo_->ReleaseHeld(), 3u);
  EXPECT_EQ(pci_->queue(0).Collect()->head, heads[2]);
  EXPECT_EQ(pci_->queue(0).Collect()->head, heads[1]);
  EXPECT_EQ(pci_->queue(0).Collect()->head, heads[0]);
}

TEST_F(TransportTest, AnActivationThatAResetOvertookIsDropped) {
  FakePciDriver fast(transport_.get(), nullptr);
  ASSERT_TRUE(fast.Start(kFeatureVersion1, ram_, {16, 16}).ok());
  fast.SetStatus(0);
  loop_.Run();
  EXPECT_EQ(echo_->activations, 0);
  EXPECT_EQ(echo_->resets, 0);
  EXPECT_EQ(pci_->Status(), 0);
}

TEST_F(TransportTest, TasksThatOutliveTheTransportDoNothing) {
  FakePciDriver late(transport_.get(), nullptr);
  ASSERT_TRUE(late.Start(kFeatureVersion1, ram_, {16, 16}).ok());
  transport_->Notify(0);
  EXPECT_GT(loop_.pending(), 0u);
  transport_.reset();
  loop_.Run();
}

// ----------------------------------------------------------------- PCI configuration access capability (4.1.4.9)

TEST_F(TransportTest, RegistersAreReachableThroughConfigurationSpace) {
  const uint8_t at = pci_->FindCapability(pci::kCapabilityVendor, kCapPciAccess);
  const auto point = [&](uint8_t bar, uint32_t offset, uint32_t size) {
    pci_->WriteConfig(at + kPciCapBar, 1, bar);
    pci_->WriteConfig(at + kPciCapOffset, 4, offset);
    pci_->WriteConfig(at + kPciCapSize, 4, size);
  };
  point(kRegisterBar, kCommonNumQueues, 2);
  EXPECT_EQ(pci_->ReadConfig(at + kPciCapAccessData, 4), 2u);
  point(kRegisterBar, kCommonDeviceStatus, 1);
  pci_->WriteConfig(at + kPciCapAccessData, 4, kStatusAcknowledge);
  EXPECT_EQ(pci_->Status(), kStatusAcknowledge);
  // Windows that are none: nothing happens, whatever was there is read.
  for (const uint32_t size : {0u, 3u, 8u, 0xffffffffu}) {
    point(kRegisterBar, 0, size);
    pci_->WriteConfig(at + kPciCapAccessData, 4, 0x55);
    EXPECT_EQ(pci_->ReadConfig(at + kPciCapAccessData, 4), 0x55u);
  }
  point(kRegisterBar, 2, 4);
  pci_->ReadConfig(at + kPciCapAccessData, 4);
  point(kRegisterBar, 0x4000, 4);
  pci_->ReadConfig(at + kPciCapAccessData, 4);
  point(kRegisterBar, 0xfffffffc, 4);
  pci_->ReadConfig(at + kPciCapAccessData, 4);
  point(1, 0, 4);
  pci_->ReadConfig(at + kPciCapAccessData, 4);
  point(0xff, 0, 4);
  pci_->ReadConfig(at + kPciCapAccessData, 4);
  EXPECT_EQ(pci_->Status(), kStatusAcknowledge);
}

// ------------------------------------------------------------------------------------------------------- threads

TEST_F(TransportTest, VcpusMayDoAnythingWhileTheLoopWorks) {
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    while (!stop.load()) {
      if (loop_.Run() == 0) std::this_thread::yield();
    }
    loop_.Run();
  });
  std::vector<std::thread> vcpus;
  for (int t = 0; t < 2; ++t) {
    vcpus.emplace_back([this, t] {
      FakePciDriver pci(transport_.get(), nullptr);
      for (int i = 0; i < 300; ++i) {
        pci.SetStatus(0);
        // As a driver does; the other vCPU may start the device meanwhile, so not for ever.
        for (int spin = 0; spin < 1000 && pci.Status() != 0; ++spin) std::this_thread::yield();
        pci.Start(kAllTransportFeatures, ram_, {16, 16}, GuestAddress(0x100000 + 0x600000 * t)).IgnoreError();
        for (uint16_t q = 0; q < 2; ++q) pci.Notify(q);
        pci.ReadBar(kRegisterBar, kIsrOffset, 1);
        pci.ReadBar(kRegisterBar, kDeviceConfigOffset, 8);
      }
    });
  }
  for (std::thread& vcpu : vcpus) vcpu.join();
  stop.store(true);
  loop.join();
  EXPECT_TRUE(pci_->Reset());
  EXPECT_GT(echo_->activations, 0);
  EXPECT_EQ(echo_->activations, echo_->resets);
}

TEST_F(TransportTest, OnABusItIsFoundAndUsedByAddress) {
  pci::PciBus bus({.ecam = GuestAddress(0xe0000000),
                   .windows = {*memory::GuestRange::Create(GuestAddress(0xe1000000), 0xf000000),
                               *memory::GuestRange::Create(GuestAddress(0x4000000000), uint64_t{1} << 36)}});
  ASSERT_TRUE(bus.Add(1, transport_.get()).ok());
  ASSERT_TRUE(bus.AssignBars().ok());
  EXPECT_EQ(transport_->BarRange(kSharedMemoryBar)->start().value(), 0x4000000000u);
  const uint64_t base = transport_->BarRange(kRegisterBar)->start().value();
  std::vector<uint8_t> two(2);
  EXPECT_TRUE(bus.MmioRead(GuestAddress(base + kCommonNumQueues), absl::MakeSpan(two)));
  EXPECT_EQ(two[0], 2);
  std::vector<uint8_t> four(4);
  EXPECT_TRUE(bus.MmioRead(GuestAddress(0xe0000000 + pci::EcamOffset(1, 0, 0)), absl::MakeSpan(four)));
  EXPECT_EQ(four[0], 0xf4);
}

}  // namespace
}  // namespace sluice::virtio
