// File: exit_code.h
//
// What `sluice` returns. Documented in `sluice --help` and the README; scripts rely on it.
#ifndef SLUICE_VMM_CLI_EXIT_CODE_H_
#define SLUICE_VMM_CLI_EXIT_CODE_H_

namespace sluice::cli {

enum ExitCode : int {
  kOk = 0,
  kFrontendFailed = 1,  // at least one front-end did not end well, or the run was interrupted or timed out
  kUsage = 2,           // wrong arguments
  kConfig = 3,          // the configuration file is wrong
  kNoDomain = 4,        // no GPU Domain of the OS type, no room, or fewer front-ends than domains
  kHost = 5,            // this host cannot: /dev/kvm or Vulkan missing, not permitted, or not usable
  kMissingFile = 6,     // the configuration or a file that it names is missing or unreadable
  kOutput = 7,          // a file in --out or standard output could not be written
  kInternal = 70,       // our fault
};

}  // namespace sluice::cli

#endif  // SLUICE_VMM_CLI_EXIT_CODE_H_
