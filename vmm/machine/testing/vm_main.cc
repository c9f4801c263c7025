// A binary that understands the vm-process verb, for vm_process_test.cc, and "forbidden": installs the policy of a VM
// process and makes a call that it does not allow. "abort" under the same policy aborts.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vmm/base/abort.h"
#include "vmm/machine/seccomp_vm.h"
#include "vmm/machine/vm_process.h"

int main(int argc, char** argv) {
  using namespace sluice;
  if (argc > 1 && std::strcmp(argv[1], machine::kVmProcessVerb) == 0) return machine::VmProcessMain(argc - 2, argv + 2);
  if (argc > 1 && (std::strncmp(argv[1], "forbidden", 9) == 0 || std::strcmp(argv[1], "abort") == 0)) {
    MakeAbortVisible();
    const auto policy = machine::VmSeccompPolicy(getpid());
    for (const auto phase : {jail::SeccompPhase::kInit, jail::SeccompPhase::kRun}) {
      if (const absl::Status status = policy.Install(phase, jail::SeccompMode::kKill); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        _exit(70);
      }
    }
    if (std::strcmp(argv[1], "forbidden-socket") == 0) (void)socket(AF_INET, SOCK_STREAM, 0);
    if (std::strcmp(argv[1], "forbidden-exec") == 0) execl("/bin/true", "true", nullptr);
    if (std::strcmp(argv[1], "forbidden-kill") == 0) (void)syscall(234 /* tgkill */, getppid(), getppid(), 0);
    if (std::strcmp(argv[1], "abort") == 0) std::abort();
    _exit(0);
  }
  return 64;
}
