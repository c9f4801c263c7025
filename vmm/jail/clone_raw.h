// File: clone_raw.h
//
// clone3(2) as a fork that also answers with a pidfd and makes namespaces. Internal to vmm/jail.
#ifndef SLUICE_VMM_JAIL_CLONE_RAW_H_
#define SLUICE_VMM_JAIL_CLONE_RAW_H_

#include <sys/types.h>

#include <cstdint>

namespace sluice::jail {

// Returns twice, as fork(2): 0 in the child, the pid in the parent (then *pidfd is open), -1 with errno. `flags`:
// CLONE_NEW* and CLONE_FS only. In the child of a multi-threaded parent nothing but system calls is safe: another
// thread may hold any lock.
pid_t CloneProcess(uint64_t flags, int* pidfd);

}  // namespace sluice::jail

#endif  // SLUICE_VMM_JAIL_CLONE_RAW_H_
