// File: kvm_probe.h
//
// Is there a KVM that this process may use, does it make VMs, and what can it do?
//
//   std::optional<kvm::System> system;
//   findings.push_back(ProbeKvm("/dev/kvm", &system));
//   if (system.has_value()) AppendTo(findings, ProbeCapabilities([&](kvm::Capability c) { return system->Check(c); }));
#ifndef SLUICE_VMM_HOSTCHECK_KVM_PROBE_H_
#define SLUICE_VMM_HOSTCHECK_KVM_PROBE_H_

#include <functional>
#include <optional>
#include <string>

#include "vmm/hostcheck/finding.h"
#include "vmm/kvm/system.h"

namespace sluice::hostcheck {

// Opens `device` and makes a VM, which is closed at once. `*system` is set if machines can run: all that they need is
// there. Subject "KVM".
Finding ProbeKvm(const std::string& device, std::optional<kvm::System>* system);

// What KVM offers beyond that. `check` answers as kvm::System::Check. Subject "KVM extras".
Finding ProbeCapabilities(const std::function<int(kvm::Capability)>& check);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_KVM_PROBE_H_
