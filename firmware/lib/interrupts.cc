#include "firmware/lib/interrupts.h"

#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/runtime.h"

extern "C" {
extern volatile uint64_t interrupt_counts[];
void SleepGate(const volatile uint64_t* word, uint64_t seen);
}

namespace sluice::firmware {
namespace {

// Local APIC registers (Intel SDM vol. 3, 11.4.1) and the rate of its timer in KVM.
constexpr uint64_t kApicLvtTimer = 0xfee00320;
constexpr uint64_t kApicTimerInitial = 0xfee00380;
constexpr uint64_t kApicTimerDivide = 0xfee003e0;
constexpr uint32_t kDivideBy16 = 0x3;
constexpr uint64_t kApicNsPerTick = 16;  // KVM: 1 ns per bus cycle

constexpr uint32_t kPeriodic = 1u << 17;
// While anybody sleeps with a deadline the timer ticks at least this often. Far deadlines need no more than the
// heartbeat, so that a sleep on a hot path costs no access to the APIC.
constexpr uint64_t kHeartbeatNs = 100'000'000;
constexpr uint64_t kMinTimerNs = 50'000;

uint8_t next_vector = kFirstDeviceVector;
uint64_t timer_period_ns = 0;

// Periodic, not one shot: a tick that comes between the look at the clock and the halt is missed, the next one is not.
void SetTimer(uint64_t period_ns) {
  if (timer_period_ns == period_ns) return;
  if (timer_period_ns == 0) {
    Mmio<uint32_t>(kApicTimerDivide).Write(kDivideBy16);
    Mmio<uint32_t>(kApicLvtTimer).Write(kTimerVector | kPeriodic);
  }
  Mmio<uint32_t>(kApicTimerInitial).Write(static_cast<uint32_t>(period_ns / kApicNsPerTick));
  timer_period_ns = period_ns;
}

}  // namespace

uint8_t AllocateVector() {
  if (next_vector == kLastVector) Fail(ExitCode::kAbort, "no interrupt vector left");
  return next_vector++;
}

const volatile uint64_t* InterruptCount(uint8_t vector) {
  return &interrupt_counts[vector - kFirstVector];
}

void SleepUntilChanged(const volatile uint64_t* word, uint64_t seen) {
  SleepGate(word, seen);
}

void SleepUntilChangedOr(const volatile uint64_t* word, uint64_t seen, uint64_t deadline_ns) {
  while (*word == seen) {
    const uint64_t now = NowNs();
    if (now >= deadline_ns) break;
    const uint64_t left = deadline_ns - now;
    SetTimer(left > kHeartbeatNs ? kHeartbeatNs : left < kMinTimerNs ? kMinTimerNs : left);
    SleepGate(word, seen);
  }
  if (timer_period_ns != 0) SetTimer(kHeartbeatNs);
}

void SleepNs(uint64_t ns) {
  const uint64_t deadline = NowNs() + ns;
  const volatile uint64_t* timer = InterruptCount(kTimerVector);
  while (NowNs() < deadline) SleepUntilChangedOr(timer, *timer, deadline);
}

}  // namespace sluice::firmware
