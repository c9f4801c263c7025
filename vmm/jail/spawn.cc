#include "vmm/jail/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "vmm/base/abort.h"
#include "vmm/base/status_macros.h"
#include "vmm/jail/clone_raw.h"

namespace sluice::jail {
namespace {

constexpr int kMaxFdNumber = 64;
constexpr int kParkedFd = 128;  // where descriptors wait while the low numbers are rearranged
constexpr unsigned kNobody = 65534;
constexpr int kTrapExitCode = 128 + SIGSYS;  // seccomp.cc: SeccompMode::kTrap

struct NamespaceFlag {
  bool Namespaces::*member;
  uint64_t flag;
  const char* name;
};
constexpr NamespaceFlag kFlags[] = {
    {&Namespaces::user, CLONE_NEWUSER, "user"}, {&Namespaces::mount, CLONE_NEWNS, "mount"},
    {&Namespaces::net, CLONE_NEWNET, "net"},    {&Namespaces::pid, CLONE_NEWPID, "pid"},
    {&Namespaces::ipc, CLONE_NEWIPC, "ipc"},    {&Namespaces::uts, CLONE_NEWUTS, "uts"},
};

uint64_t CloneFlags(const Namespaces& ns) {
  uint64_t flags = 0;
  for (const NamespaceFlag& f : kFlags) {
    if (ns.*f.member) flags |= f.flag;
  }
  return flags;
}

Namespaces Intersect(const Namespaces& a, const Namespaces& b) {
  Namespaces both;
  for (const NamespaceFlag& f : kFlags) both.*f.member = a.*f.member && b.*f.member;
  return both;
}

bool WriteFile(const std::string& path, absl::string_view text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.valid() && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Maps id 0 of the child's user namespace to this process's user. A privileged parent also maps id 1 to "nobody", which
// the child becomes in DropPrivileges(): root's children do not stay root's.
bool WriteIdMaps(pid_t pid) {
  const std::string proc = absl::StrCat("/proc/", pid, "/");
  const std::string two_uids = absl::StrCat("0 ", geteuid(), " 1\n1 ", kNobody, " 1\n");
  if (WriteFile(proc + "uid_map", two_uids)) {
    return WriteFile(proc + "gid_map", absl::StrCat("0 ", getegid(), " 1\n1 ", kNobody, " 1\n"));
  }
  return WriteFile(proc + "uid_map", absl::StrCat("0 ", geteuid(), " 1\n")) && WriteFile(proc + "setgroups", "deny") &&
         WriteFile(proc + "gid_map", absl::StrCat("0 ", getegid(), " 1\n"));
}

// What the child sends before it gives up.
struct ChildError {
  int step = 0;
  int error_number = 0;
};
constexpr const char* kSteps[] = {"fcntl(F_DUPFD)", "dup2", "setrlimit", "prctl", "execve", "close_range"};
enum Step { kStepPark, kStepDup, kStepLimit, kStepPrctl, kStepExec, kStepCloseRange };

// Everything that the child needs, laid out before the clone: the child allocates nothing.
struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<PassedFd> fds;
  std::vector<int> parked;
  bool die_with_parent = true;
  bool own_mounts = false;
  std::vector<std::pair<int, rlimit>> limits;
  int go_fd = -1;     // one byte when the id maps are written
  int error_fd = -1;  // ChildError
};

[[noreturn]] void Fail(const ChildPlan& plan, Step step) {
  const ChildError error = {step, errno};
  syscall(SYS_write, plan.error_fd, &error, sizeof(error));
  syscall(SYS_exit_group, 127);
  __builtin_unreachable();
}

// Runs in the child. Raw system calls only (see clone_raw.h); also keeps sanitizer runtimes out of the way.
[[noreturn]] void RunChild(ChildPlan& plan) {
  char go = 0;
  if (syscall(SYS_read, plan.go_fd, &go, 1) != 1) syscall(SYS_exit_group, 127);  // the parent gave up or died
  if (plan.die_with_parent && syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) Fail(plan, kStepPrctl);
  syscall(SYS_setsid);  // a Ctrl-C on the terminal is for the supervisor alone
  if (plan.own_mounts) syscall(SYS_mount, nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);

  const long error_fd = syscall(SYS_fcntl, plan.error_fd, F_DUPFD_CLOEXEC, kParkedFd);
  if (error_fd < 0) Fail(plan, kStepPark);
  plan.error_fd = static_cast<int>(error_fd);
  for (size_t i = 0; i < plan.fds.size(); ++i) {
    const long fd = syscall(SYS_fcntl, plan.fds[i].fd, F_DUPFD_CLOEXEC, kParkedFd);
    if (fd < 0) Fail(plan, kStepPark);
    plan.parked[i] = static_cast<int>(fd);
  }
  if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0) Fail(plan, kStepCloseRange);
  for (size_t i = 0; i < plan.fds.size(); ++i) {
    if (syscall(SYS_dup3, plan.parked[i], plan.fds[i].number, 0) < 0) Fail(plan, kStepDup);
  }
  for (const auto& [resource, limit] : plan.limits) {
    if (syscall(SYS_prlimit64, 0, resource, &limit, nullptr) != 0) Fail(plan, kStepLimit);
  }
  if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail(plan, kStepPrctl);
  const uint64_t no_signals = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, sizeof(no_signals));
  syscall(SYS_execve, plan.argv[0], plan.argv.data(), plan.envp.data());
  Fail(plan, kStepExec);
}

// Blocks every signal while the child shares our handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }

 private:
  sigset_t saved_;
};

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe2");
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

bool TryNamespaces(const Namespaces& ns) {
  auto go = MakePipe();
  if (!go.ok()) return false;
  int pidfd = -1;
  const SignalsBlocked blocked;
  const pid_t pid = CloneProcess(CloneFlags(ns), &pidfd);
  if (pid < 0) return false;
  if (pid == 0) {
    char byte = 0;
    syscall(SYS_read, go->first.get(), &byte, 1);
    syscall(SYS_exit_group, 0);
  }
  const UniqueFd owned(pidfd);
  const bool mapped = !ns.user || WriteIdMaps(pid);
  (void)!write(go->second.get(), "g", 1);
  siginfo_t info = {};
  while (waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return mapped;
}

absl::Status CheckOptions(const SpawnOptions& options) {
  if (options.program.empty() || options.program[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("Spawn: program is not an absolute path: '", options.program, "'"));
  }
  std::set<int> numbers;
  for (const PassedFd& passed : options.fds) {
    if (passed.fd < 0 || passed.number < 0 || passed.number >= kMaxFdNumber || !numbers.insert(passed.number).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("Spawn: bad descriptor ", passed.fd, " for number ", passed.number));
    }
  }
  return absl::OkStatus();
}

// The pid, or -1 with errno from clone3 or the id maps. On success *pidfd is open and the child runs on.
pid_t StartChild(const Namespaces& ns, ChildPlan& plan, int go_write, UniqueFd* pidfd) {
  const SignalsBlocked blocked;
  int raw_pidfd = -1;
  plan.own_mounts = ns.mount;
  const pid_t pid = CloneProcess(CloneFlags(ns), &raw_pidfd);
  if (pid < 0) return -1;
  if (pid == 0) {
    syscall(SYS_close, go_write);  // else the child would keep its own read from ending when the parent dies
    RunChild(plan);
  }
  pidfd->Reset(raw_pidfd);
  if (ns.user && !WriteIdMaps(pid)) {
    const int saved = errno;
    syscall(SYS_pidfd_send_signal, raw_pidfd, SIGKILL, nullptr, 0);
    siginfo_t info = {};
    while (waitid(P_PIDFD, static_cast<id_t>(raw_pidfd), &info, WEXITED) != 0 && errno == EINTR) {
    }
    pidfd->Reset();
    errno = saved;
    return -1;
  }
  return pid;
}

}  // namespace

std::string Namespaces::ToString() const {
  std::vector<absl::string_view> names;
  for (const NamespaceFlag& f : kFlags) {
    if (this->*f.member) names.push_back(f.name);
  }
  return names.empty() ? "none" : absl::StrJoin(names, ",");
}

std::string ExitStatus::ToString() const {
  if (signal == SIGSYS || (signal == 0 && code == kTrapExitCode)) {
    return absl::StrCat("killed by signal ", SIGSYS, " (Bad system call: outside its seccomp policy)");
  }
  if (signal != 0) return absl::StrCat("killed by signal ", signal, " (", sigdescr_np(signal), ")");
  // The first process of a PID namespace cannot end by a signal of its own: see abort.h.
  if (code == kAbortExitCode) return absl::StrCat("aborted (exit code ", code, ")");
  return absl::StrCat("exit code ", code);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), namespaces_(other.namespaces_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    if (running()) {
      Kill();
      (void)Wait(absl::InfiniteDuration());
    }
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    namespaces_ = other.namespaces_;
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  Kill();
  (void)Wait(absl::InfiniteDuration());
}

void ChildProcess::Kill() {
  (void)Signal(SIGKILL);
}

absl::Status ChildProcess::Signal(int signal) {
  if (!running()) return absl::FailedPreconditionError("the child has ended");
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) != 0) {
    return ErrnoToStatus(errno, "pidfd_send_signal");
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitStatus> ChildProcess::Wait(absl::Duration timeout) {
  if (!running()) return absl::FailedPreconditionError("the child was reaped before");
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      const absl::Status status = ErrnoToStatus(errno, "waitid");
      pidfd_.Reset();
      return status;
    }
    if (info.si_pid != 0) {
      pidfd_.Reset();
      ExitStatus status;
      if (info.si_code == CLD_EXITED) {
        status.code = info.si_status;
      } else {
        status.signal = info.si_status;
      }
      return status;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " still runs"));
    }
    pollfd poll_fd = {pidfd_.get(), POLLIN, 0};
    const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(ms, 1'000'000)));
  }
}

absl::StatusOr<ChildProcess> Spawn(const SpawnOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  SLUICE_ASSIGN_OR_RETURN(auto go, MakePipe());
  SLUICE_ASSIGN_OR_RETURN(auto error, MakePipe());
  const UniqueFd null_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid()) return ErrnoToStatus(errno, "open /dev/null");

  ChildPlan plan;
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = options.environment;
  for (std::string& argument : arguments) plan.argv.push_back(argument.data());
  for (std::string& entry : environment) plan.envp.push_back(entry.data());
  plan.argv.push_back(nullptr);
  plan.envp.push_back(nullptr);
  plan.fds = options.fds;
  for (int number : {STDIN_FILENO, STDOUT_FILENO}) {
    bool given = false;
    for (const PassedFd& passed : options.fds) given |= passed.number == number;
    if (!given) plan.fds.push_back({null_fd.get(), number});
  }
  plan.parked.resize(plan.fds.size(), -1);
  plan.die_with_parent = options.die_with_parent;
  plan.limits.push_back({RLIMIT_CORE, {0, 0}});
  if (options.max_open_files)
    plan.limits.push_back({RLIMIT_NOFILE, {*options.max_open_files, *options.max_open_files}});
  if (options.max_file_bytes) plan.limits.push_back({RLIMIT_FSIZE, {*options.max_file_bytes, *options.max_file_bytes}});
  plan.go_fd = go.first.get();
  plan.error_fd = error.second.get();

  ChildProcess child;
  child.namespaces_ = options.namespaces;
  child.pid_ = StartChild(child.namespaces_, plan, go.second.get(), &child.pidfd_);
  if (child.pid_ < 0 && options.namespaces.any()) {
    const absl::Status refused =
        ErrnoToStatus(errno, absl::StrCat("clone3 with namespaces ", options.namespaces.ToString()));
    if (options.namespaces_required) return absl::PermissionDeniedError(refused.message());
    child.namespaces_ = Intersect(options.namespaces, ProbeNamespaces());
    child.pid_ = StartChild(child.namespaces_, plan, go.second.get(), &child.pidfd_);
  }
  if (child.pid_ < 0) return ErrnoToStatus(errno, "clone3");

  error.second.Reset();
  go.first.Reset();
  (void)!write(go.second.get(), "g", 1);
  ChildError failure;
  ssize_t got;
  do {
    got = read(error.first.get(), &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  if (got == 0) return child;  // closed by the exec
  child.Kill();
  (void)child.Wait(absl::InfiniteDuration());
  const char* step =
      failure.step >= 0 && failure.step < static_cast<int>(std::size(kSteps)) ? kSteps[failure.step] : "?";
  return ErrnoToStatus(failure.error_number, absl::StrCat("start ", options.program, ": ", step));
}

Namespaces ProbeNamespaces() {
  static const Namespaces permitted = [] {
    if (TryNamespaces(Namespaces::All())) return Namespaces::All();
    Namespaces found;
    found.user = TryNamespaces({.user = true});
    for (const NamespaceFlag& f : kFlags) {
      if (f.flag == CLONE_NEWUSER) continue;
      Namespaces candidate = found;
      candidate.*f.member = true;
      if (TryNamespaces(candidate)) found = candidate;
    }
    return found;
  }();
  return permitted;
}

std::string SiblingBinary(absl::string_view name) {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
}

std::vector<std::string> InheritedEnvironment(const std::vector<std::string>& names) {
  std::set<std::string> wanted = {"PATH", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "SLUICE_SECCOMP"};
  wanted.insert(names.begin(), names.end());
  std::vector<std::string> entries;
  for (const std::string& name : wanted) {
    if (const char* value = getenv(name.c_str())) entries.push_back(absl::StrCat(name, "=", value));
  }
  return entries;
}

}  // namespace sluice::jail
