// Writes seeded garbage to everything that a guest can reach: configuration space, device registers, MSI-X, ports,
// virtqueues, control commands, ring and doorbells. Nobody but this VM may notice. It ends by itself with exit code 0
// after a bounded number of operations, whatever became of its device. Options: seed=N (default 1), ops=N (operations,
// default 3000), ms=N (time, default 1500), only=NAME (one kind of attack).
#include <string.h>

#include "firmware/guests/hostile/attack.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

namespace sluice::firmware {
namespace {

struct Kind {
  const char* name;
  void (*run)(Attack*);
};

constexpr Kind kKinds[] = {
    {"config", AttackConfigSpace}, {"registers", AttackRegisters}, {"msix", AttackMsix}, {"ports", AttackPorts},
    {"queues", AttackQueues},      {"commands", AttackCommands},   {"ring", AttackRing}, {"memory", AttackMemory},
};
constexpr uint64_t kKindCount = sizeof(kKinds) / sizeof(kKinds[0]);
// Attacks that find nothing to attack take no operations; this bounds them too.
constexpr uint64_t kMaxAttacks = 200;

}  // namespace

int GuestMain() {
  const uint64_t seed = OptionNumber("seed", 1);
  const uint64_t ops = OptionNumber("ops", 3000, 1, 100'000'000);
  const uint64_t ms = OptionNumber("ms", 1500, 1, 3'600'000);
  const char* only = Option("only", nullptr);
  Print("hostile: seed %llu\n", static_cast<unsigned long long>(seed));
  Attack attack(seed, ops, NowNs() + ms * 1'000'000);
  uint64_t attacks = 0;
  for (; attacks < kMaxAttacks && !attack.Over(); attacks++) {
    uint64_t pick = attack.Below(kKindCount);
    if (only != nullptr) {
      for (pick = 0; pick < kKindCount && strcmp(kKinds[pick].name, only) != 0; pick++) {
      }
      if (pick == kKindCount) Fail(ExitCode::kBadOption, "only=%s is no attack", only);
    }
    kKinds[pick].run(&attack);
  }
  // The serial port was a target too: 8 bits, no divisor latch, no loopback, no interrupts.
  Out8(0x3fb, 3);
  Out8(0x3f9, 0);
  Out8(0x3fc, 0);
  Print("\nhostile: done, %llu attacks, %llu operations\n", static_cast<unsigned long long>(attacks),
        static_cast<unsigned long long>(attack.ops_done()));
  return 0;
}

}  // namespace sluice::firmware
