// File: end.h
//
// Why a machine ended: a closed list. Reports, exit codes and tests speak of nothing else.
#ifndef SLUICE_VMM_MACHINE_END_H_
#define SLUICE_VMM_MACHINE_END_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::machine {

enum class EndCause {
  kGuestExit,      // the guest wrote its exit code to the debug exit port
  kPowerOff,       // the guest powered the machine off
  kGuestReset,     // the guest asked for a reset, and that ends this machine
  kGuestPanic,     // the guest's kernel panicked and said so
  kTripleFault,    // KVM_EXIT_SHUTDOWN
  kInternalError,  // KVM could not go on: an instruction that it does not emulate; `detail` has its bytes
  kMemoryFault,    // the guest touched memory that the host does not back (EFAULT)
  kFailEntry,      // the processor refused the guest's state
  kHalted,         // every vCPU halted for good (HLT without anything that could wake it)
  kStopped,        // the operator stopped it
  kHostError,      // the VMM failed: KVM_RUN or a host resource; `detail` has the status
};

// "guest exit", "triple fault", ...
absl::string_view EndCauseName(EndCause cause);

struct MachineEnd {
  EndCause cause = EndCause::kHostError;
  // kGuestExit: what the guest wrote, 0..255. kPowerOff: 0. Otherwise -1.
  int code = -1;
  // For people; may be empty. Contains numbers of the guest's choice, never text of its own.
  std::string detail;

  bool ok() const { return cause == EndCause::kPowerOff || (cause == EndCause::kGuestExit && code == 0); }
  // "guest exit 3", "KVM internal error (emulation failed at rip 0x100040: 0f 0b)".
  std::string ToString() const;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_END_H_
