// File: config_space.h
//
// The 4096 bytes of one function's configuration space with a write mask for each: what a guest may read it reads, what
// it may not write stays. Knows nothing about what the registers mean; device.h does.
//
//   ConfigSpace config;
//   config.Set16(kRegVendorId, 0x1af4);                       // read-only
//   config.SetWritable16(kRegCommand, kCommandMemory);        // this bit the guest may change
//   uint8_t at = *config.AddCapability(kCapabilityVendor, body);
#ifndef SLUICE_VMM_PCI_CONFIG_SPACE_H_
#define SLUICE_VMM_PCI_CONFIG_SPACE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/pci/registers.h"

namespace sluice::pci {

// Little-endian, as PCI is. Offsets are below kExtendedConfigSpaceBytes and accesses of the typed accessors are in
// range: they are the device model's, not the guest's. Not synchronised: PciDevice's lock covers it.
class ConfigSpace {
 public:
  uint8_t Get8(uint16_t offset) const { return bytes_[offset]; }
  uint16_t Get16(uint16_t offset) const;
  uint32_t Get32(uint16_t offset) const;
  void Set8(uint16_t offset, uint8_t value) { bytes_[offset] = value; }
  void Set16(uint16_t offset, uint16_t value);
  void Set32(uint16_t offset, uint32_t value);
  // Bits that the guest may change from now on (the others of that register it may not).
  void SetWritable8(uint16_t offset, uint8_t mask) { masks_[offset] = mask; }
  void SetWritable16(uint16_t offset, uint16_t mask);
  void SetWritable32(uint16_t offset, uint32_t mask);

  // Appends a capability to the list in the first 256 bytes: `id`, the link, then `body`. Returns its offset (a
  // multiple of 4). Not writable until SetWritable. Error: RESOURCE_EXHAUSTED when it does not fit.
  absl::StatusOr<uint8_t> AddCapability(uint8_t id, absl::Span<const uint8_t> body);

  // The guest's accesses. Bytes past the end read as 0xff and swallow writes.
  void Read(uint16_t offset, absl::Span<uint8_t> to) const;
  void Write(uint16_t offset, absl::Span<const uint8_t> from);

 private:
  std::array<uint8_t, kExtendedConfigSpaceBytes> bytes_ = {};
  std::array<uint8_t, kExtendedConfigSpaceBytes> masks_ = {};
  uint16_t next_capability_ = kFirstCapability;
  uint16_t last_link_ = kRegCapabilities;  // where the next capability's offset is to be written
};

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_CONFIG_SPACE_H_
