// File: pci_transport.h
//
// Virtio over PCI, modern only (virtio 1.2 section 4.1): a PciDevice around a virtio Device.
//
//   SLUICE_ASSIGN_OR_RETURN(auto gpu, PciTransport::Create(std::move(device), {.name = "gpu-front", .memory = ram,
//       .notifier = &notifier, .post = [&](std::function<void()> f) { asio::post(loop, std::move(f)); }}));
//   SLUICE_RETURN_IF_ERROR(bus.Add(1, gpu.get()));
//   // per queue: ioeventfd at BAR kRegisterBar + NotifyOffset(q); when its eventfd is readable, on the loop thread:
//   gpu->NotifyFromLoop(q);
//
// BAR 0 (32-bit, 16 KiB): common configuration 0x0000, ISR 0x1000, device configuration 0x2000, notify 0x3000 + 4 *
// queue. BAR 2 (32-bit, 4 KiB): MSI-X table, pending bits at 0x800; vectors = queues + 1. BAR 4 (64-bit prefetchable),
// if the device has shared-memory regions: they follow each other in it.
//
// Threads and locks
//  * Register side (BarRead, BarWrite, configuration space): any vCPU thread. `mu_` covers every register: status,
//  features,
//    queue registers, vectors. It is held for register work alone; the Device is never called with it held.
//  * Queue side (Activate, QueueNotified, Reset): the loop thread. `active_` and the device's queues are its alone; no
//  lock.
//  * DRIVER_OK: the vCPU snapshots the queue registers under `mu_` and posts the activation. Reset: if the device was
//  not
//    activated, at once. Else the vCPU starts a new generation, posts the reset and goes on; device_status reads as
//    before, and all other register writes are ignored, until the loop thread has called Device::Reset and cleared the
//    registers (section 4.1.4.3.1 has the driver wait for 0). An activation or notification of an older generation is
//    dropped.
//  * Chains that the device still holds then name a queue that is gone: Queue::Complete refuses them
//  (descriptor_chain.h).
//  * ISR status and configuration generation are atomics; MSI-X has its own lock (msix.h), taken last.
//  * Destroy the transport on the loop thread, or when the loop has ended, after the vCPU threads: tasks already posted
//  check that
//    it is still there.
#ifndef SLUICE_VMM_VIRTIO_PCI_TRANSPORT_H_
#define SLUICE_VMM_VIRTIO_PCI_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/base/mutex.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/pci/device.h"
#include "vmm/virtio/device.h"
#include "vmm/virtio/spec.h"

namespace sluice::virtio {

inline constexpr uint8_t kRegisterBar = 0;
inline constexpr uint8_t kMsixBar = 2;
inline constexpr uint8_t kSharedMemoryBar = 4;
inline constexpr uint64_t kRegisterBarBytes = 0x4000;
inline constexpr uint32_t kCommonOffset = 0x0000;
inline constexpr uint32_t kIsrOffset = 0x1000;
inline constexpr uint32_t kDeviceConfigOffset = 0x2000;
inline constexpr uint32_t kDeviceConfigBytes = 0x1000;
inline constexpr uint32_t kNotifyOffset = 0x3000;
inline constexpr uint32_t kNotifyMultiplier = 4;
inline constexpr uint64_t kMsixBarBytes = 0x1000;
inline constexpr uint32_t kMsixPbaOffset = 0x800;
inline constexpr uint16_t kMaxQueues = 64;

class PciTransport final : public pci::PciDevice, private Interrupt {
 public:
  struct Options {
    std::string name;                       // for logs and PciDevice::name
    memory::GuestMemory memory;             // where queues live
    pci::MsixNotifier* notifier = nullptr;  // outlives the transport
    // Runs a task on the loop thread, later, in order. Any thread calls it.
    std::function<void(std::function<void()>)> post;
  };
  // INVALID_ARGUMENT: no queue or more than kMaxQueues, a queue size that is no power of two, unaligned regions.
  static absl::StatusOr<std::unique_ptr<PciTransport>> Create(std::unique_ptr<Device> device, Options options);
  ~PciTransport() override;

  // --- For the machine ---

  uint16_t queue_count() const { return queue_count_; }
  // Offset in BAR kRegisterBar where the driver notifies queue `queue`: a 2-byte write of the queue's index, or any
  // other size.
  static constexpr uint64_t NotifyOffset(uint16_t queue) { return kNotifyOffset + uint64_t{queue} * kNotifyMultiplier; }
  // Where region `id` lies in BAR kSharedMemoryBar: offset and size, bytes.
  struct RegionPlace {
    uint64_t offset;
    uint64_t size;
  };
  std::optional<RegionPlace> SharedMemory(uint8_t id) const;
  // A notification of `queue`: from any thread (posted to the loop; at most one of each queue is on its way), or, on
  // the loop thread, at once. Queues that do not exist or are not enabled: nothing happens.
  void Notify(uint16_t queue);
  void NotifyFromLoop(uint16_t queue);
  // Notifications handled since creation.
  uint64_t notifies() const { return notifies_.load(std::memory_order_relaxed); }

  Device& device() { return *device_; }
  // As the driver would read it. Any thread.
  uint8_t device_status() const;

  // --- PciDevice ---

  void BarRead(uint8_t bar, uint64_t offset, absl::Span<uint8_t> to) override;
  void BarWrite(uint8_t bar, uint64_t offset, absl::Span<const uint8_t> from) override;

 private:
  struct QueueRegisters {
    uint16_t size = 0;
    uint16_t vector = kNoVector;
    bool enabled = false;
    uint64_t descriptors = 0;
    uint64_t driver_area = 0;
    uint64_t device_area = 0;
  };

  PciTransport(std::unique_ptr<Device> device, Options options);
  absl::Status SetUp();
  // Returns its offset. `tail`: the dwords after struct virtio_pci_cap.
  absl::StatusOr<uint8_t> AddVirtioCapability(uint8_t type, uint8_t bar, uint8_t id, uint32_t offset, uint32_t size,
                                              absl::Span<const uint32_t> tail = {});
  absl::Status AddSharedMemory();

  void ReadCommon(uint64_t offset, absl::Span<uint8_t> to);
  void WriteCommon(uint64_t offset, absl::Span<const uint8_t> from);
  void WriteStatus(uint8_t value);
  void WriteQueueRegister(uint32_t offset, size_t size, uint64_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ClearRegisters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PostActivation(uint64_t generation, uint64_t features, std::vector<QueueRegisters> queues);
  void PostReset(uint64_t generation);

  // Loop thread.
  void ActivateOnLoop(uint64_t generation, uint64_t features, const std::vector<QueueRegisters>& queues);
  void ResetOnLoop(uint64_t generation);

  // Interrupt.
  void SignalQueue(uint16_t index) override;
  void BumpConfigGeneration() override;
  void SignalConfig() override;
  void SetNeedsReset() override;

  // PciDevice: the window of the PCI configuration access capability (section 4.1.4.9).
  void OnConfigRead(uint16_t offset, size_t size) override;
  void OnConfigWritten(uint16_t offset, size_t size) override;
  struct AccessWindow {
    uint8_t bar;
    uint32_t offset;
    uint32_t size;
  };
  std::optional<AccessWindow> ReadAccessWindow() const;

  const std::unique_ptr<Device> device_;
  const Options options_;
  const uint64_t offered_features_;
  const uint16_t queue_count_;
  uint8_t access_capability_ = 0;            // offset of the PCI configuration access capability
  std::vector<SharedMemoryRegion> regions_;  // fixed after set-up, in BAR order

  mutable Mutex mu_;
  uint8_t status_ ABSL_GUARDED_BY(mu_) = 0;
  bool activated_ ABSL_GUARDED_BY(mu_) = false;  // an activation was posted: a reset must go through the loop
  bool resetting_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 1;  // counts resets
  uint32_t device_feature_select_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t driver_feature_select_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t driver_features_ ABSL_GUARDED_BY(mu_) = 0;
  uint16_t config_vector_ ABSL_GUARDED_BY(mu_) = kNoVector;
  uint16_t queue_select_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<QueueRegisters> queues_ ABSL_GUARDED_BY(mu_);

  std::atomic<uint8_t> isr_{0};
  std::atomic<uint8_t> config_generation_{0};
  std::atomic<uint64_t> notifies_{0};
  std::vector<std::atomic<bool>> notify_posted_;  // per queue: a posted notification is on its way

  // Loop thread only.
  bool active_ = false;
  std::vector<bool> active_queues_;
  std::shared_ptr<PciTransport*> self_;  // posted tasks hold it weakly
};

}  // namespace sluice::virtio

#endif  // SLUICE_VMM_VIRTIO_PCI_TRANSPORT_H_
