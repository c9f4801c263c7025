#include "gpu-domain/worker/seccomp_worker.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <cerrno>

namespace sluice::worker {
namespace {

// ioctl types of GPU device files that the driver opened during Init: DRM ('d'), NVIDIA ('F'). Without such a file they
// reach nothing.
constexpr uint32_t kDrmIoctls = 'd' << 8;
constexpr uint32_t kNvidiaIoctls = 'F' << 8;

}  // namespace

jail::SeccompPolicy WorkerSeccompPolicy(pid_t pid) {
  using jail::ArgClear;
  using jail::ArgEquals32;
  using jail::ArgFilter;
  jail::SeccompPolicy policy("worker");

  // The channel's loop, ring threads, doorbells, the capture file, log lines.
  policy.Allow({"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll", "eventfd2", "read", "write",
                "writev", "close", "recvmsg", "sendmsg", "timerfd_settime"});
  // asio puts descriptors that it waits for into nonblocking mode.
  policy.AllowIf("ioctl", {ArgEquals32(1, FIONBIO)});
  for (const uint32_t command : {F_GETFL, F_SETFL, F_GETFD, F_DUPFD_CLOEXEC, F_GET_SEALS, F_ADD_SEALS}) {
    policy.AllowIf("fcntl", {ArgEquals32(1, command)});
  }

  // LLVM's streams ask where in a file they are, even of standard output.
  policy.Allow({"lseek"});

  // Blobs: sealed memfds. No path can be named.
  policy.Allow({"memfd_create", "ftruncate", "fstat"});

  // Memory: malloc, blobs, and machine code that the driver's compiler makes.
  policy.Allow({"mmap", "munmap", "mremap", "mprotect", "madvise", "brk"});

  // Threads: rings, queues, the driver's own. clone3 keeps its flags in memory, out of the filter's sight: libc falls
  // back to clone.
  policy.FailWith(ENOSYS, {"clone3"});
  policy.AllowIf("clone", {ArgFilter{0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM}});
  policy.Allow({"futex", "set_robust_list", "rseq", "gettid", "getpid", "rt_sigprocmask", "rt_sigaction", "sigaltstack",
                "sched_yield", "sched_getaffinity", "sched_setaffinity", "set_tid_address", "membarrier", "getcpu"});
  policy.AllowIf("prctl", {ArgEquals32(0, PR_SET_NAME)});
  policy.AllowIf("tgkill", {ArgEquals32(0, static_cast<uint32_t>(pid))});
  // The driver lowers the priority of its background threads; libc's thread attributes ask for limits.
  policy.Allow({"setpriority", "sched_setscheduler", "sched_getscheduler", "sched_getparam", "prlimit64", "sysinfo"});

  // Layers and drivers ask for whose home directory they might look in; it is nobody's and not there.
  policy.Allow({"getuid", "geteuid"});

  // Clocks; the vDSO falls back to these.
  policy.Allow({"clock_gettime", "gettimeofday", "clock_nanosleep", "nanosleep", "clock_getres"});
  policy.Allow({"getrandom"});

  // GPUs with a kernel driver.
  policy.AllowIf("ioctl", {ArgFilter{1, 0xff00, kDrmIoctls}});
  policy.AllowIf("ioctl", {ArgFilter{1, 0xff00, kNvidiaIoctls}});

  // Loading: the Vulkan loader looks for drivers in many places, drivers look for devices, the dynamic linker maps
  // them; drivers of displays try to reach a window system (it is not there). wait4: the helper of the empty root.
  policy.AllowInit({"pread64",  "getdents64", "statx",       "statfs",         "fstatfs",    "getcwd",
                    "uname",    "getgid",     "getegid",     "timerfd_create", "pipe2",      "wait4",
                    "getppid",  "arch_prctl", "socket",      "connect",        "getsockopt", "setsockopt",
                    "recvfrom", "sendto",     "getpeername", "getsockname",    "shutdown",   "flock",
                    "mlock",    "mkdir",      "unlink",      "rename",         "dup"});
  policy.AllowInitIf("fcntl", {});
  policy.AllowInitIf("ioctl", {});
  // Lazy look-ups of libraries (time zone, CPU topology, caches) find nothing in the empty root.
  policy.FailInRun(ENOENT, {"openat", "open", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "stat",
                            "lstat", "newfstatat", "mkdir", "unlink"});
  return policy;
}

}  // namespace sluice::worker
