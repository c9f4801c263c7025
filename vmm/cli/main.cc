// File: main.cc
//
// `sluice`: the one program of the host. See --help.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vmm/cli/args.h"
#include "vmm/cli/commands.h"
#include "vmm/cli/exit_code.h"
#include "vmm/machine/vm_process.h"
#include "vmm/topology/json.h"

namespace sluice::cli {
namespace {

constexpr char kHelp[] =
    R"(Sluice runs GPU work of many virtual machines on GPUs that no front-end VM and no host program touches.

usage: sluice VERB ...

  run TOPOLOGY     run a topology: GPU Domains and front-end VMs
  vm VM            run one VM
  check [FILE]     what this host can do, and whether a configuration file is sound
  trace dump FILE  print a captured command stream as JSON
  help VERB        the same as VERB --help
  --version

exit codes:
  0   ok
  1   a front-end did not end well, or the run was interrupted or timed out
  2   wrong arguments
  3   the configuration file is wrong
  4   no GPU Domain of the OS type, no room, or fewer front-ends than domains
  5   this host cannot: /dev/kvm or Vulkan missing, not permitted or not usable
  6   the configuration file or a file that it names is missing or unreadable
  7   a file in --out, or standard output, could not be written: disk full, or something else has that name
  70  internal error
)";

struct Verb {
  const ArgSpec& (*spec)();
  int (*command)(const Args& args);
};
constexpr Verb kVerbs[] = {
    {RunSpec, RunCommand}, {VmSpec, VmCommand}, {CheckSpec, CheckCommand}, {TraceSpec, TraceCommand}};

// `code`, unless what was printed did not get out and nothing else was wrong.
int FlushOutput(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout.good()) return code;
  Complain(absl::StrCat("standard output could not be written", errno != 0 ? ": " : "",
                        errno != 0 ? std::strerror(errno) : ""));
  return code == kOk ? kOutput : code;
}

int Main(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::cerr << kHelp;
    return kUsage;
  }
  if (arguments[0] == "help" && arguments.size() > 1) arguments = {arguments[1], "--help"};
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    std::cout << kHelp;
    return FlushOutput(kOk);
  }
  if (arguments[0] == "--version" || arguments[0] == "version") {
    std::cout << Version() << "\n";
    return FlushOutput(kOk);
  }
  for (const Verb& verb : kVerbs) {
    if (arguments[0] != verb.spec().verb) continue;
    const absl::StatusOr<Args> args = ParseArgs(verb.spec(), {arguments.begin() + 1, arguments.end()});
    if (!args.ok()) {
      Complain(args.status().message());
      return kUsage;
    }
    if (args->help) {
      std::cout << HelpText(verb.spec());
      return FlushOutput(kOk);
    }
    return FlushOutput(verb.command(*args));
  }
  Complain(absl::StrCat("'", arguments[0], "': unknown verb; there are: run, vm, check, trace. See sluice --help"));
  return kUsage;
}

}  // namespace

void Complain(absl::string_view text) {
  std::cerr << "sluice: " << topology::Escaped(text) << "\n";
}

std::string Version() {
  return absl::StrCat("sluice ", SLUICE_VERSION);
}

}  // namespace sluice::cli

int main(int argc, char** argv) {
  // Started by `sluice run` for each machine; not for people.
  if (argc > 1 && std::strcmp(argv[1], sluice::machine::kVmProcessVerb) == 0) {
    return sluice::machine::VmProcessMain(argc - 2, argv + 2);
  }
  // Closed standard descriptors would be taken by the first files that are opened, here and in children, and written
  // to.
  while (true) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
    if (fd < 0 || fd > STDERR_FILENO) break;
  }
  return sluice::cli::Main({argv + 1, argv + argc});
}
