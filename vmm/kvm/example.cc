// Runs a 10-byte guest in real mode: it adds two numbers, writes the digit to a port and halts.
#include <cstdio>

#include "vmm/base/status_macros.h"
#include "vmm/kvm/vm.h"

namespace {

namespace exits = sluice::kvm::exits;
using sluice::kvm::GuestAddress;

constexpr uint8_t kGuest[] = {
    0xba, 0xf8, 0x03,  // mov $0x3f8, %dx
    0x00, 0xd8,        // add %bl, %al
    0x04, '0',         // add $'0', %al
    0xee,              // out %al, (%dx)
    0xf4,              // hlt
    0x90,              // nop
};

absl::Status Run() {
  SLUICE_ASSIGN_OR_RETURN(const auto system, sluice::kvm::System::Open());
  SLUICE_ASSIGN_OR_RETURN(const auto ram, sluice::memory::GuestMemory::CreateSimple(4096));
  SLUICE_RETURN_IF_ERROR(ram.CopyTo(GuestAddress(0), kGuest));
  SLUICE_ASSIGN_OR_RETURN(const auto vm, sluice::kvm::Vm::Create(system));
  SLUICE_RETURN_IF_ERROR(vm.AddGuestMemory(ram).status());
  SLUICE_ASSIGN_OR_RETURN(const auto vcpu, vm.CreateVcpu(0));

  SLUICE_ASSIGN_OR_RETURN(kvm_sregs sregs, vcpu->GetSregs());
  sregs.cs.base = 0;
  sregs.cs.selector = 0;
  SLUICE_RETURN_IF_ERROR(vcpu->SetSregs(sregs));
  kvm_regs regs = {};
  regs.rip = 0;
  regs.rax = 2;
  regs.rbx = 3;
  regs.rflags = 2;
  SLUICE_RETURN_IF_ERROR(vcpu->SetRegs(regs));

  for (;;) {
    SLUICE_ASSIGN_OR_RETURN(const auto exit, vcpu->Run());
    std::printf("exit: %s\n", sluice::kvm::DescribeExit(exit).c_str());
    if (const auto* io = std::get_if<exits::IoOut>(&exit)) {
      std::printf("the guest says 2 + 3 = %c\n", io->data[0]);
      if (io->data[0] != '5') return absl::InternalError("it is wrong");
    } else if (std::holds_alternative<exits::Hlt>(exit)) {
      return absl::OkStatus();
    } else if (!std::holds_alternative<exits::Interrupted>(exit)) {
      return absl::InternalError("unexpected exit");
    }
  }
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (status.ok()) return 0;
  // 77: skipped. Without KVM there is nothing to show.
  const bool no_kvm = absl::IsNotFound(status) || absl::IsPermissionDenied(status) || absl::IsUnavailable(status);
  std::fprintf(stderr, "%s%s\n", no_kvm ? "needs KVM: " : "", status.ToString().c_str());
  return no_kvm ? 77 : 1;
}
