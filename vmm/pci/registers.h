// File: registers.h
//
// Names for PCI configuration space: offsets and bits of a type 0 header (PCI Local Bus 3.0 section 6), of the MSI-X
// capability (section 6.8.2) and of configuration mechanism #1 (section 3.2.2.3.2). Freestanding: guests include it
// too.
#ifndef SLUICE_VMM_PCI_REGISTERS_H_
#define SLUICE_VMM_PCI_REGISTERS_H_

#include <stdint.h>

namespace sluice::pci {

// Offsets in configuration space.
inline constexpr uint16_t kRegVendorId = 0x00;
inline constexpr uint16_t kRegDeviceId = 0x02;
inline constexpr uint16_t kRegCommand = 0x04;
inline constexpr uint16_t kRegStatus = 0x06;
inline constexpr uint16_t kRegRevision = 0x08;
inline constexpr uint16_t kRegClass = 0x09;  // programming interface, subclass, base class: 3 bytes
inline constexpr uint16_t kRegCacheLineSize = 0x0c;
inline constexpr uint16_t kRegHeaderType = 0x0e;
inline constexpr uint16_t kRegBar0 = 0x10;  // six of 4 bytes each
inline constexpr uint16_t kRegSubsystemVendorId = 0x2c;
inline constexpr uint16_t kRegSubsystemId = 0x2e;
inline constexpr uint16_t kRegCapabilities = 0x34;
inline constexpr uint16_t kRegInterruptLine = 0x3c;
inline constexpr uint16_t kRegInterruptPin = 0x3d;
inline constexpr uint16_t kFirstCapability = 0x40;

inline constexpr uint16_t kConfigSpaceBytes = 256;           // what CF8/CFC reaches
inline constexpr uint16_t kExtendedConfigSpaceBytes = 4096;  // what ECAM reaches
inline constexpr uint8_t kBarCount = 6;

// COMMAND and STATUS bits.
inline constexpr uint16_t kCommandIo = 1 << 0;
inline constexpr uint16_t kCommandMemory = 1 << 1;
inline constexpr uint16_t kCommandBusMaster = 1 << 2;
inline constexpr uint16_t kCommandParity = 1 << 6;
inline constexpr uint16_t kCommandSerr = 1 << 8;
inline constexpr uint16_t kCommandIntxDisable = 1 << 10;
inline constexpr uint16_t kStatusCapabilities = 1 << 4;

// Low bits of a memory BAR.
inline constexpr uint32_t kBarMemory64 = 0x4;
inline constexpr uint32_t kBarPrefetchable = 0x8;
inline constexpr uint32_t kBarFlagMask = 0xf;

// Capability ids.
inline constexpr uint8_t kCapabilityVendor = 0x09;
inline constexpr uint8_t kCapabilityMsix = 0x11;

// MSI-X capability, offsets from its start. The vector count is (control & kMsixSizeMask) + 1.
inline constexpr uint8_t kMsixControl = 2;
inline constexpr uint8_t kMsixTableOffset = 4;  // offset, with the BAR index in bits 0..2
inline constexpr uint8_t kMsixPbaOffset = 8;
inline constexpr uint8_t kMsixCapabilityBytes = 12;
inline constexpr uint16_t kMsixSizeMask = 0x7ff;
inline constexpr uint16_t kMsixFunctionMask = 1 << 14;
inline constexpr uint16_t kMsixEnable = 1 << 15;

// One entry of the MSI-X table.
inline constexpr uint16_t kMsixEntryBytes = 16;
inline constexpr uint8_t kMsixEntryAddress = 0;
inline constexpr uint8_t kMsixEntryAddressHigh = 4;
inline constexpr uint8_t kMsixEntryData = 8;
inline constexpr uint8_t kMsixEntryControl = 12;
inline constexpr uint32_t kMsixEntryMasked = 1;

// Configuration mechanism #1.
inline constexpr uint16_t kConfigAddressPort = 0xcf8;
inline constexpr uint16_t kConfigDataPort = 0xcfc;
inline constexpr uint32_t kConfigEnable = 1u << 31;

// CONFIG_ADDRESS for (bus, device, function, offset); the data port's low two bits choose the byte.
constexpr uint32_t ConfigAddress(uint8_t bus, uint8_t device, uint8_t function, uint8_t offset) {
  return kConfigEnable | (uint32_t{bus} << 16) | (uint32_t{device} << 11) | (uint32_t{function} << 8) |
         (offset & 0xfcu);
}
// Offset in the ECAM window of (bus 0, device, function, offset).
constexpr uint32_t EcamOffset(uint8_t device, uint8_t function, uint16_t offset) {
  return (uint32_t{device} << 15) | (uint32_t{function} << 12) | (offset & 0xfffu);
}

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_REGISTERS_H_
