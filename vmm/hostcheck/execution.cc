#include "vmm/hostcheck/execution.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "vmm/base/mutex.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/thread.h"
#include "vmm/kvm/vm.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::hostcheck {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::kMiB;

constexpr uint64_t kPml4 = 0x1000, kPdpt = 0x2000, kLowTable = 0x3000, kHighTable = 0x4000, kCount = 0x5000;
constexpr uint64_t kTss = 0x6000, kCode = 0x10000, kStack = 0x20000;
constexpr uint64_t kDoorbell = 0xd0000000;  // no memory there: a write to it ends a run

// Counts down from the number at kCount, then writes to kDoorbell; and again. Plain 64-bit code without a stack, the
// same at both levels.
constexpr std::array<uint8_t, 20> kGuest = {
    0x8b, 0x0c, 0x25, 0x00, 0x50, 0x00, 0x00,  // start: mov kCount, %ecx
    0xff, 0xc9,                                // again: dec %ecx
    0x75, 0xfc,                                //        jnz again
    0xba, 0x00, 0x00, 0x00, 0xd0,              //        mov $kDoorbell, %edx
    0x88, 0x02,                                //        mov %al, (%rdx)
    0xeb, 0xec,                                //        jmp start
};
static_assert(kCount == 0x5000 && kDoorbell == 0xd0000000);
constexpr double kInstructionsPerRound = 2;
constexpr uint32_t kFirstRounds = 10'000, kLastRounds = 10'000'000;
constexpr double kLongEnoughSeconds = 0.004;

// A descriptor as the processor caches it (Intel SDM vol. 3, "Segment Descriptors").
kvm_segment Segment(uint16_t selector, uint8_t type, int level, bool code) {
  kvm_segment segment = {};
  segment.limit = 0xffffffff;
  segment.selector = static_cast<uint16_t>(selector | level);
  segment.type = type;
  segment.present = segment.s = segment.g = 1;
  segment.dpl = static_cast<uint8_t>(level);
  segment.l = code ? 1 : 0;
  segment.db = code ? 0 : 1;
  return segment;
}

// Kicks a vCPU at a time, unless it is destroyed before.
class Alarm {
 public:
  absl::Status Start(kvm::Vcpu* vcpu, absl::Time when) {
    SLUICE_ASSIGN_OR_RETURN(thread_, StartThread([this, vcpu, when] {
                              MutexLock lock(&mu_);
                              while (!done_ && absl::Now() < when) changed_.WaitWithTimeout(&mu_, when - absl::Now());
                              if (!done_) vcpu->Kick();
                            }));
    return absl::OkStatus();
  }
  ~Alarm() {
    {
      MutexLock lock(&mu_);
      done_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.Join();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

absl::Status SetUp(kvm::Vcpu* vcpu, int level) {
  SLUICE_ASSIGN_OR_RETURN(kvm_sregs sregs, vcpu->GetSregs());
  sregs.cs = Segment(level == 0 ? 0x08 : 0x18, 11, level, true);
  sregs.ss = Segment(level == 0 ? 0x10 : 0x20, 3, level, false);
  sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss;
  sregs.tr = {};
  sregs.tr.base = kTss;
  sregs.tr.limit = 0x67;
  sregs.tr.selector = 0x28;
  sregs.tr.type = 11;
  sregs.tr.present = 1;
  sregs.cr0 = 0x80000033;  // PG, NE, ET, MP, PE
  sregs.cr3 = kPml4;
  sregs.cr4 = 0x20;    // PAE
  sregs.efer = 0x500;  // LMA, LME
  SLUICE_RETURN_IF_ERROR(vcpu->SetSregs(sregs));
  kvm_regs regs = {};
  regs.rip = kCode;
  regs.rsp = kStack;
  regs.rflags = 2;
  return vcpu->SetRegs(regs);
}

// Seconds until the guest rings.
absl::StatusOr<double> OneRun(kvm::Vcpu* vcpu, absl::Time end) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (absl::Now() >= end) return absl::DeadlineExceededError("a guest of a few instructions did not end in time");
    SLUICE_ASSIGN_OR_RETURN(const kvm::VcpuExit exit, vcpu->Run());
    if (std::holds_alternative<kvm::exits::Interrupted>(exit)) continue;
    const auto* write = std::get_if<kvm::exits::MmioWrite>(&exit);
    if (write == nullptr || write->address.value() != kDoorbell) {
      return absl::InternalError(absl::StrCat("a guest of a few instructions ended with ", kvm::DescribeExit(exit)));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

absl::StatusOr<double> Mips(const kvm::System& system, int level, absl::Duration patience) {
  SLUICE_ASSIGN_OR_RETURN(const GuestMemory ram, GuestMemory::CreateSimple(2 * kMiB));
  // Identity pages of 2 MiB, open to both levels: the RAM and the page of kDoorbell.
  SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(GuestAddress(kPml4), kPdpt | 7));
  SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(GuestAddress(kPdpt), kLowTable | 7));
  SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(GuestAddress(kPdpt + 3 * 8), kHighTable | 7));
  SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(GuestAddress(kLowTable), 0x87));
  SLUICE_RETURN_IF_ERROR(
      ram.Write<uint64_t>(GuestAddress(kHighTable + ((kDoorbell >> 21) & 511) * 8), kDoorbell | 0x87));
  SLUICE_RETURN_IF_ERROR(ram.CopyTo(GuestAddress(kCode), kGuest));

  SLUICE_ASSIGN_OR_RETURN(const kvm::Vm vm, kvm::Vm::Create(system));
  SLUICE_RETURN_IF_ERROR(vm.SetTssAddress(GuestAddress(0xfffbd000)));
  SLUICE_RETURN_IF_ERROR(vm.SetIdentityMapAddress(GuestAddress(0xfffbc000)));
  SLUICE_RETURN_IF_ERROR(vm.AddGuestMemory(ram).status());
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<kvm::Vcpu> vcpu, vm.CreateVcpu(0));
  SLUICE_ASSIGN_OR_RETURN(const kvm::CpuidTable cpuid, system.SupportedCpuid());
  SLUICE_RETURN_IF_ERROR(vcpu->SetCpuid(kvm::MakeVcpuCpuid(cpuid, {}, 0)));
  SLUICE_RETURN_IF_ERROR(SetUp(vcpu.get(), level));
  const absl::Time end = absl::Now() + patience;
  Alarm alarm;
  SLUICE_RETURN_IF_ERROR(alarm.Start(vcpu.get(), end));

  // Once without counting: pages are touched, code is translated where a processor is emulated.
  SLUICE_RETURN_IF_ERROR(ram.Store<uint32_t>(GuestAddress(kCount), 1));
  SLUICE_RETURN_IF_ERROR(OneRun(vcpu.get(), end).status());
  // More rounds until the exit is small beside them, or the loop is seen to be slow.
  for (uint32_t rounds = kFirstRounds;; rounds *= 10) {
    SLUICE_RETURN_IF_ERROR(ram.Store<uint32_t>(GuestAddress(kCount), rounds));
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      SLUICE_ASSIGN_OR_RETURN(const double seconds, OneRun(vcpu.get(), end));
      best = std::min(best, seconds);
    }
    if (best >= kLongEnoughSeconds || rounds >= kLastRounds) {
      return kInstructionsPerRound * rounds / std::max(best, 1e-9) / 1e6;
    }
  }
}

// With a digit after the point only where it matters.
std::string Rate(double mips) {
  return mips < 10 ? absl::StrFormat("%.1f", mips) : absl::StrFormat("%.0f", mips);
}

}  // namespace

Execution Classify(const ExecutionRates& rates) {
  if (rates.kernel_mips >= kInterpretedMips) return Execution::kHardware;
  return rates.user_mips >= kInterpretedMips ? Execution::kEmulatedKernel : Execution::kEmulated;
}

absl::StatusOr<ExecutionRates> MeasureExecution(const kvm::System& system, absl::Duration patience) {
  ExecutionRates rates;
  SLUICE_ASSIGN_OR_RETURN(rates.kernel_mips, Mips(system, 0, patience));
  SLUICE_ASSIGN_OR_RETURN(rates.user_mips, Mips(system, 3, patience));
  return rates;
}

CpuFacts ReadCpuFacts(const HostFiles& host) {
  CpuFacts facts;
  const std::string flags = HostFiles::Field(host.proc + "/cpuinfo", "flags").value_or("");
  for (const absl::string_view flag : absl::StrSplit(flags, ' ')) {
    facts.svm |= flag == "svm";
    facts.vmx |= flag == "vmx";
    facts.virtual_machine |= flag == "hypervisor";
  }
  for (const std::string& module : HostFiles::List(host.sys + "/module")) {
    if (absl::StartsWith(module, "kvm_")) facts.kvm_module = module;
  }
  return facts;
}

Finding DescribeExecution(const ExecutionRates& rates, const CpuFacts& cpu) {
  const std::string speed = absl::StrCat(Rate(rates.kernel_mips), " million instructions a second at CPL0, ",
                                         Rate(rates.user_mips), " at CPL3");
  switch (Classify(rates)) {
    case Execution::kHardware: {
      std::string how = "hardware";
      if (cpu.svm || cpu.vmx) absl::StrAppend(&how, cpu.svm ? " (SVM)" : " (VMX)");
      absl::StrAppend(&how, ": ", speed);
      if (!cpu.virtual_machine) return Ok("execution", how, "every kind of guest runs");
      return Ok("execution", absl::StrCat(how, "; this host is itself a virtual machine"),
                "every kind of guest runs, and its exits to the VMM cost many times those of a real machine");
    }
    case Execution::kEmulatedKernel:
      return Warning("execution",
                     absl::StrCat("guest kernels are interpreted, guest programs run natively: ", speed,
                                  cpu.kvm_module.empty() ? "" : absl::StrCat(" (module ", cpu.kvm_module, ")")),
                     "Sluice's own bare-metal guests run well (they go to CPL3 at once), Linux guests do not boot here",
                     "For Linux guests use a host with VT-x or AMD-V (firmware settings; on a virtual machine, its "
                     "provider's nested virtualization), or `./dev nested -- CMD` in Sluice's source tree.");
    case Execution::kEmulated:
      break;
  }
  return Warning("execution", absl::StrCat("guests are interpreted altogether: ", speed),
                 "guests run thousands of times slower than the processor, Linux guests do not boot in useful time",
                 "Use a host with VT-x or AMD-V.");
}

}  // namespace sluice::hostcheck
