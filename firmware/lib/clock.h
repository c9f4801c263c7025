// File: clock.h
//
// Time since the guest's start, from the time stamp counter.
//
//   uint64_t begin = NowNs();
//   Work();
//   Print("%llu us\n", (NowNs() - begin) / 1000);
//
// The counter's rate comes from the option tsc_khz=, else from kvmclock's page, else it is measured against the local
// APIC timer.
#ifndef SLUICE_FIRMWARE_LIB_CLOCK_H_
#define SLUICE_FIRMWARE_LIB_CLOCK_H_

#include <stdint.h>

namespace sluice::firmware {

// Once, by the runtime.
void ClockInit();

uint64_t NowNs();
uint64_t TscKhz();
// `ticks` of the counter as nanoseconds.
uint64_t TscToNs(uint64_t ticks);

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_CLOCK_H_
