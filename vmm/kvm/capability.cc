#include "absl/strings/str_cat.h"
#include "vmm/kvm/system.h"

namespace sluice::kvm {

std::string CapabilityName(Capability capability) {
  switch (capability) {
    case Capability::kIrqchip:
      return "KVM_CAP_IRQCHIP";
    case Capability::kUserMemory:
      return "KVM_CAP_USER_MEMORY";
    case Capability::kSetTssAddress:
      return "KVM_CAP_SET_TSS_ADDR";
    case Capability::kSetIdentityMapAddress:
      return "KVM_CAP_SET_IDENTITY_MAP_ADDR";
    case Capability::kExtCpuid:
      return "KVM_CAP_EXT_CPUID";
    case Capability::kPit2:
      return "KVM_CAP_PIT2";
    case Capability::kMpState:
      return "KVM_CAP_MP_STATE";
    case Capability::kNrVcpus:
      return "KVM_CAP_NR_VCPUS";
    case Capability::kMaxVcpus:
      return "KVM_CAP_MAX_VCPUS";
    case Capability::kMaxVcpuId:
      return "KVM_CAP_MAX_VCPU_ID";
    case Capability::kNrMemslots:
      return "KVM_CAP_NR_MEMSLOTS";
    case Capability::kIrqRouting:
      return "KVM_CAP_IRQ_ROUTING";
    case Capability::kIrqfd:
      return "KVM_CAP_IRQFD";
    case Capability::kIrqfdResample:
      return "KVM_CAP_IRQFD_RESAMPLE";
    case Capability::kSignalMsi:
      return "KVM_CAP_SIGNAL_MSI";
    case Capability::kIoeventfd:
      return "KVM_CAP_IOEVENTFD";
    case Capability::kIoeventfdNoLength:
      return "KVM_CAP_IOEVENTFD_NO_LENGTH";
    case Capability::kIoeventfdAnyLength:
      return "KVM_CAP_IOEVENTFD_ANY_LENGTH";
    case Capability::kSplitIrqchip:
      return "KVM_CAP_SPLIT_IRQCHIP";
    case Capability::kVcpuEvents:
      return "KVM_CAP_VCPU_EVENTS";
    case Capability::kXsave:
      return "KVM_CAP_XSAVE";
    case Capability::kXsave2:
      return "KVM_CAP_XSAVE2";
    case Capability::kXcrs:
      return "KVM_CAP_XCRS";
    case Capability::kReadonlyMemory:
      return "KVM_CAP_READONLY_MEM";
    case Capability::kImmediateExit:
      return "KVM_CAP_IMMEDIATE_EXIT";
    case Capability::kX2apicApi:
      return "KVM_CAP_X2APIC_API";
    case Capability::kDeviceControl:
      return "KVM_CAP_DEVICE_CTRL";
    case Capability::kEnableCapVm:
      return "KVM_CAP_ENABLE_CAP_VM";
    case Capability::kX86UserSpaceMsr:
      return "KVM_CAP_X86_USER_SPACE_MSR";
    case Capability::kX86DisableExits:
      return "KVM_CAP_X86_DISABLE_EXITS";
    case Capability::kExitOnEmulationFailure:
      return "KVM_CAP_EXIT_ON_EMULATION_FAILURE";
    case Capability::kBinaryStatsFd:
      return "KVM_CAP_BINARY_STATS_FD";
    case Capability::kExitHypercall:
      return "KVM_CAP_EXIT_HYPERCALL";
    case Capability::kTscControl:
      return "KVM_CAP_TSC_CONTROL";
    case Capability::kManualDirtyLogProtect2:
      return "KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2";
    case Capability::kTscDeadlineTimer:
      return "KVM_CAP_TSC_DEADLINE_TIMER";
    case Capability::kDisableQuirks2:
      return "KVM_CAP_DISABLE_QUIRKS2";
  }
  return absl::StrCat("KVM_CAP ", static_cast<uint32_t>(capability));
}

}  // namespace sluice::kvm
