// File: guest_rig.h
//
// A minimal 64-bit guest for tests of KVM itself: 4 MiB of RAM, identity page tables with the user bit, GDT, TSS with
// an all-clear I/O bitmap, an IDT of HLT stubs, code at kCode, started at CPL0 or CPL3.
//
//   GUEST_CODE(Adder, "add %ebx, %eax; out %al, $0x10; hlt");
//   auto rig = GuestRig::Create({.cpl = 0});
//   rig->Load(Adder());
//   auto exit = rig->Run();
//
// If /dev/kvm cannot be used, Create() fails; SLUICE_RIG_OR_SKIP skips the test before that, with the reason.
#ifndef SLUICE_VMM_KVM_TESTING_GUEST_RIG_H_
#define SLUICE_VMM_KVM_TESTING_GUEST_RIG_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/kvm/vm.h"
#include "vmm/memory/guest_memory.h"

// Defines `absl::Span<const uint8_t> name()`: the machine code that the assembler makes of `text`.
#define GUEST_CODE(name, text)                                                                       \
  asm(".pushsection .rodata\n.balign 16\nsluice_guest_" #name ":\n" text "\nsluice_guest_end_" #name \
      ":\n.byte 0\n"                                                                                 \
      ".popsection");                                                                                \
  extern "C" const uint8_t sluice_guest_##name[];                                                    \
  extern "C" const uint8_t sluice_guest_end_##name[];                                                \
  absl::Span<const uint8_t> name() {                                                                 \
    return absl::MakeConstSpan(&sluice_guest_##name[0], &sluice_guest_end_##name[0]);                \
  }

#define SLUICE_RIG_OR_SKIP(rig, ...)                                     \
  SLUICE_NEEDS_KVM();                                                    \
  auto rig##_or = ::sluice::kvm::testing::GuestRig::Create(__VA_ARGS__); \
  ASSERT_TRUE(rig##_or.ok()) << rig##_or.status();                       \
  ::sluice::kvm::testing::GuestRig& rig = **rig##_or

namespace sluice::kvm::testing {

struct RigOptions {
  int cpl = 0;
  enum { kNoIrqchip, kIrqchip, kSplitIrqchip } irqchip = kNoIrqchip;
};

class GuestRig {
 public:
  static constexpr uint64_t kCode = 0x100000;
  static constexpr uint64_t kData = 0x200000;    // free for the guest
  static constexpr uint64_t kMmio = 0xd0000000;  // mapped, no memory there

  static absl::StatusOr<std::unique_ptr<GuestRig>> Create(RigOptions options = {});

  // Puts `code` at kCode and points rip there (at CPL3: to a few instructions that go there; the guest must be at CPL0,
  // so once only). Other registers are 0, rsp is a stack.
  void Load(absl::Span<const uint8_t> code);
  // An interrupt or exception gate to `handler`.
  void SetGate(int vector, uint64_t handler);
  // Runs until something other than Interrupted happens.
  absl::StatusOr<VcpuExit> Run();

  System system;
  memory::GuestMemory ram;
  Vm vm;
  std::unique_ptr<Vcpu> vcpu;

 private:
  GuestRig(System s, memory::GuestMemory r, Vm v, std::unique_ptr<Vcpu> c)
      : system(std::move(s)), ram(std::move(r)), vm(std::move(v)), vcpu(std::move(c)) {}
  absl::Status SetUp(int cpl);

  bool user_ = false;  // code runs at CPL3
};

}  // namespace sluice::kvm::testing

#endif  // SLUICE_VMM_KVM_TESTING_GUEST_RIG_H_
