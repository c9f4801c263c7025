// File: vm.h
//
// One virtual machine: its memory slots, interrupt controller, routes and event descriptors.
//
//   SLUICE_ASSIGN_OR_RETURN(Vm vm, Vm::Create(system));
//   SLUICE_RETURN_IF_ERROR(vm.CreateIrqchip());
//   SLUICE_RETURN_IF_ERROR(vm.AddGuestMemory(ram).status());
//   SLUICE_ASSIGN_OR_RETURN(IoEvent doorbell, vm.RegisterIoEvent({.address = 0xe1003000, .length = 2}, event_fd));
//   SLUICE_ASSIGN_OR_RETURN(MsiRoute route, vm.AllocateMsiRoute());
//   SLUICE_RETURN_IF_ERROR(route.Set({.address = 0xfee00000, .data = 0x41}));
//   SLUICE_ASSIGN_OR_RETURN(IrqFd irq, vm.RegisterIrqFd(route.gsi(), irq_event_fd));   // each write to it: one
//   interrupt
//
// Ownership: the VM's kernel object and every mapping in a slot live until the Vm and all of its vCPUs and devices are
// gone, so the guest never runs on unmapped memory. Registrations (IoEvent, IrqFd, MsiRoute) undo themselves when
// destroyed; they may outlive the Vm, and then do nothing.
//
// All methods are thread-safe and may be called while vCPUs run.
#ifndef SLUICE_VMM_KVM_VM_H_
#define SLUICE_VMM_KVM_VM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"
#include "vmm/kvm/device.h"
#include "vmm/kvm/stats.h"
#include "vmm/kvm/system.h"
#include "vmm/kvm/types.h"
#include "vmm/kvm/vcpu.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::kvm {

struct VmState;

// A guest address or port that rings an eventfd; until destroyed.
class IoEvent {
 public:
  IoEvent() = default;
  IoEvent(IoEvent&&) noexcept = default;
  IoEvent& operator=(IoEvent&& other) noexcept;
  ~IoEvent();
  bool registered() const { return event_fd_.valid(); }

 private:
  friend class Vm;
  IoEvent(std::weak_ptr<VmState> vm, const IoEventSpec& spec, UniqueFd event_fd)
      : vm_(std::move(vm)), spec_(spec), event_fd_(std::move(event_fd)) {}
  void Unregister();
  std::weak_ptr<VmState> vm_;
  IoEventSpec spec_;
  UniqueFd event_fd_;
};

// An eventfd that raises a GSI; until destroyed.
class IrqFd {
 public:
  IrqFd() = default;
  IrqFd(IrqFd&&) noexcept = default;
  IrqFd& operator=(IrqFd&& other) noexcept;
  ~IrqFd();
  bool registered() const { return event_fd_.valid(); }

 private:
  friend class Vm;
  IrqFd(std::weak_ptr<VmState> vm, Gsi gsi, UniqueFd event_fd)
      : vm_(std::move(vm)), gsi_(gsi), event_fd_(std::move(event_fd)) {}
  void Unregister();
  std::weak_ptr<VmState> vm_;
  Gsi gsi_{0};
  UniqueFd event_fd_;
};

// One GSI (>= 24) of its own whose interrupts are delivered as an MSI. Made without a route: interrupts are then
// dropped.
class MsiRoute {
 public:
  MsiRoute() = default;
  MsiRoute(MsiRoute&& other) noexcept;
  MsiRoute& operator=(MsiRoute&& other) noexcept;
  ~MsiRoute();

  Gsi gsi() const { return gsi_; }
  // Delivers as `message` from now on. Setting the message that is already set costs no system call.
  absl::Status Set(const MsiMessage& message);
  // Drops interrupts from now on.
  absl::Status Clear();

 private:
  friend class Vm;
  MsiRoute(std::weak_ptr<VmState> vm, Gsi gsi) : vm_(std::move(vm)), gsi_(gsi) {}
  void Free();
  std::weak_ptr<VmState> vm_;
  Gsi gsi_{0};
};

struct MemoryFlags {
  bool read_only = false;  // guest stores exit as MmioWrite
  bool log_dirty = false;
};

// Movable handle.
class Vm {
 public:
  // KVM_CREATE_VM.
  static absl::StatusOr<Vm> Create(const System& system);
  Vm(Vm&&) noexcept = default;
  Vm& operator=(Vm&&) noexcept = default;

  // The same as System::Check, for this VM.
  int Check(Capability capability) const;
  absl::Status EnableCap(Capability capability, std::array<uint64_t, 4> args = {}, uint32_t flags = 0) const;

  // --- interrupt controller and platform; before the first vCPU where the kernel wants it so ---
  // PIC, IOAPIC and local APICs in the kernel, GSIs 0..23 routed to them.
  absl::Status CreateIrqchip() const;
  // Local APICs in the kernel; the IOAPIC is the caller's, whose `ioapic_pins` first GSIs are kept free for its MSI
  // routes.
  absl::Status CreateSplitIrqchip(uint32_t ioapic_pins = 24) const;
  // The i8254. Needs CreateIrqchip(). `speaker_dummy`: KVM also answers port 0x61.
  absl::Status CreatePit2(bool speaker_dummy = true) const;
  // Three unused pages (below 4 GiB) that Intel hardware needs; not in any slot.
  absl::Status SetTssAddress(GuestAddress address) const;
  // One unused page for the same reason.
  absl::Status SetIdentityMapAddress(GuestAddress address) const;
  absl::Status SetBootCpu(uint32_t vcpu_id) const;

  // --- memory ---
  // Puts all of `mapping` at `address` (both 4 KiB-aligned). The slot owns it. Errors: ALREADY_EXISTS when it overlaps
  // a slot, RESOURCE_EXHAUSTED when there are no more slots.
  absl::StatusOr<MemSlot> AddMemory(GuestAddress address, Mapping mapping, MemoryFlags flags = {}) const;
  // The same for memory that others use too.
  absl::StatusOr<MemSlot> AddMemory(GuestAddress address, std::shared_ptr<const Mapping> mapping,
                                    MemoryFlags flags = {}) const;
  // Every region of `ram`, in its order. All or none.
  absl::StatusOr<std::vector<MemSlot>> AddGuestMemory(const memory::GuestMemory& ram, MemoryFlags flags = {}) const;
  // Takes the slot away from the guest and gives its mapping back. When this returns no vCPU can reach it any more.
  // NOT_FOUND: no such slot.
  absl::StatusOr<std::shared_ptr<const Mapping>> RemoveMemory(MemSlot slot) const;
  // One bit per 4 KiB page written since the last call (slots with log_dirty).
  absl::StatusOr<std::vector<uint64_t>> TakeDirtyLog(MemSlot slot) const;

  // --- events ---
  // From now on a matching guest write adds 1 to `event_fd` instead of exiting. The registration keeps its own
  // duplicate of the descriptor. Errors: ALREADY_EXISTS for the same place and value twice, INVALID_ARGUMENT for a bad
  // length.
  absl::StatusOr<IoEvent> RegisterIoEvent(const IoEventSpec& spec, int event_fd) const;
  // From now on each write to `event_fd` raises `gsi` (edge). With `resample_fd` >= 0 the line is level-triggered: it
  // is lowered at end of interrupt and `resample_fd` is signalled, so that the owner raises it again if need be. Needs
  // an irqchip. ALREADY_EXISTS: this eventfd is registered already.
  absl::StatusOr<IrqFd> RegisterIrqFd(Gsi gsi, int event_fd, int resample_fd = -1) const;
  // A free GSI for one MSI vector. RESOURCE_EXHAUSTED: none left. Needs an irqchip.
  absl::StatusOr<MsiRoute> AllocateMsiRoute() const;
  // One particular GSI: a pin of the caller's IOAPIC (split irqchip, gsi < ioapic_pins). ALREADY_EXISTS: taken.
  absl::StatusOr<MsiRoute> TakePinRoute(Gsi gsi) const;
  // Sets the level of an IOAPIC/PIC pin (in-kernel irqchip).
  absl::Status SetIrqLine(Gsi gsi, bool level) const;
  // Injects an MSI at once. False: the guest blocked it (e.g. the local APIC is off).
  absl::StatusOr<bool> SignalMsi(const MsiMessage& message) const;

  // KVM_CREATE_VCPU. `id` is the APIC id. ALREADY_EXISTS: taken.
  absl::StatusOr<std::unique_ptr<Vcpu>> CreateVcpu(uint32_t id) const;
  // KVM_CREATE_DEVICE with a KVM_DEV_TYPE_*.
  absl::StatusOr<Device> CreateDevice(uint32_t type) const;
  // Per-VM statistics.
  absl::StatusOr<BinaryStats> Stats() const;
  int fd() const;

 private:
  explicit Vm(std::shared_ptr<VmState> state) : state_(std::move(state)) {}
  std::shared_ptr<VmState> state_;
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_VM_H_
