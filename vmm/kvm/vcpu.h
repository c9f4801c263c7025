// File: vcpu.h
//
// One virtual CPU: registers and the run loop.
//
//   SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Vcpu> vcpu, vm.CreateVcpu(0));
//   for (;;) {
//     SLUICE_ASSIGN_OR_RETURN(VcpuExit exit, vcpu->Run());
//     if (std::holds_alternative<exits::Interrupted>(exit) && stop.load()) break;
//     ...
//   }
//   other thread:  stop.store(true); vcpu->Kick();
//
// Threads: Run() and all register methods belong to one thread at a time (the vCPU thread). Kick() may be called from
// anywhere, as long as the Vcpu lives.
#ifndef SLUICE_VMM_KVM_VCPU_H_
#define SLUICE_VMM_KVM_VCPU_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"
#include "vmm/kvm/abi.h"
#include "vmm/kvm/cpuid.h"
#include "vmm/kvm/exit.h"
#include "vmm/kvm/stats.h"
#include "vmm/kvm/types.h"

namespace sluice::kvm {

struct VmState;

class Vcpu {
 public:
  ~Vcpu();
  Vcpu(const Vcpu&) = delete;
  Vcpu& operator=(const Vcpu&) = delete;

  uint32_t id() const { return id_; }

  // Enters the guest until something happens. Spans in the result die at the next Run(). Errors: what KVM_RUN
  // said (EFAULT: the guest touched a slot whose host memory is gone or protected).
  absl::StatusOr<VcpuExit> Run();

  // Makes the current Run() return Interrupted, or the next one if none is under way: never lost, several may become
  // one. A Run() that ends for another reason at the same moment leaves the kick for the next. Sets
  // kvm_run.immediate_exit, then sends kick_signal() to the thread that is in Run(), if any. Costs no system call when
  // none is.
  void Kick();
  // The signal that Kick() uses: SIGUSR1. The first Vcpu of a process installs an empty handler for it (SA_RESTART:
  // the thread's other calls go on) and fails with FAILED_PRECONDITION if the program has another handler there. The
  // vCPU thread must not block it; a seccomp filter must allow tgkill (kicker) and rt_sigreturn (vCPU thread).
  static int kick_signal();

  absl::StatusOr<kvm_regs> GetRegs() const;
  absl::Status SetRegs(const kvm_regs& regs);
  absl::StatusOr<kvm_sregs> GetSregs() const;
  absl::Status SetSregs(const kvm_sregs& sregs);
  absl::StatusOr<kvm_fpu> GetFpu() const;
  absl::Status SetFpu(const kvm_fpu& fpu);
  // MSRs in the order asked for. NOT_FOUND names the first that KVM does not know.
  absl::StatusOr<std::vector<kvm_msr_entry>> GetMsrs(absl::Span<const uint32_t> indices) const;
  // INVALID_ARGUMENT names the first that was refused; those before it are set.
  absl::Status SetMsrs(absl::Span<const kvm_msr_entry> msrs);
  absl::Status SetCpuid(const CpuidTable& table);
  absl::StatusOr<CpuidTable> GetCpuid() const;
  absl::StatusOr<kvm_xcrs> GetXcrs() const;
  absl::Status SetXcrs(const kvm_xcrs& xcrs);
  // The XSAVE area: 4096 bytes, or more where KVM_CAP_XSAVE2 says so.
  absl::StatusOr<std::vector<uint8_t>> GetXsave() const;
  absl::Status SetXsave(absl::Span<const uint8_t> area);
  absl::StatusOr<kvm_debugregs> GetDebugRegs() const;
  absl::Status SetDebugRegs(const kvm_debugregs& regs);
  // KVM_MP_STATE_*. Needs an irqchip for anything but RUNNABLE.
  absl::StatusOr<uint32_t> GetMpState() const;
  absl::Status SetMpState(uint32_t state);
  absl::StatusOr<kvm_vcpu_events> GetEvents() const;
  absl::Status SetEvents(const kvm_vcpu_events& events);
  // The local APIC's register page. Needs an in-kernel local APIC.
  absl::StatusOr<kvm_lapic_state> GetLapic() const;
  absl::Status SetLapic(const kvm_lapic_state& lapic);

  // Without an in-kernel local APIC: injects `vector` (the guest must be ready: ready_for_interrupt()).
  absl::Status InjectInterrupt(uint8_t vector);
  absl::Status InjectNmi();
  bool ready_for_interrupt() const;
  // The next Run() returns InterruptWindow as soon as the guest can take an interrupt.
  void RequestInterruptWindow(bool on);
  absl::Status SetGuestDebug(const kvm_guest_debug& debug);
  absl::Status EnableCap(Capability capability, std::array<uint64_t, 4> args = {}) const;
  // KVM_TRANSLATE: the guest-physical address behind a virtual one; NOT_FOUND if not mapped.
  absl::StatusOr<GuestAddress> Translate(uint64_t virtual_address) const;
  // Guest TSC frequency, kHz.
  absl::StatusOr<uint32_t> TscKhz() const;
  absl::StatusOr<BinaryStats> Stats() const;
  int fd() const { return fd_.get(); }

 private:
  friend class Vm;
  Vcpu(std::shared_ptr<VmState> vm, UniqueFd fd, Mapping run, uint32_t id, uint32_t xsave_bytes);
  VcpuExit Decode();
  kvm_run* run() const;

  std::shared_ptr<VmState> vm_;  // first: the fd closes before the VM's memory goes
  UniqueFd fd_;
  Mapping run_;  // struct kvm_run and what follows it
  const uint32_t id_;
  const uint32_t xsave_bytes_;
  const int process_;
  // Thread in Run(), 0 when none.
  std::atomic<int> running_thread_{0};
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_VCPU_H_
