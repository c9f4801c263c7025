// File: spec.h
//
// Names and layouts of virtio 1.2 that driver and device share: status bits, feature bits, the split virtqueue
// (section 2.7) and the PCI transport (section 4.1.4). Freestanding: guests include it too. All fields are
// little-endian.
#ifndef SLUICE_VMM_VIRTIO_SPEC_H_
#define SLUICE_VMM_VIRTIO_SPEC_H_

#include <stdint.h>

namespace sluice::virtio {

// Section 2.1, device status.
inline constexpr uint8_t kStatusAcknowledge = 1;
inline constexpr uint8_t kStatusDriver = 2;
inline constexpr uint8_t kStatusDriverOk = 4;
inline constexpr uint8_t kStatusFeaturesOk = 8;
inline constexpr uint8_t kStatusNeedsReset = 64;
inline constexpr uint8_t kStatusFailed = 128;

// Section 6, feature bits of every device.
inline constexpr uint64_t kFeatureIndirectDescriptors = uint64_t{1} << 28;
inline constexpr uint64_t kFeatureEventIdx = uint64_t{1} << 29;
inline constexpr uint64_t kFeatureVersion1 = uint64_t{1} << 32;

// Section 5, device ids. The PCI device id is 0x1040 + this.
inline constexpr uint16_t kDeviceIdBlock = 2;
inline constexpr uint16_t kDeviceIdEntropy = 4;
inline constexpr uint16_t kDeviceIdGpu = 16;
inline constexpr uint16_t kPciVendorId = 0x1af4;
inline constexpr uint16_t kPciDeviceIdBase = 0x1040;

// Section 2.7.5, the descriptor table.
struct VirtqDesc {
  uint64_t address;
  uint32_t size;
  uint16_t flags;
  uint16_t next;
};
static_assert(sizeof(VirtqDesc) == 16);
inline constexpr uint16_t kDescNext = 1;
inline constexpr uint16_t kDescWrite = 2;
inline constexpr uint16_t kDescIndirect = 4;

// Section 2.7.8, one element of the used ring.
struct VirtqUsedElem {
  uint32_t id;
  uint32_t size;
};
static_assert(sizeof(VirtqUsedElem) == 8);

// Sections 2.7.6 and 2.7.8: `uint16_t flags, idx, ring[size], used_event` and
// `uint16_t flags, idx, VirtqUsedElem ring[size], uint16_t avail_event`.
inline constexpr uint16_t kAvailNoInterrupt = 1;
inline constexpr uint16_t kUsedNoNotify = 1;
inline constexpr uint32_t kRingFlags = 0;
inline constexpr uint32_t kRingIdx = 2;
inline constexpr uint32_t kRingEntries = 4;
constexpr uint64_t DescriptorTableBytes(uint16_t size) {
  return uint64_t{size} * sizeof(VirtqDesc);
}
constexpr uint64_t AvailRingBytes(uint16_t size) {
  return kRingEntries + uint64_t{size} * 2 + 2;
}
constexpr uint64_t UsedRingBytes(uint16_t size) {
  return kRingEntries + uint64_t{size} * sizeof(VirtqUsedElem) + 2;
}
constexpr uint64_t UsedEventOffset(uint16_t size) {
  return kRingEntries + uint64_t{size} * 2;
}
constexpr uint64_t AvailEventOffset(uint16_t size) {
  return kRingEntries + uint64_t{size} * sizeof(VirtqUsedElem);
}
inline constexpr uint16_t kMaxQueueSize = 32768;

// Section 2.7.10: `event` is the index after whose passing the other side wants to hear; the index went from `from` to
// `to`.
constexpr bool NeedsEvent(uint16_t event, uint16_t to, uint16_t from) {
  return static_cast<uint16_t>(to - event - 1) < static_cast<uint16_t>(to - from);
}

// Section 4.1.4, capability types.
inline constexpr uint8_t kCapCommon = 1;
inline constexpr uint8_t kCapNotify = 2;
inline constexpr uint8_t kCapIsr = 3;
inline constexpr uint8_t kCapDevice = 4;
inline constexpr uint8_t kCapPciAccess = 5;
inline constexpr uint8_t kCapSharedMemory = 8;

// struct virtio_pci_cap (section 4.1.4): offsets from the start of the capability; id and link are bytes 0 and 1.
inline constexpr uint8_t kPciCapLength = 2;
inline constexpr uint8_t kPciCapType = 3;
inline constexpr uint8_t kPciCapBar = 4;
inline constexpr uint8_t kPciCapId = 5;
inline constexpr uint8_t kPciCapOffset = 8;
inline constexpr uint8_t kPciCapSize = 12;
inline constexpr uint8_t kPciCapBytes = 16;
inline constexpr uint8_t kPciCapNotifyMultiplier = 16;  // kCapNotify: uint32_t
inline constexpr uint8_t kPciCapNotifyBytes = 20;
inline constexpr uint8_t kPciCapAccessData = 16;  // kCapPciAccess: 4 bytes, a window on (bar, offset, size)
inline constexpr uint8_t kPciCapAccessBytes = 20;
inline constexpr uint8_t kPciCapOffsetHigh = 16;  // kCapSharedMemory
inline constexpr uint8_t kPciCapSizeHigh = 20;
inline constexpr uint8_t kPciCap64Bytes = 24;

// Section 4.1.4.3, struct virtio_pci_common_cfg.
inline constexpr uint32_t kCommonDeviceFeatureSelect = 0x00;  // u32
inline constexpr uint32_t kCommonDeviceFeature = 0x04;        // u32, read-only
inline constexpr uint32_t kCommonDriverFeatureSelect = 0x08;  // u32
inline constexpr uint32_t kCommonDriverFeature = 0x0c;        // u32
inline constexpr uint32_t kCommonConfigMsixVector = 0x10;     // u16
inline constexpr uint32_t kCommonNumQueues = 0x12;            // u16, read-only
inline constexpr uint32_t kCommonDeviceStatus = 0x14;         // u8
inline constexpr uint32_t kCommonConfigGeneration = 0x15;     // u8, read-only
inline constexpr uint32_t kCommonQueueSelect = 0x16;          // u16
inline constexpr uint32_t kCommonQueueSize = 0x18;            // u16
inline constexpr uint32_t kCommonQueueMsixVector = 0x1a;      // u16
inline constexpr uint32_t kCommonQueueEnable = 0x1c;          // u16
inline constexpr uint32_t kCommonQueueNotifyOff = 0x1e;       // u16, read-only
inline constexpr uint32_t kCommonQueueDesc = 0x20;            // u64
inline constexpr uint32_t kCommonQueueDriver = 0x28;          // u64
inline constexpr uint32_t kCommonQueueDevice = 0x30;          // u64
inline constexpr uint32_t kCommonBytes = 0x38;
inline constexpr uint16_t kNoVector = 0xffff;

// Section 4.1.4.5, ISR status.
inline constexpr uint8_t kIsrQueue = 1;
inline constexpr uint8_t kIsrConfig = 2;

}  // namespace sluice::virtio

#endif  // SLUICE_VMM_VIRTIO_SPEC_H_
