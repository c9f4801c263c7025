// File: address_map.h
//
// Where things are in a machine's address spaces: the table of docs/architecture.md as constants. Everything that the
// guest may rely on is here; boot data inside the first 64 KiB is in vmm/boot/start_info.h.
#ifndef SLUICE_VMM_MACHINE_ADDRESS_MAP_H_
#define SLUICE_VMM_MACHINE_ADDRESS_MAP_H_

#include <cstddef>
#include <cstdint>

#include "vmm/memory/address.h"
#include "vmm/pci/bus.h"
#include "vmm/pci/registers.h"

namespace sluice::machine {

using memory::GuestAddress;
using memory::kGiB;
using memory::kMiB;

// --- guest-physical memory ---

inline constexpr GuestAddress kRamStart{0};
// RAM lies below the hole for devices; a machine with an operating system may have more, from 4 GiB on.
inline constexpr uint64_t kMinRamMib = 2;
inline constexpr uint64_t kMaxLowRamMib = 3 * 1024;
inline constexpr uint64_t kMaxRamMib = kMaxLowRamMib;  // of a firmware image's machine
inline constexpr uint64_t kMaxKernelRamMib = 128 * 1024;
inline constexpr GuestAddress kHighRamStart{4 * kGiB};
inline constexpr GuestAddress kDeviceHoleStart{0xe000'0000};
inline constexpr GuestAddress kEcamStart{0xe000'0000};
inline constexpr uint64_t kEcamBytes = pci::kEcamBytes;
inline constexpr GuestAddress kBar32Start{0xe100'0000};
inline constexpr uint64_t kBar32Bytes = 0x0f00'0000;
inline constexpr GuestAddress kIoapic{0xfec0'0000};
inline constexpr GuestAddress kLocalApic{0xfee0'0000};
// Four unused pages that Intel processors want to have (KVM_SET_IDENTITY_MAP_ADDR, KVM_SET_TSS_ADDR).
inline constexpr GuestAddress kIdentityMap{0xfeff'c000};
inline constexpr GuestAddress kTssPages{0xfeff'd000};
// 64-bit prefetchable BARs: gpu-front's host-visible window is the first.
inline constexpr GuestAddress kBar64Start{0x40'0000'0000};
inline constexpr uint64_t kBar64Bytes = 4 * kGiB;
inline constexpr uint64_t kDefaultWindowBytes = 256 * kMiB;
inline constexpr uint64_t kMaxWindowBytes = 2 * kGiB;

// --- I/O ports ---

inline constexpr uint16_t kSerialPort = 0x3f8;
inline constexpr uint16_t kSerialPorts = 8;
inline constexpr uint32_t kSerialIrq = 4;
inline constexpr uint16_t kPciConfigPort = pci::kConfigAddressPort;
inline constexpr uint16_t kPciConfigPorts = 8;
// A write of one byte ends the machine with that exit code.
inline constexpr uint16_t kDebugExitPort = 0xf4;
// A write of 4 bytes leaves a mark; the first one is the time stamp of the first guest instruction.
inline constexpr uint16_t kMarkerPort = 0xe1;

// ACPI sleep control, sleep status and reset, a byte each (platform.h).
inline constexpr uint16_t kPowerPorts = 0x600;
inline constexpr uint16_t kPowerPortCount = 3;
// pvpanic.
inline constexpr uint16_t kPanicPort = 0x505;

// --- PCI slots on bus 0 ---

inline constexpr uint8_t kHostBridgeSlot = 0;
inline constexpr uint8_t kGpuSlot = 1;
// Devices of MachineOptions::devices, in their order.
inline constexpr uint8_t kFirstDeviceSlot = 2;
inline constexpr size_t kMaxDevices = pci::kSlotCount - kFirstDeviceSlot;

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_ADDRESS_MAP_H_
