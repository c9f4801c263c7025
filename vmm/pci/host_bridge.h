// File: host_bridge.h
//
// The host bridge at 00:00.0: an identity and nothing else, which is what operating systems look for before they
// believe that there is a PCI bus.
#ifndef SLUICE_VMM_PCI_HOST_BRIDGE_H_
#define SLUICE_VMM_PCI_HOST_BRIDGE_H_

#include "vmm/pci/device.h"

namespace sluice::pci {

class HostBridge : public PciDevice {
 public:
  HostBridge()
      : PciDevice("host-bridge", {.vendor_id = 0x1b36,
                                  .device_id = 0x0008,
                                  .class_code = 0x060000,
                                  .subsystem_vendor_id = 0x1af4,
                                  .subsystem_id = 0x1100}) {}
  // It has no BARs: never called.
  void BarRead(uint8_t, uint64_t, absl::Span<uint8_t> to) override {
    for (uint8_t& b : to) b = 0xff;
  }
  void BarWrite(uint8_t, uint64_t, absl::Span<const uint8_t>) override {}
};

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_HOST_BRIDGE_H_
