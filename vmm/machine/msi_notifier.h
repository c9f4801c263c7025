// File: msi_notifier.h
//
// MSI-X vectors as KVM interrupts: each vector that a guest uses gets a GSI of its own with an MSI route, and an irqfd.
// Owned by the machine; outlives the device whose vectors it delivers.
#ifndef SLUICE_VMM_MACHINE_MSI_NOTIFIER_H_
#define SLUICE_VMM_MACHINE_MSI_NOTIFIER_H_

#include <vector>

#include "flatbuf/stats.h"
#include "vmm/base/unique_fd.h"
#include "vmm/kvm/vm.h"
#include "vmm/pci/msix.h"

namespace sluice::machine {

// Calls come one at a time (the MSI-X table's lock is held).
class MsiNotifier final : public pci::MsixNotifier {
 public:
  // `vm` and `stats` outlive it.
  MsiNotifier(const kvm::Vm* vm, uint16_t vectors, wire::VmStats* stats) : vm_(vm), stats_(stats), vectors_(vectors) {}

  // A masked vector keeps its route, so that masking and unmasking cost no system call.
  void SetVector(uint16_t vector, bool deliverable, const pci::MsiMessage& message) override;
  void Signal(uint16_t vector) override;

 private:
  struct Vector {
    kvm::MsiRoute route;
    UniqueFd event_fd;
    kvm::IrqFd irq;
    bool usable = false;
  };
  absl::Status Prepare(Vector& vector);

  const kvm::Vm* const vm_;
  wire::VmStats* const stats_;
  std::vector<Vector> vectors_;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_MSI_NOTIFIER_H_
