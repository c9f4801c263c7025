// File: clock.h
//
// The clock that processes of one host share: what first_instruction_ns is measured with.
#ifndef SLUICE_VMM_MACHINE_CLOCK_H_
#define SLUICE_VMM_MACHINE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace sluice::machine {

// CLOCK_MONOTONIC, nanoseconds.
inline uint64_t MonotonicNanos() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_CLOCK_H_
