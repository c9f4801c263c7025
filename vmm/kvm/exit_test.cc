// Exits, registers and kicks of a vCPU on real KVM, with guests of a few instructions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "vmm/kvm/testing/guest_rig.h"

namespace sluice::kvm {
namespace {

using ::testing::ElementsAre;
using testing::GuestRig;
using ::testing::HasSubstr;
using testing::RigOptions;

// The exit of the type asked for, or a test failure that says what came instead.
#define EXPECT_EXIT_TYPE(Type, variable, run)                                                \
  const auto variable##_or = (run);                                                          \
  ASSERT_TRUE(variable##_or.ok()) << variable##_or.status();                                 \
  ASSERT_TRUE(std::holds_alternative<Type>(*variable##_or)) << DescribeExit(*variable##_or); \
  [[maybe_unused]] const Type& variable = std::get<Type>(*variable##_or)

GUEST_CODE(PortIo, R"(
  mov $0x11223344, %eax
  mov $0x1f0, %edx
  out %al, %dx
  out %ax, %dx
  out %eax, %dx
  in %dx, %eax
  mov %eax, %ebx
  in $0x60, %al
  hlt)");

TEST(ExitTest, PortIoCarriesDataBothWays) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(PortIo());
  {
    EXPECT_EXIT_TYPE(exits::IoOut, out, rig.Run());
    EXPECT_EQ(out.port, 0x1f0);
    EXPECT_EQ(out.size, 1);
    EXPECT_EQ(out.count, 1u);
    EXPECT_THAT(out.data, ElementsAre(0x44));
  }
  {
    EXPECT_EXIT_TYPE(exits::IoOut, out, rig.Run());
    EXPECT_THAT(out.data, ElementsAre(0x44, 0x33));
  }
  {
    EXPECT_EXIT_TYPE(exits::IoOut, out, rig.Run());
    EXPECT_THAT(out.data, ElementsAre(0x44, 0x33, 0x22, 0x11));
  }
  {
    EXPECT_EXIT_TYPE(exits::IoIn, in, rig.Run());
    EXPECT_EQ(in.port, 0x1f0);
    ASSERT_EQ(in.data.size(), 4u);
    const uint32_t answer = 0xcafe0001;
    std::memcpy(in.data.data(), &answer, 4);
  }
  {
    EXPECT_EXIT_TYPE(exits::IoIn, in, rig.Run());
    EXPECT_EQ(in.port, 0x60);
    ASSERT_EQ(in.data.size(), 1u);
    in.data[0] = 0x5a;
  }
  EXPECT_EXIT_TYPE(exits::Hlt, hlt, rig.Run());
  const auto regs = rig.vcpu->GetRegs();
  ASSERT_TRUE(regs.ok());
  EXPECT_EQ(regs->rbx, 0xcafe0001u);
  EXPECT_EQ(regs->rax & 0xff, 0x5au);
}

GUEST_CODE(StringIo, R"(
  mov $0x200000, %edi
  mov $12, %ecx
  mov $0x80, %edx
  cld
  rep insb
  hlt)");

TEST(ExitTest, StringInputFillsGuestMemoryInOneOrMoreExits) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(StringIo());
  uint8_t next = 1;
  uint32_t total = 0;
  for (;;) {
    const auto exit = rig.Run();
    ASSERT_TRUE(exit.ok()) << exit.status();
    if (std::holds_alternative<exits::Hlt>(*exit)) break;
    ASSERT_TRUE(std::holds_alternative<exits::IoIn>(*exit)) << DescribeExit(*exit);
    const auto& in = std::get<exits::IoIn>(*exit);
    ASSERT_EQ(in.data.size(), in.count);
    for (uint8_t& b : in.data) b = next++;
    total += in.count;
  }
  EXPECT_GE(total, 12u) << "KVM may read ahead";
  EXPECT_EQ(*rig.ram.Read<uint64_t>(GuestAddress(GuestRig::kData)), 0x0807060504030201u);
  EXPECT_EQ(*rig.ram.Read<uint32_t>(GuestAddress(GuestRig::kData + 8)), 0x0c0b0a09u);
}

GUEST_CODE(Mmio, R"(
  mov $0xd0000000, %esi
  mov $0x1122334455667788, %rax
  mov %al, 1(%rsi)
  mov %ax, 2(%rsi)
  mov %eax, 4(%rsi)
  mov %rax, 8(%rsi)
  mov 16(%rsi), %ebx
  movzbl 20(%rsi), %ecx
  mov %rbx, 24(%rsi)
  mov %rcx, 32(%rsi)
9:
  mov %al, 40(%rsi)
  jmp 9b)");

class MmioTest : public ::testing::TestWithParam<int> {};

TEST_P(MmioTest, CarriesDataBothWays) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = GetParam()});
  rig.Load(Mmio());
  for (const size_t bytes : {1, 2, 4, 8}) {
    EXPECT_EXIT_TYPE(exits::MmioWrite, write, rig.Run());
    EXPECT_EQ(write.address.value(), GuestRig::kMmio + bytes);
    ASSERT_EQ(write.data.size(), bytes);
    EXPECT_EQ(write.data[0], 0x88);
    EXPECT_EQ(write.data[bytes - 1], uint8_t(0x99 - 0x11 * bytes));
  }
  {
    EXPECT_EXIT_TYPE(exits::MmioRead, read, rig.Run());
    EXPECT_EQ(read.address.value(), GuestRig::kMmio + 16);
    ASSERT_EQ(read.data.size(), 4u);
    const uint32_t answer = 0x8badf00d;
    std::memcpy(read.data.data(), &answer, 4);
  }
  {
    EXPECT_EXIT_TYPE(exits::MmioRead, read, rig.Run());
    ASSERT_EQ(read.data.size(), 1u);
    read.data[0] = 0xa5;
  }
  for (const uint64_t expected : {uint64_t{0x8badf00d}, uint64_t{0xa5}}) {
    EXPECT_EXIT_TYPE(exits::MmioWrite, write, rig.Run());
    uint64_t value = 0;
    ASSERT_EQ(write.data.size(), 8u);
    std::memcpy(&value, write.data.data(), 8);
    EXPECT_EQ(value, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Privilege, MmioTest, ::testing::Values(0, 3),
                         [](const auto& param_info) { return param_info.param == 0 ? "Cpl0" : "Cpl3"; });

GUEST_CODE(UserPortIo, R"(
  xor %eax, %eax
  mov $100000000, %ecx
1:add %rcx, %rax
  dec %ecx
  jnz 1b
  mov $0x10, %edx
  out %eax, %dx
  shr $32, %rax
  out %eax, %dx
  jmp .)");

TEST(ExitTest, Cpl3ComputesAndReachesPortsThroughTheTssBitmap) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = 3});
  rig.Load(UserPortIo());
  uint64_t sum = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EXIT_TYPE(exits::IoOut, out, rig.Run());
    uint32_t half = 0;
    ASSERT_EQ(out.data.size(), 4u);
    std::memcpy(&half, out.data.data(), 4);
    sum |= uint64_t{half} << (32 * i);
  }
  EXPECT_EQ(sum, 100000000ull * 100000001ull / 2);
}

GUEST_CODE(TripleFault, "lidt 0x300000; ud2");

TEST(ExitTest, ATripleFaultIsAShutdown) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(TripleFault());  // 0x300000 is all zero: an IDT without a gate
  EXPECT_EXIT_TYPE(exits::Shutdown, shutdown, rig.Run());
}

GUEST_CODE(Unemulatable, "mov $0xd0000000, %esi; fldpi; fstpl (%rsi); hlt");

TEST(ExitTest, AnInstructionThatKvmCannotEmulateIsReportedWithItsBytes) {
  SLUICE_RIG_OR_SKIP(rig);
  if (rig.vm.Check(Capability::kExitOnEmulationFailure) == 0) GTEST_SKIP() << "NOT TESTED, this KVM cannot tell";
  ASSERT_TRUE(rig.vm.EnableCap(Capability::kExitOnEmulationFailure, {1}).ok());
  rig.Load(Unemulatable());
  EXPECT_EXIT_TYPE(exits::InternalError, error, rig.Run());
  EXPECT_EQ(error.suberror, 1u);
  ASSERT_GE(error.instruction_size, 2);
  EXPECT_TRUE(error.instruction[0] == 0xd9 || error.instruction[0] == 0xdd) << DescribeExit(error);
  EXPECT_THAT(DescribeExit(error), HasSubstr("emulation failed): instruction d"));
}

GUEST_CODE(UnknownMsr, R"(
  mov $0x12345678, %ecx
  rdmsr
  shl $32, %rdx
  or %rdx, %rax
  mov %rax, %rbx
  mov $0x87654321, %eax
  mov $1, %edx
  wrmsr
  hlt)");

TEST(ExitTest, UnknownMsrsCanBeAnsweredByTheVmm) {
  SLUICE_RIG_OR_SKIP(rig);
  if (rig.vm.Check(Capability::kX86UserSpaceMsr) == 0) GTEST_SKIP() << "NOT TESTED, this KVM has no MSR exits";
  ASSERT_TRUE(
      rig.vm.EnableCap(Capability::kX86UserSpaceMsr, {KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_INVAL}).ok());
  rig.Load(UnknownMsr());
  {
    EXPECT_EXIT_TYPE(exits::MsrRead, read, rig.Run());
    EXPECT_EQ(read.index, 0x12345678u);
    *read.value = 0xfeedfacecafebeef;
    *read.error = 0;
  }
  {
    EXPECT_EXIT_TYPE(exits::MsrWrite, write, rig.Run());
    EXPECT_EQ(write.index, 0x12345678u);
    EXPECT_EQ(write.value, 0x187654321u);
    *write.error = 0;
  }
  EXPECT_EXIT_TYPE(exits::Hlt, hlt, rig.Run());
  EXPECT_EQ(rig.vcpu->GetRegs()->rbx, 0xfeedfacecafebeefu);
}

GUEST_CODE(Nops, "nop; nop; nop; hlt");

TEST(ExitTest, SingleStepsAreDebugExits) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(Nops());
  kvm_guest_debug debug = {};
  debug.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP;
  ASSERT_TRUE(rig.vcpu->SetGuestDebug(debug).ok());
  for (uint64_t step = 1; step <= 3; ++step) {
    EXPECT_EXIT_TYPE(exits::Debug, stepped, rig.Run());
    EXPECT_EQ(stepped.pc, GuestRig::kCode + step);
  }
  debug.control = 0;
  ASSERT_TRUE(rig.vcpu->SetGuestDebug(debug).ok());
  EXPECT_EXIT_TYPE(exits::Hlt, hlt, rig.Run());
}

GUEST_CODE(WaitForVector, R"(
  sti
1:test %ebx, %ebx
  jz 1b
  hlt)");
GUEST_CODE(SetEbx, "mov $1, %ebx; iretq");

TEST(ExitTest, WithoutAnInKernelApicTheVmmInjectsInterruptsWhenTheWindowOpens) {
  SLUICE_RIG_OR_SKIP(rig);
  ASSERT_TRUE(rig.ram.CopyTo(GuestAddress(GuestRig::kCode + 0x1000), SetEbx()).ok());
  rig.SetGate(0x40, GuestRig::kCode + 0x1000);
  rig.Load(WaitForVector());
  rig.vcpu->RequestInterruptWindow(true);
  EXPECT_EXIT_TYPE(exits::InterruptWindow, window, rig.Run());
  EXPECT_TRUE(rig.vcpu->ready_for_interrupt());
  rig.vcpu->RequestInterruptWindow(false);
  ASSERT_TRUE(rig.vcpu->InjectInterrupt(0x40).ok());
  EXPECT_EXIT_TYPE(exits::Hlt, hlt, rig.Run());
  EXPECT_EQ(rig.vcpu->GetRegs()->rbx, 1u);
}

// --- kicks ---

GUEST_CODE(Forever, "1: inc %rax; jmp 1b");

class KickTest : public ::testing::TestWithParam<int> {};

TEST_P(KickTest, AKickBeforeRunIsNotLost) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = GetParam()});
  rig.Load(Forever());
  const uint64_t start = rig.vcpu->GetRegs()->rip;
  rig.vcpu->Kick();
  rig.vcpu->Kick();
  EXPECT_EXIT_TYPE(exits::Interrupted, kicked, rig.vcpu->Run());
  EXPECT_EQ(rig.vcpu->GetRegs()->rip, start) << "not an instruction ran";
}

TEST_P(KickTest, EveryKickEndsTheRunThatIsUnderWayOrTheNext) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = GetParam()});
  rig.Load(Forever());
  // The kicker waits for each kick's answer before the next, so one lost kick would hang this test.
  constexpr int kRounds = 300;
  std::atomic<int> answered{0};
  std::thread kicker([&] {
    for (int i = 0; i < kRounds; ++i) {
      // From "before KVM_RUN" to "well inside the guest".
      for (int spin = 0; spin < i % 7 * 1000; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      rig.vcpu->Kick();
      while (answered.load() <= i) std::this_thread::yield();
    }
  });
  while (answered.load() < kRounds) {
    const auto exit = rig.vcpu->Run();
    ASSERT_TRUE(exit.ok()) << exit.status();
    ASSERT_TRUE(std::holds_alternative<exits::Interrupted>(*exit)) << DescribeExit(*exit);
    ++answered;
  }
  kicker.join();
}

INSTANTIATE_TEST_SUITE_P(Privilege, KickTest, ::testing::Values(0, 3),
                         [](const auto& param_info) { return param_info.param == 0 ? "Cpl0" : "Cpl3"; });

TEST(KickTest, AKickAtAnMmioExitDoesNotSpoilTheAccess) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(Mmio());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EXIT_TYPE(exits::MmioWrite, write, rig.Run());
  }
  EXPECT_EXIT_TYPE(exits::MmioRead, read, rig.vcpu->Run());
  const uint32_t answer = 0x600d0000;
  std::memcpy(read.data.data(), &answer, 4);
  rig.vcpu->Kick();
  EXPECT_EXIT_TYPE(exits::Interrupted, kicked, rig.vcpu->Run());
  EXPECT_EQ(rig.vcpu->GetRegs()->rbx, 0x600d0000u) << "the load completed before the kick was answered";
}

TEST(KickTest, AProgramWithAnotherHandlerForTheSignalIsToldSo) {
  SLUICE_RIG_OR_SKIP(rig);
  struct sigaction ours = {}, theirs = {};
  theirs.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(Vcpu::kick_signal(), &theirs, &ours), 0);
  const absl::Status status = rig.vm.CreateVcpu(1).status();
  ASSERT_EQ(sigaction(Vcpu::kick_signal(), &ours, nullptr), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SIGUSR1 has a handler already"));
}

// --- registers ---

TEST(RegisterTest, WhatIsSetIsWhatIsRead) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
  kvm_regs regs = {};
  regs.rax = 0x1122334455667788;
  regs.r15 = ~uint64_t{0};
  regs.rip = 0x1234;
  regs.rflags = 2;
  ASSERT_TRUE(rig.vcpu->SetRegs(regs).ok());
  const auto back = rig.vcpu->GetRegs();
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::memcmp(&regs, &*back, sizeof(regs)), 0);

  auto fpu = rig.vcpu->GetFpu();
  ASSERT_TRUE(fpu.ok()) << fpu.status();
  fpu->fcw = 0x27f;
  fpu->xmm[3][5] = 0x77;
  ASSERT_TRUE(rig.vcpu->SetFpu(*fpu).ok());
  EXPECT_EQ(rig.vcpu->GetFpu()->xmm[3][5], 0x77);
  EXPECT_EQ(rig.vcpu->GetFpu()->fcw, 0x27f);

  auto xsave = rig.vcpu->GetXsave();
  ASSERT_TRUE(xsave.ok()) << xsave.status();
  EXPECT_GE(xsave->size(), 4096u);
  EXPECT_EQ((*xsave)[0], 0x7f) << "the control word is first";
  ASSERT_TRUE(rig.vcpu->SetXsave(*xsave).ok());
  EXPECT_FALSE(rig.vcpu->SetXsave(absl::MakeConstSpan(*xsave).first(100)).ok());

  auto lapic = rig.vcpu->GetLapic();
  ASSERT_TRUE(lapic.ok()) << lapic.status();
  EXPECT_TRUE(rig.vcpu->SetLapic(*lapic).ok());
  EXPECT_EQ(*rig.vcpu->GetMpState(), uint32_t{KVM_MP_STATE_RUNNABLE});
  EXPECT_TRUE(rig.vcpu->SetMpState(KVM_MP_STATE_HALTED).ok());
  EXPECT_EQ(*rig.vcpu->GetMpState(), uint32_t{KVM_MP_STATE_HALTED});
  const auto events = rig.vcpu->GetEvents();
  ASSERT_TRUE(events.ok());
  EXPECT_TRUE(rig.vcpu->SetEvents(*events).ok());
  const auto debug = rig.vcpu->GetDebugRegs();
  ASSERT_TRUE(debug.ok());
  EXPECT_TRUE(rig.vcpu->SetDebugRegs(*debug).ok());
  const auto xcrs = rig.vcpu->GetXcrs();
  ASSERT_TRUE(xcrs.ok());
  EXPECT_TRUE(rig.vcpu->SetXcrs(*xcrs).ok());
  EXPECT_GT(*rig.vcpu->TscKhz(), 0u);
}

TEST(RegisterTest, TheCpuidThatWasSetIsRead) {
  SLUICE_RIG_OR_SKIP(rig);
  const auto table = rig.vcpu->GetCpuid();
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_NE(FindCpuid(*table, 1), nullptr);
  EXPECT_NE(FindCpuid(*table, 1)->ecx & (1u << 31), 0u) << "the hypervisor bit";
}

TEST(RegisterTest, MsrsAreReadInOrderAndErrorsNameTheMsr) {
  SLUICE_RIG_OR_SKIP(rig);
  const kvm_msr_entry set[] = {{0x2ff, 0, 0xc06}, {0x277, 0, 0x0007040600070406}};
  ASSERT_TRUE(rig.vcpu->SetMsrs(set).ok());
  const uint32_t indices[] = {0x277, 0x2ff};
  const auto values = rig.vcpu->GetMsrs(indices);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].data, 0x0007040600070406u);
  EXPECT_EQ((*values)[1].data, 0xc06u);
  const uint32_t unknown[] = {0x277, 0x12345678};
  const absl::Status missing = rig.vcpu->GetMsrs(unknown).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("0x12345678"));
  const kvm_msr_entry refused[] = {{0x2ff, 0, 0xc06}, {0x12345678, 0, 0xff}};
  const absl::Status bad = rig.vcpu->SetMsrs(refused);
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr("MSR 0x12345678 refuses 0xff"));
}

TEST(RegisterTest, VirtualAddressesAreTranslatedAsTheGuestWould) {
  SLUICE_RIG_OR_SKIP(rig);
  EXPECT_EQ(rig.vcpu->Translate(0x123456)->value(), 0x123456u);
  EXPECT_EQ(rig.vcpu->Translate(0x40000000).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::kvm
