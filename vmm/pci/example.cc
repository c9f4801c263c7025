// A one-register PCI device, found and used the way a guest does it.
#include <cstdio>

#include "vmm/pci/bus.h"
#include "vmm/pci/host_bridge.h"

namespace {

using namespace sluice;
using memory::GuestAddress;
using memory::GuestRange;

class Counter : public pci::PciDevice {
 public:
  Counter() : PciDevice("counter", {.vendor_id = 0x1234, .device_id = 0x0001, .class_code = 0xff0000}) {
    AddBar({.index = 0, .kind = pci::BarKind::kMemory32, .size = 4096}).IgnoreError();
  }
  // Every read counts. A device with more than one vCPU's worth of state takes its own lock here.
  void BarRead(uint8_t, uint64_t, absl::Span<uint8_t> to) override {
    for (uint8_t& b : to) b = count_++;
  }
  void BarWrite(uint8_t, uint64_t, absl::Span<const uint8_t> from) override { count_ = from[0]; }

 private:
  uint8_t count_ = 0;
};

uint32_t Read32(pci::PciBus& bus, uint64_t address) {
  uint8_t b[4];
  bus.MmioRead(GuestAddress(address), absl::MakeSpan(b));
  return b[0] | (uint32_t{b[1]} << 8) | (uint32_t{b[2]} << 16) | (uint32_t{b[3]} << 24);
}

}  // namespace

int main() {
  constexpr uint64_t kEcam = 0xe0000000;
  pci::HostBridge bridge;
  Counter counter;
  pci::PciBus bus({.ecam = GuestAddress(kEcam), .windows = {*GuestRange::Create(GuestAddress(0xe1000000), 0x1000000)}});
  if (!bus.Add(0, &bridge).ok() || !bus.Add(3, &counter).ok() || !bus.AssignBars().ok()) return 1;

  for (uint8_t slot = 0; slot < pci::kSlotCount; ++slot) {
    const uint32_t id = Read32(bus, kEcam + pci::EcamOffset(slot, 0, pci::kRegVendorId));
    if (id != 0xffffffff) std::printf("00:%02x.0 %04x:%04x\n", slot, id & 0xffff, id >> 16);
  }
  const uint32_t bar = Read32(bus, kEcam + pci::EcamOffset(3, 0, pci::kRegBar0));
  const uint8_t start = 40;
  bus.MmioWrite(GuestAddress(bar), absl::MakeConstSpan(&start, 1));
  uint8_t value = 0;
  bus.MmioRead(GuestAddress(bar), absl::MakeSpan(&value, 1));
  bus.MmioRead(GuestAddress(bar), absl::MakeSpan(&value, 1));
  std::printf("the counter at %#x says %u\n", bar, value);
  return value == 41 ? 0 : 1;
}
