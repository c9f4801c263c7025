// File: interrupts.h
//
// Interrupts count; nothing else happens in them. A driver gives its device a vector, looks at the vector's counter,
// looks for work, and sleeps until the counter is another:
//
//   const volatile uint64_t* count = InterruptCount(vector);
//   uint64_t seen = *count;
//   while (!queue.HasUsed()) { SleepUntilChanged(count, seen); seen = *count; }
//
// Interrupts are on whenever guest code runs, on its one vCPU.
#ifndef SLUICE_FIRMWARE_LIB_INTERRUPTS_H_
#define SLUICE_FIRMWARE_LIB_INTERRUPTS_H_

#include <stdint.h>

namespace sluice::firmware {

// Vectors kFirstVector .. kLastVector end in a counter; start.S has the stubs.
inline constexpr uint8_t kFirstVector = 0x20;
inline constexpr uint8_t kLastVector = 0xfe;
inline constexpr uint8_t kTimerVector = 0x30;  // local APIC timer
inline constexpr uint8_t kFirstDeviceVector = 0x40;

// MSI address of the boot processor, physical destination; the data is the vector (Intel SDM vol. 3, 11.11).
inline constexpr uint64_t kMsiAddress = 0xfee00000;

// A vector that nobody has been given yet; stops the guest when there is none.
uint8_t AllocateVector();

// How often the vector has come.
const volatile uint64_t* InterruptCount(uint8_t vector);

// Halts the vCPU while *word == seen, until any interrupt comes; without a race between the look and the halt. It may
// return early (another interrupt): loop around it.
void SleepUntilChanged(const volatile uint64_t* word, uint64_t seen);

// The same, and returns after `deadline_ns` (clock.h: NowNs) at the latest. Uses the local APIC timer.
void SleepUntilChangedOr(const volatile uint64_t* word, uint64_t seen, uint64_t deadline_ns);

// Halts for `ns`.
void SleepNs(uint64_t ns);

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_INTERRUPTS_H_
