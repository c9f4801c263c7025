// Fuzz target: a virtio-pci device on a bus, every register of which a hostile guest accesses.
//
// Threat model: the guest reads and writes configuration space (CF8/CFC, ECAM, the access capability), BARs wherever
// they are, MSI-X, queue registers and all of RAM, while the loop thread runs when it likes. Nothing may crash, loop or
// leave the loop's queue growing; a reset always brings the device back.
//
// Grammar: operations of one byte plus operands; see Run().
#include <cstdlib>
#include <memory>

#include "vmm/base/log.h"
#include "vmm/pci/bus.h"
#include "vmm/pci/host_bridge.h"
#include "vmm/virtio/pci_transport.h"
#include "vmm/virtio/testing/byte_source.h"
#include "vmm/virtio/testing/echo_device.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using testing::ByteSource;
using testing::EchoDevice;
using testing::FakeNotifier;
using testing::FakePciDriver;
using testing::TaskQueue;

constexpr uint64_t kRamBytes = 8 << 20;
constexpr uint64_t kEcam = 0xe0000000;
constexpr size_t kMaxOperations = 4096;

void Require(bool holds) {
  if (!holds) std::abort();
}

void Run(const GuestMemory& ram, ByteSource in) {
  TaskQueue loop;
  FakeNotifier notifier;
  auto device = std::make_unique<EchoDevice>();
  EchoDevice* echo = device.get();
  auto created = PciTransport::Create(std::move(device),
                                      {.name = "echo", .memory = ram, .notifier = &notifier, .post = loop.poster()});
  Require(created.ok());
  PciTransport& transport = **created;
  pci::HostBridge bridge;
  pci::PciBus bus({.ecam = GuestAddress(kEcam),
                   .windows = {*GuestRange::Create(GuestAddress(0xe1000000), 0xf000000),
                               *GuestRange::Create(GuestAddress(0x4000000000), uint64_t{1} << 36)}});
  Require(bus.Add(0, &bridge).ok() && bus.Add(1, &transport).ok() && bus.AssignBars().ok());
  FakePciDriver driver(&transport, &loop);

  for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) {
    const uint8_t operation = in.Byte();
    const size_t width = size_t{1} << (in.Byte() % 4);
    std::vector<uint8_t> bytes(width);
    switch (operation % 12) {
      case 0:
        bus.MmioRead(GuestAddress(kEcam + (in.U32() & 0xfffff)), absl::MakeSpan(bytes));
        break;
      case 1:
        bus.MmioWrite(GuestAddress(kEcam + (in.U32() & 0xfffff)), in.Bytes(width));
        break;
      case 2:
        bus.IoWrite(static_cast<uint16_t>(0xcf8 + in.Byte() % 8), in.Bytes(width));
        break;
      case 3:
        bus.IoRead(static_cast<uint16_t>(0xcf8 + in.Byte() % 8), absl::MakeSpan(bytes));
        break;
      case 4:  // the common configuration, where it is
        driver.WriteBar(kRegisterBar, in.Byte() % 0x40, width, in.U64());
        break;
      case 5:
        driver.WriteBar(kRegisterBar, (in.U16() & 0x3ff8), width, in.U64());
        break;
      case 6:
        driver.ReadBar(kRegisterBar, (in.U16() & 0x3ff8), width);
        break;
      case 7:
        driver.WriteBar(kMsixBar, in.U16() & 0xff8, width, in.U64());
        driver.ReadBar(kMsixBar, in.U16() & 0xff8, width);
        break;
      case 8:  // wherever the guest has put something
        bus.MmioWrite(GuestAddress(0xe1000000 + (in.U32() & 0xffffff)), in.Bytes(width));
        bus.MmioRead(GuestAddress(in.U64()), absl::MakeSpan(bytes));
        break;
      case 9:
        ram.CopyTo(GuestAddress(in.U32() % kRamBytes), in.Bytes(in.Byte() % 32)).IgnoreError();
        break;
      case 10:  // a working driver, and a request
        echo->set_hold((operation & 16) != 0);
        if (!driver.Start(kFeatureVersion1 | kFeatureEventIdx | in.Byte(), ram, {16, 16}).ok()) break;
        driver.queue(0).Chain().Readable(in.Bytes(8)).Writable(8).Submit().IgnoreError();
        driver.Notify(0);
        break;
      default:
        loop.Run();
        if ((operation & 16) != 0) echo->ReleaseHeld();
        break;
    }
    // Two notifications, and an activation or a reset of each of few generations.
    Require(loop.pending() <= 2 + 2 * (i + 1));
  }
  loop.Run();
  Require(driver.Reset());
  Require(echo->activations == echo->resets);
  Require(driver.Start(kFeatureVersion1, ram, {16, 16}).ok());
}

}  // namespace
}  // namespace sluice::virtio

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const ram = [] {
    sluice::InitLogging("pci_fuzz", sluice::LogLevel::kError);
    return new sluice::memory::GuestMemory(*sluice::memory::GuestMemory::CreateSimple(sluice::virtio::kRamBytes));
  }();
  sluice::virtio::Run(*ram, sluice::virtio::testing::ByteSource(data, size));
  return 0;
}
