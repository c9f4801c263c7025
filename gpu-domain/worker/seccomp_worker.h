// File: seccomp_worker.h
//
// The system calls of a worker process (vmm/jail/seccomp.h): what loading a Vulkan driver takes (Init), and what
// executing a guest's commands takes (Run). The driver compiles shaders to machine code and starts threads per device,
// so Run allows executable memory and threads; it allows no file, no socket, no process, no device.
#ifndef SLUICE_GPU_DOMAIN_WORKER_SECCOMP_WORKER_H_
#define SLUICE_GPU_DOMAIN_WORKER_SECCOMP_WORKER_H_

#include <sys/types.h>

#include "vmm/jail/seccomp.h"

namespace sluice::worker {

// `pid`: of the worker, for signals to itself (abort).
jail::SeccompPolicy WorkerSeccompPolicy(pid_t pid);

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_SECCOMP_WORKER_H_
