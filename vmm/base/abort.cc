#include "vmm/base/abort.h"

#include <unistd.h>

#include <csignal>

namespace sluice {
namespace {

static_assert(kAbortExitCode == 128 + SIGABRT);

void OnAbort(int) {
  static constexpr char kText[] = "aborted\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kAbortExitCode);
}

}  // namespace

void MakeAbortVisible() {
  if (getpid() != 1) return;
  struct sigaction action = {};
  action.sa_handler = OnAbort;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace sluice
