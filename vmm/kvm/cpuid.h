// File: cpuid.h
//
// CPUID tables as values, and what a vCPU should be told.
//
//   SLUICE_ASSIGN_OR_RETURN(CpuidTable supported, system.SupportedCpuid());
//   SLUICE_RETURN_IF_ERROR(vcpu->SetCpuid(MakeVcpuCpuid(supported, {.vcpus = 2}, /*vcpu=*/0)));
#ifndef SLUICE_VMM_KVM_CPUID_H_
#define SLUICE_VMM_KVM_CPUID_H_

#include <cstdint>
#include <vector>

#include "vmm/kvm/abi.h"

namespace sluice::kvm {

using CpuidTable = std::vector<kvm_cpuid_entry2>;

struct CpuTopology {
  uint32_t vcpus = 1;             // 1..255; one package
  uint32_t threads_per_core = 1;  // a power of two
  // The local APIC timer has a TSC-deadline mode (Capability::kTscDeadlineTimer, with local APICs in the kernel); KVM
  // does not say so in its table.
  bool tsc_deadline_timer = false;
};

// What vCPU `vcpu` (its APIC id, 0 <= vcpu < topology.vcpus) reports: `supported` with
//  * leaf 1: initial APIC id, logical processor count, HTT, the hypervisor bit, TSC-deadline; CLFLUSH size and features
//  as supported;
//  * leaf 4 and 0x8000001d: threads that share each cache, cores per package;
//  * leaf 0xb and 0x1f: thread and core level, x2APIC id (the leaves are made if `supported` has none and maximum leaf
//  allows);
//  * leaf 0x80000008 ECX (AMD): threads per package; 0x8000001e: extended APIC id and core id.
// See Intel SDM vol. 2A CPUID and AMD APM vol. 3 appendix E.
CpuidTable MakeVcpuCpuid(const CpuidTable& supported, const CpuTopology& topology, uint32_t vcpu);

// The entry for (function, index), or nullptr. `index` is ignored for leaves without a significant index.
const kvm_cpuid_entry2* FindCpuid(const CpuidTable& table, uint32_t function, uint32_t index = 0);

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_CPUID_H_
