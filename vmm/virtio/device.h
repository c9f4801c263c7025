// File: device.h
//
// What a virtio device model implements, and what it gets to work with. The transport (pci_transport.h) owns the device
// and does everything that all devices have in common: status, features, queues' registers, interrupts.
//
//   class Echo : public Device {
//     uint16_t device_id() const override { return 42; }
//     absl::Span<const uint16_t> queue_max_sizes() const override { return kSizes; }
//     absl::Status Activate(Activation activation) override { activation_ = std::move(activation); return
//     absl::OkStatus(); } void QueueNotified(uint16_t index) override { ... activation_->queues[index]->Drain(...) ...
//     } void Reset() override { activation_.reset(); }
//   };
//
// Threads. The description (device_id .. shared_memory_regions) is constant. ReadConfig and WriteConfig come on vCPU
// threads, several at once: the device's own lock covers what they touch. Activate, QueueNotified and Reset come on the
// loop thread, never two at a time; QueueNotified only between Activate and Reset. Queues and chains belong to the loop
// thread.
#ifndef SLUICE_VMM_VIRTIO_DEVICE_H_
#define SLUICE_VMM_VIRTIO_DEVICE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/queue.h"
#include "vmm/virtio/spec.h"

namespace sluice::virtio {

// How a device reaches its driver. Implemented by the transport; any thread; lives as long as the device.
class Interrupt {
 public:
  virtual ~Interrupt() = default;
  // Used buffers of queue `index` wait: ask Queue::NeedsInterrupt first.
  virtual void SignalQueue(uint16_t index) = 0;
  // Configuration changed, step 1: call it after the change with the lock still held that ReadConfig takes, so that a
  // driver that saw half of the change also sees a new generation.
  virtual void BumpConfigGeneration() = 0;
  // Step 2: tells the driver. No lock needed.
  virtual void SignalConfig() = 0;
  // The driver broke something that only a reset repairs (section 2.1.2): sets NEEDS_RESET and tells it, once.
  virtual void SetNeedsReset() = 0;
};

// A range of the guest's address space that the device fills with memory of its choice (section 2.10).
struct SharedMemoryRegion {
  uint8_t id = 0;
  uint64_t size = 0;  // bytes, a multiple of 4096
};

// What a device gets when the driver sets DRIVER_OK.
struct Activation {
  memory::GuestMemory memory;
  uint64_t features = 0;  // negotiated, the transport's bits included
  // By queue index; nullopt: the driver did not enable it.
  std::vector<std::optional<Queue>> queues;
  Interrupt* interrupt = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  // Section 5: kDeviceIdGpu, ...
  virtual uint16_t device_id() const = 0;
  // The 24-bit PCI class code: base class, subclass, programming interface.
  virtual uint32_t pci_class() const = 0;
  // Device-specific features on offer (bits 0..23). The transport adds VERSION_1, INDIRECT_DESC and EVENT_IDX.
  virtual uint64_t features() const { return 0; }
  // One size per queue, each a power of two. Lives as long as the device.
  virtual absl::Span<const uint16_t> queue_max_sizes() const = 0;
  // Their order and sizes are fixed; together at most one BAR.
  virtual std::vector<SharedMemoryRegion> shared_memory_regions() const { return {}; }

  // The device-specific configuration space. Any offset and size (up to 8 bytes): what lies outside reads as zero and
  // swallows writes. Fill all of `to`. vCPU threads.
  virtual void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) = 0;
  virtual void WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) {}

  // The driver is ready. An error sets NEEDS_RESET. The transport calls QueueNotified for each enabled queue right
  // after, since notifications may have come early. Loop thread.
  virtual absl::Status Activate(Activation activation) = 0;
  // There may be chains in queue `index`, which is enabled. Loop thread.
  virtual void QueueNotified(uint16_t index) = 0;
  // Back to the state before Activate: drop the queues; touch no guest RAM and complete no chain afterwards (chains
  // still held may be dropped whenever convenient). Also called when Activate failed. Loop thread; must not wait for
  // anything.
  virtual void Reset() = 0;
};

}  // namespace sluice::virtio

#endif  // SLUICE_VMM_VIRTIO_DEVICE_H_
