// File: bus.h
//
// PCI bus 0: 32 slots, function 0 of each. Reached by configuration mechanism #1 (ports 0xcf8 .. 0xcff), by ECAM (PCI
// Express section 7.2.2) and, for BARs, by address. A guest may access anything at any time: what is not there reads as
// all-ones and swallows writes, as on hardware.
//
//   PciBus bus({.ecam = GuestAddress(0xe000'0000), .windows = {window32, window64}});
//   SLUICE_RETURN_IF_ERROR(bus.Add(0, &host_bridge));
//   SLUICE_RETURN_IF_ERROR(bus.Add(1, &gpu));
//   SLUICE_RETURN_IF_ERROR(bus.AssignBars());
//   if (!bus.MmioRead(address, bytes)) ...  // nobody there: bytes are 0xff
#ifndef SLUICE_VMM_PCI_BUS_H_
#define SLUICE_VMM_PCI_BUS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "vmm/base/mutex.h"
#include "vmm/memory/address.h"
#include "vmm/pci/device.h"

namespace sluice::pci {

inline constexpr uint8_t kSlotCount = 32;
// Bus 0's share of the ECAM window, bytes.
inline constexpr uint64_t kEcamBytes = uint64_t{1} << 20;

// Thread-safe after set-up. The only state of its own is CONFIG_ADDRESS (`mu_`, never held while a device is called).
class PciBus {
 public:
  struct Options {
    memory::GuestAddress ecam;
    // Where BARs may be; the ones below 4 GiB serve 32-bit BARs, those above 64-bit ones. AssignBars fills them in
    // order.
    std::vector<memory::GuestRange> windows;
  };
  explicit PciBus(Options options) : options_(std::move(options)) {}
  PciBus(const PciBus&) = delete;
  PciBus& operator=(const PciBus&) = delete;

  // Set-up. `device` is not owned and outlives the bus. Errors: slot out of range or taken.
  absl::Status Add(uint8_t slot, PciDevice* device);
  // Set-up. Gives every BAR of every device an address, naturally aligned, in slot and index order, and turns decoding
  // on. Error: RESOURCE_EXHAUSTED, naming device and BAR that do not fit.
  absl::Status AssignBars();

  // A guest's access to [address, address + size), 1 .. 8 bytes. True if ECAM or a BAR claimed it; else `to` is
  // all-ones.
  bool MmioRead(memory::GuestAddress address, absl::Span<uint8_t> to);
  bool MmioWrite(memory::GuestAddress address, absl::Span<const uint8_t> from);

  // A guest's access to ports 0xcf8 .. 0xcff. Others are not claimed (false; all-ones).
  bool IoRead(uint16_t port, absl::Span<uint8_t> to);
  bool IoWrite(uint16_t port, absl::Span<const uint8_t> from);
  // True for the ports that IoRead and IoWrite claim.
  static constexpr bool ClaimsPort(uint16_t port) {
    return port >= kConfigAddressPort && port < kConfigAddressPort + 8;
  }

  // nullptr for an empty slot.
  PciDevice* device(uint8_t slot) const { return slot < kSlotCount ? devices_[slot] : nullptr; }

 private:
  void ConfigRead(uint32_t bdf, uint32_t offset, absl::Span<uint8_t> to);
  void ConfigWrite(uint32_t bdf, uint32_t offset, absl::Span<const uint8_t> from);

  const Options options_;
  std::array<PciDevice*, kSlotCount> devices_ = {};  // fixed after set-up
  Mutex mu_;
  uint32_t config_address_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_BUS_H_
