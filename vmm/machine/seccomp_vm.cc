#include "vmm/machine/seccomp_vm.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cerrno>

#include "vmm/kvm/abi.h"

namespace sluice::machine {

jail::SeccompPolicy VmSeccompPolicy(pid_t pid) {
  using jail::ArgClear;
  using jail::ArgEquals32;
  jail::SeccompPolicy policy("vm");

  // The event loop and what it reads: control socket, service channel, eventfds, timers.
  policy.Allow({"epoll_wait", "epoll_pwait", "epoll_ctl", "read", "write", "writev", "close", "recvmsg", "sendmsg",
                "poll", "ppoll", "timerfd_settime"});
  // asio puts descriptors that it waits for into nonblocking mode.
  policy.AllowIf("ioctl", {ArgEquals32(1, FIONBIO)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_GETFL)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_SETFL)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_GETFD)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_DUPFD_CLOEXEC)});

  // Blobs and pictures: memfds from the worker are checked (size, seals) and mapped, pictures are written into new
  // ones.
  policy.AllowIf("fcntl", {ArgEquals32(1, F_GET_SEALS)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_ADD_SEALS)});
  policy.Allow({"memfd_create", "ftruncate", "fstat", "newfstatat", "eventfd2"});

  // Memory: malloc and mappings, never executable.
  policy.AllowIf("mmap", {ArgClear(2, PROT_EXEC)});
  policy.AllowIf("mprotect", {ArgClear(2, PROT_EXEC)});
  policy.Allow({"munmap", "mremap", "madvise", "brk", "mincore"});

  // Threads: locks, and the kick that gets a vCPU thread out of KVM_RUN (a signal to this process only). abort() needs
  // the rest.
  policy.Allow({"futex", "gettid", "getpid", "rt_sigprocmask", "rt_sigaction", "sched_yield", "sched_getaffinity",
                "sched_getparam", "sched_getscheduler",  // absl::Mutex orders its waiters by priority
                "set_robust_list", "rseq", "sigaltstack"});
  policy.AllowIf("tgkill", {ArgEquals32(0, static_cast<uint32_t>(pid))});
  // Clocks; the vDSO falls back to these.
  policy.Allow({"clock_gettime", "gettimeofday", "clock_nanosleep", "nanosleep"});
  // RESOURCE_ASSIGN_UUID.
  policy.Allow({"getrandom"});

  // KVM while the guest runs: the guest itself; blobs, doorbells and interrupts that come and go; registers for a
  // diagnosis.
  for (const unsigned long request :
       {static_cast<unsigned long>(KVM_RUN), static_cast<unsigned long>(KVM_SET_USER_MEMORY_REGION),
        static_cast<unsigned long>(KVM_IOEVENTFD), static_cast<unsigned long>(KVM_IRQFD),
        static_cast<unsigned long>(KVM_SET_GSI_ROUTING), static_cast<unsigned long>(KVM_SIGNAL_MSI),
        static_cast<unsigned long>(KVM_GET_REGS), static_cast<unsigned long>(KVM_GET_SREGS)}) {
    policy.AllowIf("ioctl", {ArgEquals32(1, static_cast<uint32_t>(request))});
  }

  // A guest that boots again: its kernel is read once more, and its vCPUs get the registers that they began with.
  policy.Allow({"pread64"});
  for (const unsigned long request :
       {static_cast<unsigned long>(KVM_SET_REGS), static_cast<unsigned long>(KVM_SET_SREGS),
        static_cast<unsigned long>(KVM_SET_FPU), static_cast<unsigned long>(KVM_GET_MSRS),
        static_cast<unsigned long>(KVM_SET_MSRS), static_cast<unsigned long>(KVM_SET_XSAVE),
        static_cast<unsigned long>(KVM_SET_XCRS), static_cast<unsigned long>(KVM_SET_DEBUGREGS),
        static_cast<unsigned long>(KVM_SET_LAPIC), static_cast<unsigned long>(KVM_SET_VCPU_EVENTS),
        static_cast<unsigned long>(KVM_SET_MP_STATE)}) {
    policy.AllowIf("ioctl", {ArgEquals32(1, static_cast<uint32_t>(request))});
  }

  // Building the machine: the rest of KVM, threads, the firmware image.
  policy.AllowInit({"clone3", "clone", "lseek", "epoll_create1", "timerfd_create", "prlimit64", "uname", "sysinfo"});
  policy.AllowInitIf("ioctl", {jail::ArgFilter{1, 0xffff'ff00, KVMIO << 8}});    // _IO(KVMIO, ...)
  for (const uint32_t direction : {0x4000'0000u, 0x8000'0000u, 0xc000'0000u}) {  // _IOW, _IOR, _IOWR of any size
    policy.AllowInitIf("ioctl", {jail::ArgFilter{1, 0xc000'ff00, direction | (KVMIO << 8)}});
  }
  // Name resolution of any kind finds nothing in the empty root; the first log line looks for the time zone.
  policy.FailInRun(ENOENT, {"openat", "access", "readlink"});
  return policy;
}

}  // namespace sluice::machine
