// File: entry_state.h
//
// Private to vmm/boot: the pieces of processor state that every way to start a guest has in common.
#ifndef SLUICE_VMM_BOOT_ENTRY_STATE_H_
#define SLUICE_VMM_BOOT_ENTRY_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "vmm/boot/direct_boot.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot::internal {

// Descriptors of a flat CPL0 world and what the segment registers then hold.
enum class Mode { kLong, kProtected32 };

// Writes a GDT at kBootGdt with code, data and busy TSS (two entries) at these selectors, null elsewhere, and the TSS
// at kBootTss.
struct Selectors {
  uint16_t code;
  uint16_t data;
  uint16_t tss;
};
absl::Status WriteGdtAndTss(const memory::GuestMemory& ram, const Selectors& selectors, Mode mode);

// Registers to go with them: segments, tables, control registers (long mode: paging on, CR3 = kBootPageTables),
// rflags = 2, FPU as after reset, MTRRs on with write-back.
VcpuState FlatState(const Selectors& selectors, Mode mode);

}  // namespace sluice::boot::internal

#endif  // SLUICE_VMM_BOOT_ENTRY_STATE_H_
