// File: pci.h
//
// PCI functions of bus 0 through the memory-mapped configuration space (ECAM), with what a driver needs of them:
// capabilities, base addresses, MSI-X.
//
//   PciFunction gpu;
//   if (!FindPciFunction(0x1af4, 0x1050, &gpu)) ...
//   gpu.EnableMemoryAndBusMaster();
//   uint64_t registers = gpu.GetBar(0).address;
//
// PCI Local Bus 3.0 and PCI Express Base specifications; addresses were assigned by the VMM (docs/architecture.md).
#ifndef SLUICE_FIRMWARE_DRIVERS_PCI_H_
#define SLUICE_FIRMWARE_DRIVERS_PCI_H_

#include <stdint.h>

namespace sluice::firmware {

inline constexpr uint64_t kEcamBase = 0xe0000000;

inline constexpr uint8_t kPciCapMsix = 0x11;
inline constexpr uint8_t kPciCapVendor = 0x09;

struct PciBar {
  uint64_t address = 0;  // 0: none, or not assigned
  bool io = false;
  bool wide = false;  // 64-bit: the next BAR is its upper half
  bool prefetchable = false;
};

// A value: copies name the same function.
class PciFunction {
 public:
  PciFunction() = default;
  explicit PciFunction(uint8_t device, uint8_t function = 0)
      : base_(kEcamBase + (uint64_t{device} << 15) + (uint64_t{function} << 12)) {}

  // `offset` 0..4095, naturally aligned.
  uint8_t Read8(uint16_t offset) const;
  uint16_t Read16(uint16_t offset) const;
  uint32_t Read32(uint16_t offset) const;
  void Write8(uint16_t offset, uint8_t value) const;
  void Write16(uint16_t offset, uint16_t value) const;
  void Write32(uint16_t offset, uint32_t value) const;

  bool Present() const { return Read16(0) != 0xffff; }
  uint16_t vendor() const { return Read16(0); }
  uint16_t device() const { return Read16(2); }

  // Offset of the first capability `id` behind `after` (0: the first of all); 0 if there is none. Ends on a looping
  // list.
  uint8_t FindCapability(uint8_t id, uint8_t after = 0) const;
  // `index` 0..5.
  PciBar GetBar(uint8_t index) const;
  // Sizes a memory BAR by the all-ones write; decoding is off meanwhile. 0 if it is not there.
  uint64_t BarSize(uint8_t index) const;
  void EnableMemoryAndBusMaster() const;

 private:
  uint64_t base_ = 0;
};

// The first function 0 with these ids on bus 0.
bool FindPciFunction(uint16_t vendor, uint16_t device, PciFunction* found);

// MSI-X of one function.
class Msix {
 public:
  // Finds the table, masks nothing, turns MSI-X on. False: the function has none.
  bool Enable(const PciFunction& function);
  uint16_t entries() const { return entries_; }
  // Table entry `entry` (below entries()) sends `vector` to the boot processor.
  void Route(uint16_t entry, uint8_t vector) const;

 private:
  uint64_t table_ = 0;
  uint16_t entries_ = 0;
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_PCI_H_
