// File: types.h
//
// Small strong types that the KVM wrappers pass around, so that a slot is never a GSI and neither is an int.
#ifndef SLUICE_VMM_KVM_TYPES_H_
#define SLUICE_VMM_KVM_TYPES_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "vmm/kvm/abi.h"
#include "vmm/memory/address.h"

namespace sluice::kvm {

using memory::GuestAddress;
using memory::GuestRange;

// Names one memory slot of one Vm.
class MemSlot {
 public:
  constexpr explicit MemSlot(uint32_t id) : id_(id) {}
  constexpr uint32_t id() const { return id_; }
  friend constexpr auto operator<=>(MemSlot, MemSlot) = default;
  template <typename H>
  friend H AbslHashValue(H h, MemSlot s) {
    return H::combine(std::move(h), s.id_);
  }

 private:
  uint32_t id_;
};

// A global system interrupt: an index into the VM's routing table. With the in-kernel irqchip 0..23 are the IOAPIC's
// pins.
class Gsi {
 public:
  constexpr explicit Gsi(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Gsi, Gsi) = default;

 private:
  uint32_t value_;
};

// An MSI as a PCI device writes it.
struct MsiMessage {
  uint64_t address = 0;
  uint32_t data = 0;
  friend bool operator==(const MsiMessage&, const MsiMessage&) = default;
};

// Where a guest's write rings an eventfd.
struct IoEventSpec {
  enum class Space { kMmio, kPio };
  Space space = Space::kMmio;
  uint64_t address = 0;  // guest-physical, or a port
  // Bytes: 1, 2, 4, 8, or 0 for any length (then no datamatch). Not 8 for a port.
  uint32_t length = 0;
  // Only a write of exactly this value counts; others exit as usual.
  std::optional<uint64_t> datamatch = std::nullopt;
};

// KVM_CAP_*: what KVM may be able to do. The enum names those that Sluice asks for; any other number may be cast.
enum class Capability : uint32_t {
  kIrqchip = KVM_CAP_IRQCHIP,
  kUserMemory = KVM_CAP_USER_MEMORY,
  kSetTssAddress = KVM_CAP_SET_TSS_ADDR,
  kSetIdentityMapAddress = KVM_CAP_SET_IDENTITY_MAP_ADDR,
  kExtCpuid = KVM_CAP_EXT_CPUID,
  kPit2 = KVM_CAP_PIT2,
  kMpState = KVM_CAP_MP_STATE,
  kNrVcpus = KVM_CAP_NR_VCPUS,    // value: recommended maximum
  kMaxVcpus = KVM_CAP_MAX_VCPUS,  // value: hard maximum
  kMaxVcpuId = KVM_CAP_MAX_VCPU_ID,
  kNrMemslots = KVM_CAP_NR_MEMSLOTS,  // value: number of slots
  kIrqRouting = KVM_CAP_IRQ_ROUTING,  // value: number of GSIs
  kIrqfd = KVM_CAP_IRQFD,
  kIrqfdResample = KVM_CAP_IRQFD_RESAMPLE,
  kSignalMsi = KVM_CAP_SIGNAL_MSI,
  kIoeventfd = KVM_CAP_IOEVENTFD,
  kIoeventfdNoLength = KVM_CAP_IOEVENTFD_NO_LENGTH,
  kIoeventfdAnyLength = KVM_CAP_IOEVENTFD_ANY_LENGTH,
  kSplitIrqchip = KVM_CAP_SPLIT_IRQCHIP,
  kVcpuEvents = KVM_CAP_VCPU_EVENTS,
  kXsave = KVM_CAP_XSAVE,
  kXsave2 = KVM_CAP_XSAVE2,  // value: bytes of the largest state, 0 or >= 4096
  kXcrs = KVM_CAP_XCRS,
  kReadonlyMemory = KVM_CAP_READONLY_MEM,
  kImmediateExit = KVM_CAP_IMMEDIATE_EXIT,
  kX2apicApi = KVM_CAP_X2APIC_API,
  kDeviceControl = KVM_CAP_DEVICE_CTRL,
  kEnableCapVm = KVM_CAP_ENABLE_CAP_VM,
  kX86UserSpaceMsr = KVM_CAP_X86_USER_SPACE_MSR,
  kX86DisableExits = KVM_CAP_X86_DISABLE_EXITS,
  kExitOnEmulationFailure = KVM_CAP_EXIT_ON_EMULATION_FAILURE,
  kBinaryStatsFd = KVM_CAP_BINARY_STATS_FD,
  kExitHypercall = KVM_CAP_EXIT_HYPERCALL,
  kTscControl = KVM_CAP_TSC_CONTROL,
  kManualDirtyLogProtect2 = KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
  kTscDeadlineTimer = KVM_CAP_TSC_DEADLINE_TIMER,
  kDisableQuirks2 = KVM_CAP_DISABLE_QUIRKS2,  // value: KVM_X86_QUIRK_* that may be disabled
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_TYPES_H_
