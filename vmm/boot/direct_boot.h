// File: direct_boot.h
//
// Starts a guest in 64-bit long mode without any BIOS: writes page tables, GDT, command line and hvm_start_info to
// guest memory and says what the boot vCPU's registers must be. Pure functions over GuestMemory; start_info.h is the
// guest's view.
//
//   DirectBootOptions options;
//   options.entry = image.entry;
//   options.cmdline = "seed=1";
//   options.identity_ranges = {*GuestRange::Create(GuestAddress(0xe0000000), 512 * kMiB)};
//   SLUICE_ASSIGN_OR_RETURN(VcpuState state, PrepareDirectBoot(ram, options));
//   SLUICE_RETURN_IF_ERROR(ApplyVcpuState(*vcpu, state));
#ifndef SLUICE_VMM_BOOT_DIRECT_BOOT_H_
#define SLUICE_VMM_BOOT_DIRECT_BOOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vmm/kvm/vcpu.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot {

struct DirectBootOptions {
  // First instruction, guest-physical (= virtual, the map is the identity). In RAM.
  memory::GuestAddress entry;
  // Shorter than kMaxCmdlineBytes, no NUL inside.
  std::string cmdline;
  // What to map besides RAM (BARs, ECAM, APICs), widened to 2 MiB. Below 512 GiB. RAM and these together may touch at
  // most ten different GiB.
  std::vector<memory::GuestRange> identity_ranges;
  // Ranges to list as reserved in the guest's memory map, e.g. the ECAM.
  std::vector<memory::GuestRange> reserved_ranges;
};

// Everything the boot vCPU starts with.
struct VcpuState {
  kvm_regs regs = {};
  // As KVM makes it, with what is different for long mode (ApplyVcpuState keeps apic_base and the interrupt bitmap).
  kvm_sregs sregs = {};
  kvm_fpu fpu = {};
  std::vector<kvm_msr_entry> msrs;
};

// Writes the boot data ([kBootDataStart, kBootDataEnd) must be RAM) and returns the registers: CR0 PE|MP|ET|NE|PG, CR4
// PAE|OSFXSR|OSXMMEXCPT, EFER LME|LMA, flat CPL0 segments, rbx = kBootStartInfo, rip = entry, rflags = 2,
// IA32_MTRR_DEF_TYPE = write-back, enabled. INVALID_ARGUMENT or OUT_OF_RANGE say what does not fit.
absl::StatusOr<VcpuState> PrepareDirectBoot(const memory::GuestMemory& ram, const DirectBootOptions& options);

// Sets them on the vCPU (whose CPUID must be set already: EFER and CR4 are checked against it). On the vCPU's thread or
// before it runs.
absl::Status ApplyVcpuState(kvm::Vcpu& vcpu, const VcpuState& state);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_DIRECT_BOOT_H_
