// File: resident_raw.h
//
// How much of a mapping is in memory, for the "resident memory without guest RAM" figure.
#ifndef SLUICE_VMM_MACHINE_RESIDENT_RAW_H_
#define SLUICE_VMM_MACHINE_RESIDENT_RAW_H_

#include <cstdint>

#include "vmm/base/mapping.h"

namespace sluice::machine {

// Bytes of `mapping` whose pages exist, from mincore(2); 0 if the kernel does not say.
uint64_t ResidentBytes(const Mapping& mapping);

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_RESIDENT_RAW_H_
