#include "vmm/jail/seccomp.h"

#include <seccomp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "vmm/base/status_macros.h"

namespace sluice::jail {
namespace {

// Without these no process can even end or return from a signal handler.
const char* const kAlways[] = {"exit", "exit_group", "rt_sigreturn", "restart_syscall"};
// What installing the Run filter takes.
const char* const kInitAlways[] = {"seccomp", "prctl"};

// isatty(3), which a sanitizer asks before it colours a report.
constexpr uint32_t kTcgets = 0x5401;

// SIGSYS in SeccompMode::kTrap: says which call it was, then ends with the code that ExitStatus::ToString explains.
// Development only: the name look-up allocates.
void OnTrap(int, siginfo_t* info, void*) {
  char* name = seccomp_syscall_resolve_num_arch(info->si_arch, info->si_syscall);
  char line[160];
  const int length = std::snprintf(line, sizeof(line), "seccomp: system call %s (%d) is outside the policy\n",
                                   name != nullptr ? name : "?", info->si_syscall);
  (void)!write(STDERR_FILENO, line, static_cast<size_t>(length));
  _exit(128 + SIGSYS);
}

std::string RuleText(absl::string_view call, const std::vector<ArgFilter>& filters, int error_number) {
  std::vector<std::string> conditions;
  for (const ArgFilter& f : filters) {
    conditions.push_back(f.mask == ~uint64_t{0} ? absl::StrFormat("arg%u == %#x", f.index, f.value)
                                                : absl::StrFormat("arg%u & %#x == %#x", f.index, f.mask, f.value));
  }
  std::string text(call);
  if (!conditions.empty()) absl::StrAppend(&text, "(", absl::StrJoin(conditions, ", "), ")");
  if (error_number != 0) absl::StrAppend(&text, " -> ", strerrorname_np(error_number));
  return text;
}

}  // namespace

SeccompMode SeccompModeFromEnvironment() {
  const char* value = getenv("SLUICE_SECCOMP");
  if (value != nullptr && absl::string_view(value) == "trap") return SeccompMode::kTrap;
  if (value != nullptr && absl::string_view(value) == "log") return SeccompMode::kLog;
  return SeccompMode::kKill;
}

const std::vector<std::string>& SanitizerCalls() {
  static const std::vector<std::string> calls = {
#if defined(SLUICE_ASAN) || defined(SLUICE_TSAN)
    // Shadow memory and the sanitizers' own allocator.
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "mremap",
    "brk",
    // Thread registration, stacks of reports, clocks.
    "sigaltstack",
    "gettid",
    "getpid",
    "sched_yield",
    "sched_getaffinity",
    "getrlimit",
    "prlimit64",
    "clock_gettime",
    "nanosleep",
    "clock_nanosleep",
    "futex",
    "getcpu",
    "rt_sigprocmask",
    "rt_sigaction",
    "tgkill",
    // Reports: write, and read /proc/self/maps and the binary for symbols.
    "write",
    "open",
    "openat",
    "read",
    "close",
    "stat",
    "fstat",
    "newfstatat",
    "lseek",
    "readlink",
    "ioctl",
    "getuid",
    "geteuid",
    "uname",
    "dup",
    "access",
    "process_vm_readv",
    // UBSan asks whether memory can be read by writing it to a pipe.
    "pipe",
    "pipe2",
#endif
  };
  return calls;
}

SeccompPolicy& SeccompPolicy::Add(std::vector<std::string> calls, int error_number, bool init, bool run) {
  for (std::string& call : calls) rules_.push_back({std::move(call), {}, error_number, init, run});
  return *this;
}
SeccompPolicy& SeccompPolicy::Allow(std::vector<std::string> calls) {
  return Add(std::move(calls), 0, true, true);
}
SeccompPolicy& SeccompPolicy::AllowInit(std::vector<std::string> calls) {
  return Add(std::move(calls), 0, true, false);
}
SeccompPolicy& SeccompPolicy::FailWith(int error_number, std::vector<std::string> calls) {
  return Add(std::move(calls), error_number, true, true);
}
SeccompPolicy& SeccompPolicy::FailInRun(int error_number, std::vector<std::string> calls) {
  AllowInit(calls);
  return Add(std::move(calls), error_number, false, true);
}
SeccompPolicy& SeccompPolicy::AllowIf(absl::string_view call, std::vector<ArgFilter> filters) {
  rules_.push_back({std::string(call), std::move(filters), 0, true, true});
  return *this;
}
SeccompPolicy& SeccompPolicy::AllowInitIf(absl::string_view call, std::vector<ArgFilter> filters) {
  rules_.push_back({std::string(call), std::move(filters), 0, true, false});
  return *this;
}

absl::Status SeccompPolicy::Install(SeccompPhase phase, SeccompMode mode) const {
  const bool init = phase == SeccompPhase::kInit;
  const std::string where = absl::StrCat("seccomp policy ", name_, init ? " (init)" : " (run)");
  uint32_t default_action = SCMP_ACT_KILL_PROCESS;
  if (mode == SeccompMode::kLog) default_action = SCMP_ACT_LOG;
  if (mode == SeccompMode::kTrap) default_action = SCMP_ACT_TRAP;

  if (mode == SeccompMode::kTrap && init) {
    struct sigaction action = {};
    action.sa_sigaction = OnTrap;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, nullptr) != 0) return ErrnoToStatus(errno, where + ": sigaction(SIGSYS)");
  }

  scmp_filter_ctx context = seccomp_init(default_action);
  if (context == nullptr) return absl::InternalError(where + ": seccomp_init failed");
  const absl::Cleanup release = [context] { seccomp_release(context); };
  // All threads at once, and a binary search instead of one comparison per rule: KVM_RUN passes here on every exit.
  if (int rc = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1); rc != 0) {
    return ErrnoToStatus(-rc, where + ": TSYNC");
  }
  seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);

  auto add = [&](const std::string& call, const std::vector<ArgFilter>& filters, int error_number) -> absl::Status {
    const int number = seccomp_syscall_resolve_name(call.c_str());
    if (number == __NR_SCMP_ERROR)
      return absl::InvalidArgumentError(absl::StrCat(where, ": unknown system call '", call, "'"));
    std::vector<scmp_arg_cmp> comparisons;
    for (const ArgFilter& f : filters) {
      if (f.index > 5) return absl::InvalidArgumentError(absl::StrCat(where, ": ", call, ": no argument ", f.index));
      comparisons.push_back(SCMP_CMP64(f.index, SCMP_CMP_MASKED_EQ, f.mask, f.value));
    }
    const uint32_t action = error_number == 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(static_cast<uint32_t>(error_number));
    const int rc =
        seccomp_rule_add_array(context, action, number, static_cast<unsigned>(comparisons.size()), comparisons.data());
    if (rc == -EEXIST) return absl::OkStatus();  // said before
    if (rc != 0) return ErrnoToStatus(-rc, absl::StrCat(where, ": rule ", RuleText(call, filters, error_number)));
    return absl::OkStatus();
  };
  for (const char* call : kAlways) SLUICE_RETURN_IF_ERROR(add(call, {}, 0));
  if (init) {
    for (const char* call : kInitAlways) SLUICE_RETURN_IF_ERROR(add(call, {}, 0));
  }
  for (const std::string& call : SanitizerCalls()) SLUICE_RETURN_IF_ERROR(add(call, {}, 0));
  if (!SanitizerCalls().empty()) SLUICE_RETURN_IF_ERROR(add("ioctl", {ArgEquals32(1, kTcgets)}, 0));
  for (const Rule& rule : rules_) {
    if (!(init ? rule.init : rule.run)) continue;
    // A sanitizer build allows some calls outright; a narrower rule for one of them would be refused as contradictory.
    const auto& extra = SanitizerCalls();
    if (std::find(extra.begin(), extra.end(), rule.call) != extra.end()) continue;
    SLUICE_RETURN_IF_ERROR(add(rule.call, rule.filters, rule.error_number));
  }
  if (int rc = seccomp_load(context); rc != 0) return ErrnoToStatus(-rc, where + ": seccomp_load");
  return absl::OkStatus();
}

std::string SeccompPolicy::Describe(SeccompPhase phase) const {
  std::vector<std::string> lines;
  for (const Rule& rule : rules_) {
    if (phase == SeccompPhase::kInit ? rule.init : rule.run)
      lines.push_back(RuleText(rule.call, rule.filters, rule.error_number));
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return absl::StrJoin(lines, "\n");
}

}  // namespace sluice::jail
