#include "vmm/jail/clone_raw.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::jail {

pid_t CloneProcess(uint64_t flags, int* pidfd) {
  clone_args args = {};
  args.flags = flags | CLONE_PIDFD;
  // SAFETY: clone_args carries pointers as integers; the kernel writes one int there before the call returns, while
  // `pidfd` is alive. No CLONE_VM: the child has a copy of this memory, not this memory.
  args.pidfd = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pidfd));
  args.exit_signal = SIGCHLD;
  return static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
}

}  // namespace sluice::jail
