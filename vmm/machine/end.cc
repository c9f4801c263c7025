#include "vmm/machine/end.h"

#include "absl/strings/str_cat.h"

namespace sluice::machine {

absl::string_view EndCauseName(EndCause cause) {
  switch (cause) {
    case EndCause::kGuestExit:
      return "guest exit";
    case EndCause::kPowerOff:
      return "guest power-off";
    case EndCause::kGuestPanic:
      return "guest panic";
    case EndCause::kGuestReset:
      return "guest reset";
    case EndCause::kTripleFault:
      return "triple fault";
    case EndCause::kInternalError:
      return "KVM internal error";
    case EndCause::kMemoryFault:
      return "memory fault";
    case EndCause::kFailEntry:
      return "guest state refused";
    case EndCause::kHalted:
      return "halted";
    case EndCause::kStopped:
      return "stopped";
    case EndCause::kHostError:
      return "host error";
  }
  return "unknown";
}

std::string MachineEnd::ToString() const {
  std::string text(EndCauseName(cause));
  if (cause == EndCause::kGuestExit) absl::StrAppend(&text, " ", code);
  if (!detail.empty()) absl::StrAppend(&text, " (", detail, ")");
  return text;
}

}  // namespace sluice::machine
