// File: seccomp_vm.h
//
// What a VM process may ask of the kernel. seccomp_vm.cc says why, call by call.
#ifndef SLUICE_VMM_MACHINE_SECCOMP_VM_H_
#define SLUICE_VMM_MACHINE_SECCOMP_VM_H_

#include <sys/types.h>

#include "vmm/jail/seccomp.h"

namespace sluice::machine {

// `pid`: the process's own id as it sees it (signals go to no other).
jail::SeccompPolicy VmSeccompPolicy(pid_t pid);

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_SECCOMP_VM_H_
