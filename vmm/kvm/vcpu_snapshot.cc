#include "vmm/kvm/vcpu_snapshot.h"

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/memory/address.h"

namespace sluice::kvm {
namespace {

constexpr uint32_t kMsrTsc = 0x10;

}  // namespace

absl::StatusOr<VcpuSnapshot> VcpuSnapshot::Take(const Vcpu& vcpu, absl::Span<const uint32_t> msrs) {
  VcpuSnapshot s;
  SLUICE_ASSIGN_OR_RETURN(s.regs_, vcpu.GetRegs());
  SLUICE_ASSIGN_OR_RETURN(s.sregs_, vcpu.GetSregs());
  SLUICE_ASSIGN_OR_RETURN(s.xsave_, vcpu.GetXsave());
  // Absent where the processor has no XSAVE.
  if (auto xcrs = vcpu.GetXcrs(); xcrs.ok()) s.xcrs_ = *xcrs;
  SLUICE_ASSIGN_OR_RETURN(s.debug_registers_, vcpu.GetDebugRegs());
  SLUICE_ASSIGN_OR_RETURN(s.lapic_, vcpu.GetLapic());
  SLUICE_ASSIGN_OR_RETURN(s.mp_state_, vcpu.GetMpState());
  SLUICE_ASSIGN_OR_RETURN(s.events_, vcpu.GetEvents());
  for (const uint32_t index : msrs) {
    if (index == kMsrTsc) continue;
    const auto value = vcpu.GetMsrs({&index, 1});
    if (value.ok()) s.msrs_.push_back(value->front());
  }
  return s;
}

absl::Status VcpuSnapshot::Restore(Vcpu& vcpu) const {
  // SREGS first: EFER and the APIC's mode decide what the rest may be.
  SLUICE_RETURN_IF_ERROR(vcpu.SetSregs(sregs_));
  SLUICE_RETURN_IF_ERROR(vcpu.SetRegs(regs_));
  if (xcrs_.has_value()) SLUICE_RETURN_IF_ERROR(vcpu.SetXcrs(*xcrs_));
  SLUICE_RETURN_IF_ERROR(vcpu.SetXsave(xsave_));
  SLUICE_RETURN_IF_ERROR(vcpu.SetDebugRegs(debug_registers_));
  SLUICE_RETURN_IF_ERROR(vcpu.SetLapic(lapic_));
  for (const kvm_msr_entry& entry : msrs_) {
    const auto now = vcpu.GetMsrs({&entry.index, 1});
    if (!now.ok() || now->front().data == entry.data) continue;
    const absl::Status set = vcpu.SetMsrs({&entry, 1});
    if (!set.ok()) return Annotate(set, absl::StrCat("reset of vCPU ", vcpu.id()));
  }
  SLUICE_RETURN_IF_ERROR(vcpu.SetEvents(events_));
  return vcpu.SetMpState(mp_state_);
}

}  // namespace sluice::kvm
