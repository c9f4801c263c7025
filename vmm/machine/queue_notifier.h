// File: queue_notifier.h
//
// Queue notifications without an exit: one ioeventfd per virtqueue at its notify address, read by the event loop.
// Follows the register BAR when the guest moves it.
#ifndef SLUICE_VMM_MACHINE_QUEUE_NOTIFIER_H_
#define SLUICE_VMM_MACHINE_QUEUE_NOTIFIER_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "flatbuf/stats.h"
#include "vmm/base/mutex.h"
#include "vmm/kvm/vm.h"
#include "vmm/virtio/pci_transport.h"

namespace sluice::machine {

// Created and destroyed on the loop thread. SetBase: any thread (`mu_`).
class QueueNotifier {
 public:
  // All pointers outlive it.
  static absl::StatusOr<std::unique_ptr<QueueNotifier>> Create(asio::io_context& loop, const kvm::Vm* vm,
                                                               virtio::PciTransport* transport, wire::VmStats* stats);
  ~QueueNotifier();

  // Where the register BAR is decoded from now on; nullopt: nowhere. If KVM refuses a place, notifications there exit
  // and reach the transport as ordinary writes: slower, not wrong.
  void SetBase(std::optional<memory::GuestAddress> base);

 private:
  // Shared with the loop's callbacks, which may run after the notifier's end.
  struct Queue : std::enable_shared_from_this<Queue> {
    Queue(asio::io_context& loop, uint16_t index, virtio::PciTransport* transport, wire::VmStats* stats)
        : descriptor(loop), index(index), transport(transport), stats(stats) {}
    void Arm();
    asio::posix::stream_descriptor descriptor;
    const uint16_t index;
    virtio::PciTransport* transport;  // null once the notifier is gone
    wire::VmStats* const stats;
  };

  explicit QueueNotifier(const kvm::Vm* vm) : vm_(vm) {}

  const kvm::Vm* const vm_;
  std::vector<std::shared_ptr<Queue>> queues_;
  Mutex mu_;
  std::vector<kvm::IoEvent> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_QUEUE_NOTIFIER_H_
