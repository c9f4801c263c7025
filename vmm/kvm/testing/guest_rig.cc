#include "vmm/kvm/testing/guest_rig.h"

#include <array>
#include <utility>

#include "vmm/base/status_macros.h"

namespace sluice::kvm::testing {
namespace {

using memory::GuestMemory;
using memory::kMiB;

constexpr uint64_t kGdt = 0x1000, kPageTables = 0x2000, kIdt = 0x8000, kStubs = 0x9000, kStack = 0xf000, kTss = 0x20000;
constexpr uint64_t kEnterUser = 0xa000;
constexpr uint32_t kIoBitmapAt = 0x68, kTssLimit = kIoBitmapAt + 8192;
constexpr uint64_t kTssDescriptor = (uint64_t{0x89} << 40) | (kTss << 16) | kTssLimit;

// To CPL3 as a kernel goes there. Setting the registers from outside would do on most processors, but an emulated one
// may take the I/O bitmap only of a TSS that the guest itself loaded.
GUEST_CODE(EnterUser, R"(
  mov $0x28, %eax
  ltr %ax
  mov %rsp, %rax
  push $0x23
  push %rax
  push $2
  push $0x1b
  push $0x100000
  xor %eax, %eax
  iretq)");
static_assert(GuestRig::kCode == 0x100000);

kvm_segment Segment(uint16_t selector, uint8_t type, int cpl, bool code) {
  kvm_segment s = {};
  s.limit = 0xffffffff;
  s.selector = static_cast<uint16_t>(selector | cpl);
  s.type = type;
  s.present = 1;
  s.s = 1;
  s.g = 1;
  s.dpl = static_cast<uint8_t>(cpl);
  s.l = code ? 1 : 0;
  s.db = code ? 0 : 1;
  return s;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuestRig>> GuestRig::Create(RigOptions options) {
  SLUICE_ASSIGN_OR_RETURN(System system, System::Open());
  SLUICE_ASSIGN_OR_RETURN(GuestMemory ram, GuestMemory::CreateSimple(4 * kMiB));
  SLUICE_ASSIGN_OR_RETURN(Vm vm, Vm::Create(system));
  SLUICE_RETURN_IF_ERROR(vm.SetTssAddress(GuestAddress(0xfffbd000)));
  SLUICE_RETURN_IF_ERROR(vm.SetIdentityMapAddress(GuestAddress(0xfffbc000)));
  if (options.irqchip == RigOptions::kIrqchip) SLUICE_RETURN_IF_ERROR(vm.CreateIrqchip());
  if (options.irqchip == RigOptions::kSplitIrqchip) SLUICE_RETURN_IF_ERROR(vm.CreateSplitIrqchip());
  SLUICE_RETURN_IF_ERROR(vm.AddGuestMemory(ram).status());
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Vcpu> vcpu, vm.CreateVcpu(0));
  SLUICE_ASSIGN_OR_RETURN(const CpuidTable cpuid, system.SupportedCpuid());
  SLUICE_RETURN_IF_ERROR(vcpu->SetCpuid(MakeVcpuCpuid(cpuid, {}, 0)));
  std::unique_ptr<GuestRig> rig(new GuestRig(std::move(system), std::move(ram), std::move(vm), std::move(vcpu)));
  SLUICE_RETURN_IF_ERROR(rig->SetUp(options.cpl));
  return rig;
}

absl::Status GuestRig::SetUp(int cpl) {
  // Page tables: the first GiB and the fourth (kMmio, the APICs).
  const std::array<uint64_t, 1> pml4 = {(kPageTables + 0x1000) | 7};
  const std::array<uint64_t, 4> pdpt = {(kPageTables + 0x2000) | 7, 0, 0, (kPageTables + 0x3000) | 7};
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kPageTables), pml4));
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kPageTables + 0x1000), pdpt));
  for (uint64_t i = 0; i < 512; ++i) {
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kPageTables + 0x2000 + i * 8), (i << 21) | 0x87));
    SLUICE_RETURN_IF_ERROR(
        ram.Write(GuestAddress(kPageTables + 0x3000 + i * 8), uint64_t{0xc0000000} + (i << 21) + 0x87));
  }
  const std::array<uint64_t, 7> gdt = {
      0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00affb000000ffff, 0x00cff3000000ffff, kTssDescriptor, 0};
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kGdt), gdt));
  SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(GuestAddress(kTss + 4), kStack - 0x1000));  // rsp0
  SLUICE_RETURN_IF_ERROR(ram.Write<uint16_t>(GuestAddress(kTss + 0x66), kIoBitmapAt));
  SLUICE_RETURN_IF_ERROR(ram.Write<uint8_t>(GuestAddress(kTss + kTssLimit), 0xff));
  SLUICE_RETURN_IF_ERROR(ram.Fill(GuestAddress(kStubs), 0xf4, 256));
  for (int vector = 0; vector < 256; ++vector) SetGate(vector, kStubs + static_cast<uint64_t>(vector));

  SLUICE_ASSIGN_OR_RETURN(kvm_sregs sregs, vcpu->GetSregs());
  user_ = cpl != 0;
  sregs.cs = Segment(0x08, 11, 0, true);
  sregs.ss = Segment(0x10, 3, 0, false);
  sregs.ds = sregs.es = sregs.fs = sregs.gs = Segment(cpl == 0 ? 0x10 : 0x20, 3, cpl, false);
  sregs.tr = {};
  sregs.tr.base = kTss;
  sregs.tr.limit = kTssLimit;
  sregs.tr.selector = 0x28;
  sregs.tr.type = 11;
  sregs.tr.present = 1;
  sregs.gdt.base = kGdt;
  sregs.gdt.limit = sizeof(gdt) - 1;
  sregs.idt.base = kIdt;
  sregs.idt.limit = 0xfff;
  sregs.cr0 = 0x80000033;
  sregs.cr3 = kPageTables;
  sregs.cr4 = 0x620;
  sregs.efer = 0x500;
  return vcpu->SetSregs(sregs);
}

void GuestRig::SetGate(int vector, uint64_t handler) {
  const std::array<uint64_t, 2> gate = {
      (handler & 0xffff) | (uint64_t{0x08} << 16) | (uint64_t{0xee} << 40) | ((handler >> 16 & 0xffff) << 48),
      handler >> 32};
  // The IDT is in this rig's own RAM; its pages are always there.
  (void)ram.Write(GuestAddress(kIdt + static_cast<uint64_t>(vector) * 16), gate);
}

void GuestRig::Load(absl::Span<const uint8_t> code) {
  (void)ram.CopyTo(GuestAddress(kCode), code);
  kvm_regs regs = {};
  regs.rip = kCode;
  regs.rsp = kStack;
  if (user_) {
    (void)ram.CopyTo(GuestAddress(kEnterUser), EnterUser());
    (void)ram.Write(GuestAddress(kGdt + 0x28), kTssDescriptor);  // not busy
    regs.rip = kEnterUser;
  }
  regs.rflags = 2;
  (void)vcpu->SetRegs(regs);
}

absl::StatusOr<VcpuExit> GuestRig::Run() {
  for (;;) {
    auto exit = vcpu->Run();
    if (!exit.ok() || !std::holds_alternative<exits::Interrupted>(*exit)) return exit;
  }
}

}  // namespace sluice::kvm::testing
