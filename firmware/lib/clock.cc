#include "firmware/lib/clock.h"

#include "firmware/lib/cpu.h"
#include "firmware/lib/runtime.h"

extern "C" {
// struct pvclock_vcpu_time_info (Linux Documentation/virt/kvm/x86/msr.rst), written by KVM once start.S has named its
// address.
struct KvmClockPage {
  volatile uint32_t version;  // 0: not KVM; odd: being written
  uint32_t pad0;
  volatile uint64_t tsc_timestamp;
  volatile uint64_t system_time;
  volatile uint32_t tsc_to_system_mul;
  volatile int8_t tsc_shift;
  volatile uint8_t flags;
  uint8_t pad1[2];
};
extern KvmClockPage kvm_clock_page;
}

namespace sluice::firmware {
namespace {

uint64_t base_tsc;
uint64_t khz;
uint64_t ns_per_tick_32;  // 32.32 fixed point

// ns = ((ticks << shift) * mul) >> 32, so kHz = 10^6 * 2^32 / mul, shifted the other way.
uint64_t KhzFromKvmClock() {
  uint32_t mul, version;
  int shift;
  do {
    version = kvm_clock_page.version;
    mul = kvm_clock_page.tsc_to_system_mul;
    shift = kvm_clock_page.tsc_shift;
  } while (version != kvm_clock_page.version || (version & 1) != 0);
  if (version == 0 || mul == 0) return 0;
  uint64_t result = (1'000'000ull << 32) / mul;
  if (shift < 0) {
    result <<= -shift;
  } else {
    result >>= shift;
  }
  return result;
}

// Counts 2 ms of the APIC timer, whose bus cycle is 1 ns in KVM.
uint64_t KhzFromApicTimer() {
  constexpr uint64_t kLvtTimer = 0xfee00320, kInitial = 0xfee00380, kCurrent = 0xfee00390, kDivide = 0xfee003e0;
  constexpr uint32_t kMasked = 1u << 16, kDivideBy1 = 0xb, kTicks = 2'000'000, kAll = 0xffffffff;
  Mmio<uint32_t>(kDivide).Write(kDivideBy1);
  Mmio<uint32_t>(kLvtTimer).Write(kMasked);
  Mmio<uint32_t>(kInitial).Write(kAll);
  const uint32_t first = Mmio<uint32_t>(kCurrent).Read();
  const uint64_t begin = ReadTsc();
  uint32_t passed;
  do {
    passed = first - Mmio<uint32_t>(kCurrent).Read();
  } while (passed < kTicks);
  const uint64_t ticks = ReadTsc() - begin;
  Mmio<uint32_t>(kInitial).Write(0);
  return ticks * 1'000'000 / passed;
}

}  // namespace

void ClockInit() {
  base_tsc = ReadTsc();
  khz = OptionNumber("tsc_khz", 0, 0, 100'000'000);
  if (khz == 0) khz = KhzFromKvmClock();
  if (khz == 0) khz = KhzFromApicTimer();
  if (khz == 0) Fail(ExitCode::kAbort, "the time stamp counter stands still; give tsc_khz=");
  ns_per_tick_32 = (1'000'000ull << 32) / khz;
}

uint64_t TscToNs(uint64_t ticks) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * ns_per_tick_32) >> 32);
}

uint64_t NowNs() {
  return TscToNs(ReadTsc() - base_tsc);
}

uint64_t TscKhz() {
  return khz;
}

}  // namespace sluice::firmware
