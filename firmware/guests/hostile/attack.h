// File: attack.h
//
// What the attacks of the hostile guest share: the random source with its liking for edge values, the budget, and a
// device that is brought up again after each attack that broke it.
//
//   Attack attack(seed, ops, deadline_ns);
//   while (attack.Go()) Mmio<uint32_t>(bar + attack.Below(64) * 4).Write(attack.Odd32());
#ifndef SLUICE_FIRMWARE_GUESTS_HOSTILE_ATTACK_H_
#define SLUICE_FIRMWARE_GUESTS_HOSTILE_ATTACK_H_

#include <stdint.h>

#include "firmware/drivers/gpu.h"
#include "firmware/lib/random.h"

namespace sluice::firmware {

class Attack {
 public:
  Attack(uint64_t seed, uint64_t ops, uint64_t deadline_ns)
      : random_(seed), ops_left_(ops), deadline_ns_(deadline_ns) {}

  // Counts one operation; false when the budget of operations or time is used up.
  bool Go();
  // The same for the next `n` operations of one attack: false also when those are done.
  bool Go(uint64_t* n) { return *n > 0 && (*n)-- > 0 && Go(); }
  bool Over() const { return ops_left_ == 0; }
  uint64_t ops_done() const { return ops_done_; }

  Random& random() { return random_; }
  uint64_t Below(uint64_t n) { return random_.Below(n); }
  bool OneIn(uint64_t n) { return random_.OneIn(n); }
  // Numbers as attackers like them: zero, powers of two and their neighbours, all ones, small ones, and any.
  uint64_t Odd64();
  uint32_t Odd32() { return static_cast<uint32_t>(Odd64()); }
  // An address: in RAM, at its end, in a device, in the window, nowhere; aligned or not.
  uint64_t OddAddress();
  // Mutates 1..8 places of [data, data + bytes): bits, bytes, words, runs.
  void Mutate(uint8_t* data, uint64_t bytes);

  // Scratch memory that devices are pointed at: 256 KiB, rewritten at will.
  uint8_t* scratch() { return scratch_; }
  static constexpr uint64_t kScratchBytes = 256 * 1024;

 private:
  Random random_;
  uint64_t ops_left_;
  uint64_t ops_done_ = 0;
  uint64_t deadline_ns_;
  static uint8_t scratch_[kScratchBytes];
};

// The attacks, each bounded by the budget; each leaves the PCI function as it was (BARs, command register), the device
// in any state.
void AttackConfigSpace(Attack* attack);  // ECAM and CF8/CFC: every device, capabilities, BARs, command register
void AttackRegisters(Attack* attack);    // BAR 0: common, ISR, device configuration, notify; odd widths and places
void AttackMsix(Attack* attack);         // BAR 2: table and pending bits
void AttackPorts(Attack* attack);        // I/O ports and physical addresses where there is something, or nothing
void AttackQueues(Attack* attack);       // rings full of garbage behind a device that was started
void AttackCommands(Attack* attack);     // control and cursor commands, well formed to malformed
void AttackRing(Attack* attack);         // a context's ring: header, frames mutated from real ones, doorbells, kicks
void AttackMemory(Attack* attack);       // blobs, contexts and resources without end, window offsets that overlap

// A device brought up for an attack; null if it does not come up any more.
Gpu* OpenForAttack(Attack* attack);

// Remembers and restores what would take the device out of reach: command register, BARs.
class KeepPciFunction {
 public:
  KeepPciFunction();
  ~KeepPciFunction();
  bool present() const { return present_; }
  PciFunction& function() { return function_; }

 private:
  PciFunction function_;
  bool present_;
  uint16_t command_ = 0;
  uint32_t bars_[6] = {};
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_GUESTS_HOSTILE_ATTACK_H_
