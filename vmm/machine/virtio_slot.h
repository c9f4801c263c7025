// File: virtio_slot.h
//
// One virtio-pci device of a machine with everything that makes it work under KVM: MSI-X vectors as irqfds, queue
// notifications as ioeventfds, a window of blobs where it has one. All of them follow BARs that the guest moves.
//
//   SLUICE_ASSIGN_OR_RETURN(auto slot, VirtioSlot::Create("disk", std::move(device), environment));
//   SLUICE_RETURN_IF_ERROR(bus.Add(2, slot->pci_device()));
//   SLUICE_RETURN_IF_ERROR(bus.AssignBars());
//   slot->Watch();
#ifndef SLUICE_VMM_MACHINE_VIRTIO_SLOT_H_
#define SLUICE_VMM_MACHINE_VIRTIO_SLOT_H_

#include <asio/io_context.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "flatbuf/stats.h"
#include "vmm/kvm/vm.h"
#include "vmm/machine/msi_notifier.h"
#include "vmm/machine/queue_notifier.h"
#include "vmm/machine/window.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/pci_transport.h"

namespace sluice::machine {

// Created and destroyed on the loop thread, destroyed after the vCPU threads have ended.
class VirtioSlot final : private pci::BarObserver {
 public:
  // All pointers outlive the slot.
  struct Environment {
    asio::io_context* loop;
    const kvm::Vm* vm;
    memory::GuestMemory memory;
    wire::VmStats* stats;
  };
  // `window`, if any, is where the shared-memory region `window_id` of the device is; it outlives the slot. Errors:
  // what the transport or the host said, with the name.
  static absl::StatusOr<std::unique_ptr<VirtioSlot>> Create(std::string name, std::unique_ptr<virtio::Device> device,
                                                            const Environment& environment, KvmWindow* window = nullptr,
                                                            uint8_t window_id = 0);
  ~VirtioSlot() override;

  pci::PciDevice* pci_device() const { return transport_.get(); }
  virtio::PciTransport& transport() const { return *transport_; }
  // Follows the BARs from now on. Once they are assigned, on the loop thread, before the guest runs.
  void Watch();
  // Resets the device as its driver would; what the device itself must do for it is posted to the loop. Loop thread.
  void Reset();
  // Lets the device look at every queue, as if the guest had notified each. Loop thread.
  void NotifyAll();

 private:
  VirtioSlot(KvmWindow* window, uint8_t window_id) : window_(window), window_id_(window_id) {}

  // pci::BarObserver: vCPU threads, or the loop thread in Watch().
  void BarMapped(const pci::PciDevice& device, uint8_t bar, memory::GuestRange range) override;
  void BarUnmapped(const pci::PciDevice& device, uint8_t bar, memory::GuestRange range) override;

  KvmWindow* const window_;
  const uint8_t window_id_;
  // Order of destruction, from below: what notifies the transport, the transport, what it notifies.
  std::unique_ptr<MsiNotifier> interrupts_;
  std::unique_ptr<virtio::PciTransport> transport_;
  std::unique_ptr<QueueNotifier> notifies_;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_VIRTIO_SLOT_H_
