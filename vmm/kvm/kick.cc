#include "vmm/kvm/kick.h"

#include <signal.h>

#include <cerrno>

#include "vmm/base/mutex.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/vcpu.h"

namespace sluice::kvm {
namespace {

// Its being called is the point: a signal without a handler would end the process or be ignored.
void OnKick(int) {}

}  // namespace

int Vcpu::kick_signal() {
  return SIGUSR1;
}

absl::Status internal::InstallKickHandler() {
  static Mutex mu;
  MutexLock lock(&mu);
  struct sigaction current = {};
  if (sigaction(SIGUSR1, nullptr, &current) != 0) return ErrnoToStatus(errno, "sigaction(SIGUSR1)");
  if ((current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == OnKick) return absl::OkStatus();
  if ((current.sa_flags & SA_SIGINFO) != 0 || (current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN)) {
    return absl::FailedPreconditionError("SIGUSR1 has a handler already; vCPU kicks need that signal");
  }
  struct sigaction ours = {};
  ours.sa_handler = OnKick;
  // KVM_RUN answers EINTR in any case; with this the thread's other system calls go on undisturbed.
  ours.sa_flags = SA_RESTART;
  if (sigaction(SIGUSR1, &ours, nullptr) != 0) return ErrnoToStatus(errno, "sigaction(SIGUSR1)");
  return absl::OkStatus();
}

}  // namespace sluice::kvm
