// File: execution.h
//
// Does this host's KVM run guests on the processor, or does it interpret them? A KVM may do both: guest user code
// (CPL3) natively and guest kernel code (CPL0) in its instruction emulator, thousands of times slower. No file of the
// host says so for certain; a guest of a few instructions does, by the time that it takes.
//
//   SLUICE_ASSIGN_OR_RETURN(ExecutionRates rates, MeasureExecution(system));
//   findings.push_back(DescribeExecution(rates, ReadCpuFacts(host)));
#ifndef SLUICE_VMM_HOSTCHECK_EXECUTION_H_
#define SLUICE_VMM_HOSTCHECK_EXECUTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"
#include "vmm/kvm/system.h"

namespace sluice::hostcheck {

// Millions of guest instructions per second in a loop of two, best of three runs, 64-bit mode.
struct ExecutionRates {
  double kernel_mips = 0;  // at CPL0
  double user_mips = 0;    // at CPL3
};

enum class Execution {
  kHardware,        // both on the processor
  kEmulatedKernel,  // CPL0 interpreted, CPL3 on the processor
  kEmulated,        // both interpreted
};

// Below this a loop is interpreted: emulators on today's machines do 0.5 to 2, emulated processors with hardware
// virtualization 100 and more, real ones thousands.
inline constexpr double kInterpretedMips = 20;
Execution Classify(const ExecutionRates& rates);

// Runs the guest at both levels, 0.1 s or less where there is hardware. DEADLINE_EXCEEDED: it had not ended after
// `patience`; other errors are KVM's. The calling thread becomes the vCPU thread for that time.
absl::StatusOr<ExecutionRates> MeasureExecution(const kvm::System& system, absl::Duration patience = absl::Seconds(20));

// What the kernel says about the processor.
struct CpuFacts {
  bool svm = false;              // AMD-V
  bool vmx = false;              // VT-x
  bool virtual_machine = false;  // this host is itself a guest
  std::string kvm_module;        // "kvm_amd", "kvm_intel", another kvm_*, or empty
};
CpuFacts ReadCpuFacts(const HostFiles& host);

// Subject "execution".
Finding DescribeExecution(const ExecutionRates& rates, const CpuFacts& cpu);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_EXECUTION_H_
