// File: virtio_pci.h
//
// A modern virtio device on PCI (virtio 1.2, 4.1) as its driver sees it: finds the register structures through the
// vendor capabilities, negotiates features, sets queues up, routes MSI-X.
//
//   VirtioPci device;
//   if (!device.Open(function)) ...
//   uint64_t features = device.Negotiate(wanted);                    // 0: refused
//   device.SetUpQueue(0, &queue, vector);
//   device.DriverOk();
//   device.Notify(0);
#ifndef SLUICE_FIRMWARE_DRIVERS_VIRTIO_PCI_H_
#define SLUICE_FIRMWARE_DRIVERS_VIRTIO_PCI_H_

#include <stdint.h>

#include "firmware/drivers/pci.h"
#include "firmware/drivers/virtqueue.h"

namespace sluice::firmware {

// device_status bits (2.1).
inline constexpr uint8_t kVirtioAcknowledge = 1;
inline constexpr uint8_t kVirtioDriver = 2;
inline constexpr uint8_t kVirtioDriverOk = 4;
inline constexpr uint8_t kVirtioFeaturesOk = 8;
inline constexpr uint8_t kVirtioNeedsReset = 64;
inline constexpr uint8_t kVirtioFailed = 128;

// Offsets in the common configuration structure (4.1.4.3).
inline constexpr uint64_t kCommonDeviceFeatureSelect = 0x00;
inline constexpr uint64_t kCommonDeviceFeature = 0x04;
inline constexpr uint64_t kCommonDriverFeatureSelect = 0x08;
inline constexpr uint64_t kCommonDriverFeature = 0x0c;
inline constexpr uint64_t kCommonConfigVector = 0x10;
inline constexpr uint64_t kCommonQueueCount = 0x12;
inline constexpr uint64_t kCommonStatus = 0x14;
inline constexpr uint64_t kCommonGeneration = 0x15;
inline constexpr uint64_t kCommonQueueSelect = 0x16;
inline constexpr uint64_t kCommonQueueSize = 0x18;
inline constexpr uint64_t kCommonQueueVector = 0x1a;
inline constexpr uint64_t kCommonQueueEnable = 0x1c;
inline constexpr uint64_t kCommonQueueNotifyOffset = 0x1e;
inline constexpr uint64_t kCommonQueueDescriptors = 0x20;
inline constexpr uint64_t kCommonQueueDriver = 0x28;
inline constexpr uint64_t kCommonQueueDevice = 0x30;
inline constexpr uint64_t kCommonBytes = 0x38;

// A shared-memory region (4.1.4.7): where in the address space it is. bytes == 0: the device has none of that id.
struct SharedRegion {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

class VirtioPci {
 public:
  // Finds the structures, turns memory decoding, bus mastering and MSI-X on, and resets the device. False: not a modern
  // virtio device, or it does not reset within `reset_timeout_ns`.
  bool Open(const PciFunction& function, uint64_t reset_timeout_ns = 1'000'000'000);

  // Offers the device what both `wanted` and it have, plus VERSION_1. Returns that set; 0 if the device refuses it.
  uint64_t Negotiate(uint64_t wanted);
  // Sets queue `index` up and enables it; the device signals `vector` for it (MSI-X table entry index + 1). The queue
  // must be no larger than MaxQueueSize. False: the device did not take it.
  bool SetUpQueue(uint16_t index, const Virtqueue& queue, uint8_t vector);
  uint16_t MaxQueueSize(uint16_t index) const;
  // Configuration changes signal `vector` (MSI-X table entry 0).
  void RouteConfig(uint8_t vector);
  void DriverOk();
  // Waits (up to the time given to Open) until the device says that it is reset.
  bool Reset();
  uint8_t status() const;

  void Notify(uint16_t queue) const;
  // Device-specific configuration; `offset` aligned.
  uint32_t ReadConfig32(uint16_t offset) const;
  void WriteConfig32(uint16_t offset, uint32_t value) const;
  SharedRegion FindSharedRegion(uint8_t id) const;

  // For programs that go around the driver (the hostile guest).
  uint64_t common_address() const { return common_; }
  uint64_t isr_address() const { return isr_; }
  uint64_t device_config_address() const { return config_; }
  uint64_t notify_address(uint16_t queue) const;
  const PciFunction& function() const { return function_; }

 private:
  PciFunction function_;
  Msix msix_;
  uint64_t common_ = 0, isr_ = 0, config_ = 0, notify_ = 0;
  uint32_t notify_multiplier_ = 0;
  uint64_t reset_timeout_ns_ = 0;
  static constexpr uint16_t kMaxQueues = 4;
  uint64_t notify_at_[kMaxQueues] = {};
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_VIRTIO_PCI_H_
