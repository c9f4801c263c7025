#include "vmm/hostcheck/kvm_probe.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vmm/kvm/vm.h"

namespace sluice::hostcheck {
namespace {

using kvm::Capability;

// What every machine needs (vmm/machine): without one of these nothing runs.
constexpr std::initializer_list<Capability> kNeeded = {Capability::kIrqchip,   Capability::kUserMemory,
                                                       Capability::kIrqfd,     Capability::kIoeventfd,
                                                       Capability::kSignalMsi, Capability::kImmediateExit};

struct Extra {
  Capability capability;
  const char* without;  // what follows from its absence
};
constexpr Extra kExtras[] = {
    {Capability::kSplitIrqchip, "the whole interrupt controller is the kernel's, which costs milliseconds per start"},
    {Capability::kIoeventfdAnyLength, "a doorbell is bound to one length of write"},
    {Capability::kIrqfdResample, "level-triggered interrupts of passed-through devices go through the VMM"},
    {Capability::kReadonlyMemory, "read-only memory is not enforced by the kernel"},
    {Capability::kX2apicApi, "guests have at most 255 processors"},
    {Capability::kTscControl, "guests see the host's clock rate"},
    {Capability::kBinaryStatsFd, "the report has no exit counts"},
    {Capability::kExitOnEmulationFailure, "an instruction that KVM cannot emulate is not named"},
};

// For whoever has no KVM and wants to go on today.
constexpr char kFollows[] = "no VM runs here, GPU Domains as processes do";
constexpr char kMeanwhile[] =
    "To try VMs all the same, in Sluice's source tree: `./dev demo`, or `./dev nested -- CMD` for any command; they "
    "use "
    "an emulated machine that has KVM, slowly.";

}  // namespace

Finding ProbeKvm(const std::string& device, std::optional<kvm::System>* system) {
  system->reset();
  absl::StatusOr<kvm::System> opened = kvm::System::Open(device);
  if (!opened.ok()) {
    const std::string subject = absl::IsNotFound(opened.status()) ? absl::StrCat("no ", device, ": ") : std::string();
    // The message has its remedy.
    return Failure("KVM", absl::StrCat(subject, opened.status().message()), kFollows, kMeanwhile);
  }
  // A KVM that answers may still make no VM, for instance because another hypervisor holds the processor.
  if (const absl::Status made = kvm::Vm::Create(*opened).status(); !made.ok()) {
    return Failure("KVM", absl::StrCat(device, " is there but makes no VM: ", made.message()), kFollows,
                   absl::StrCat("See the kernel log, and end other hypervisors. ", kMeanwhile));
  }
  if (const absl::Status needed = opened->Require(kNeeded); !needed.ok()) {
    return Failure("KVM", needed.message(), kFollows, absl::StrCat("Use a kernel whose KVM has these. ", kMeanwhile));
  }
  *system = *std::move(opened);
  return Ok("KVM", absl::StrCat(device, " is there, permitted, and has what machines need"));
}

Finding ProbeCapabilities(const std::function<int(Capability)>& check) {
  std::vector<std::string> absent;
  for (const Extra& extra : kExtras) {
    if (check(extra.capability) == 0)
      absent.push_back(absl::StrCat(kvm::CapabilityName(extra.capability), " (", extra.without, ")"));
  }
  const std::string size =
      absl::StrCat("up to ", check(Capability::kMaxVcpus), " processors (", check(Capability::kNrVcpus),
                   " advised) and ", check(Capability::kNrMemslots), " memory slots per VM");
  if (absent.empty()) return Ok("KVM extras", absl::StrCat(size, "; nothing is missing"));
  return Note("KVM extras", absl::StrCat(size, "; without ", absl::StrJoin(absent, ", ")), "everything else works",
              "A newer kernel or other hardware may have them.");
}

}  // namespace sluice::hostcheck
