// File: vcpu_snapshot.h
//
// All that KVM tells about a vCPU, taken once and put back: how a vCPU is reset without making another.
//
//   SLUICE_ASSIGN_OR_RETURN(VcpuSnapshot fresh, VcpuSnapshot::Take(*vcpu, msr_indices));   // after SetCpuid
//   ...
//   SLUICE_RETURN_IF_ERROR(fresh.Restore(*vcpu));    // as it was then
//
// The time stamp counter is left alone: clocks of a guest that starts again go on. Threads: as for Vcpu's registers.
#ifndef SLUICE_VMM_KVM_VCPU_SNAPSHOT_H_
#define SLUICE_VMM_KVM_VCPU_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/kvm/vcpu.h"

namespace sluice::kvm {

class VcpuSnapshot {
 public:
  // `msrs`: which to look at (System::MsrIndices); those that the vCPU cannot read are left out. Needs an in-kernel
  // local APIC.
  static absl::StatusOr<VcpuSnapshot> Take(const Vcpu& vcpu, absl::Span<const uint32_t> msrs);

  // Sets everything that differs from the snapshot. Errors: what KVM said, for the first thing that it refused.
  absl::Status Restore(Vcpu& vcpu) const;

 private:
  VcpuSnapshot() = default;
  kvm_regs regs_ = {};
  kvm_sregs sregs_ = {};
  std::vector<uint8_t> xsave_;
  std::optional<kvm_xcrs> xcrs_;
  kvm_debugregs debug_registers_ = {};
  kvm_lapic_state lapic_ = {};
  uint32_t mp_state_ = 0;
  kvm_vcpu_events events_ = {};
  std::vector<kvm_msr_entry> msrs_;
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_VCPU_SNAPSHOT_H_
