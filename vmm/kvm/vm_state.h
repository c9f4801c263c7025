// File: vm_state.h
//
// Private to vmm/kvm: what a Vm, its vCPUs, devices and registrations share. Lives until the last owner is gone; the
// members are ordered so that the VM's descriptor closes before any slot's mapping goes.
#ifndef SLUICE_VMM_KVM_VM_STATE_H_
#define SLUICE_VMM_KVM_VM_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "vmm/base/mapping.h"
#include "vmm/base/mutex.h"
#include "vmm/base/unique_fd.h"
#include "vmm/kvm/types.h"

namespace sluice::kvm {

struct VmState {
  enum class Irqchip { kNone, kKernel, kSplit };

  struct Slot {
    GuestRange range;
    std::shared_ptr<const Mapping> mapping;
  };

  // Hands the whole routing table to KVM.
  absl::Status CommitRoutes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  Mutex mu;
  std::map<uint32_t, Slot> slots ABSL_GUARDED_BY(mu);
  Irqchip irqchip ABSL_GUARDED_BY(mu) = Irqchip::kNone;
  // GSIs below are the IOAPIC's.
  uint32_t first_msi_gsi ABSL_GUARDED_BY(mu) = 24;
  // Allocated GSIs and what they deliver (nullopt: nothing).
  std::map<uint32_t, std::optional<MsiMessage>> msi_routes ABSL_GUARDED_BY(mu);

  // Constant after creation.
  uint32_t slot_limit = 0;
  uint32_t gsi_limit = 0;
  uint32_t vcpu_mmap_size = 0;
  uint32_t xsave_bytes = 0;
  UniqueFd fd;
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_VM_STATE_H_
