// File: kick.h
//
// Private to vmm/kvm: the process-wide signal handler behind Vcpu::Kick().
#ifndef SLUICE_VMM_KVM_KICK_H_
#define SLUICE_VMM_KVM_KICK_H_

#include "absl/status/status.h"

namespace sluice::kvm::internal {

// Makes SIGUSR1 interrupt KVM_RUN and do nothing else. Idempotent. FAILED_PRECONDITION if the program handles it
// otherwise.
absl::Status InstallKickHandler();

}  // namespace sluice::kvm::internal

#endif  // SLUICE_VMM_KVM_KICK_H_
