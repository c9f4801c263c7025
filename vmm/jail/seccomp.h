// File: seccomp.h
//
// System call filters, declared beside the code that they confine. One policy has two phases: Init (loading,
// mapping, threads) and Run (steady state); Run is a subset. Anything not allowed kills the process. The filter is the
// same in every build type; sanitizer builds add the few calls that their runtimes make (SanitizerCalls).
//
//   const SeccompPolicy policy = SeccompPolicy("vm")
//       .Allow({"read", "write", "futex", "exit_group"})
//       .AllowIf("ioctl", {ArgEquals32(1, KVM_RUN)})              // vCPU threads
//       .FailWith(EPERM, {"openat"})                              // glibc asks for /etc/localtime; it may not have it
//       .AllowInit({"clone3", "mmap", "mprotect"});
//   SLUICE_RETURN_IF_ERROR(policy.Install(SeccompPhase::kInit, SeccompModeFromEnvironment()));
//   ...
//   SLUICE_RETURN_IF_ERROR(policy.Install(SeccompPhase::kRun, SeccompModeFromEnvironment()));
//
// See seccomp(2), seccomp_rule_add(3).
#ifndef SLUICE_VMM_JAIL_SECCOMP_H_
#define SLUICE_VMM_JAIL_SECCOMP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::jail {

enum class SeccompPhase { kInit, kRun };

// What happens to a call that no rule names.
enum class SeccompMode {
  kKill,  // SIGSYS, the whole process, no handler: the default
  kTrap,  // the same end, after one line on standard error that names the call: for development
  kLog,   // allowed, and logged by the kernel (audit): for finding out what a policy lacks
};

// From SLUICE_SECCOMP: "kill" or unset, "trap", "log". Anything else is kKill. Read it before the environment can be
// influenced.
SeccompMode SeccompModeFromEnvironment();

// A condition on one argument (0..5) of a call: (argument & mask) == value.
struct ArgFilter {
  unsigned index = 0;
  uint64_t mask = ~uint64_t{0};
  uint64_t value = 0;
};
// The low 32 bits equal `value`: what the kernel looks at for `int` arguments (ioctl numbers, flags).
inline ArgFilter ArgEquals32(unsigned index, uint32_t value) {
  return {index, 0xffff'ffff, value};
}
// None of `bits` is set.
inline ArgFilter ArgClear(unsigned index, uint64_t bits) {
  return {index, bits, 0};
}

// Immutable description; building never fails, Install() reports unknown names.
class SeccompPolicy {
 public:
  explicit SeccompPolicy(std::string name) : name_(std::move(name)) {}

  // Calls allowed in both phases, whatever their arguments.
  SeccompPolicy& Allow(std::vector<std::string> calls);
  // Allowed in the Init phase only.
  SeccompPolicy& AllowInit(std::vector<std::string> calls);
  // Allowed in both phases when all `filters` hold. Several rules for one call: any may hold.
  SeccompPolicy& AllowIf(absl::string_view call, std::vector<ArgFilter> filters);
  SeccompPolicy& AllowInitIf(absl::string_view call, std::vector<ArgFilter> filters);
  // Answered with `error_number` instead of death, both phases: calls that libraries try and live without.
  SeccompPolicy& FailWith(int error_number, std::vector<std::string> calls);
  // Allowed in the Init phase, answered with `error_number` in the Run phase. (The Init filter stays in force under the
  // Run filter, so a call that it kills can never merely fail later.)
  SeccompPolicy& FailInRun(int error_number, std::vector<std::string> calls);

  // Loads the filter for all threads of the process (TSYNC) and sets no_new_privs. Filters stack: after kRun nothing
  // widens again. Errors: INVALID_ARGUMENT naming the policy and the call that this kernel's table lacks; INTERNAL from
  // the kernel.
  absl::Status Install(SeccompPhase phase, SeccompMode mode) const;

  const std::string& name() const { return name_; }
  // One line per rule, sorted, for documentation and tests: "ioctl(arg1 & 0xffffffff == 0xae80)".
  std::string Describe(SeccompPhase phase) const;

 private:
  struct Rule {
    std::string call;
    std::vector<ArgFilter> filters;
    int error_number = 0;  // 0: allow
    bool init = true;
    bool run = true;
  };
  SeccompPolicy& Add(std::vector<std::string> calls, int error_number, bool init, bool run);

  std::string name_;
  std::vector<Rule> rules_;
};

// Calls that a sanitizer's runtime makes at any time (its allocator maps, its reports symbolise and read /proc). Empty
// in normal builds. Install() adds them itself.
const std::vector<std::string>& SanitizerCalls();

}  // namespace sluice::jail

#endif  // SLUICE_VMM_JAIL_SECCOMP_H_
