// File: spawn.h
//
// Starts a confined child by exec: given descriptors at given numbers, everything else closed, fresh namespaces where
// the host permits them, limits set, and death tied to the parent. The child then takes the steps that only it can take
// (privileges.h: empty root, no capabilities; seccomp.h: system call filters).
//
//   SpawnOptions options;
//   options.program = SiblingBinary("sluice-worker");
//   options.arguments = {"--name=web-0"};
//   options.fds = {{channel.get(), 3}, {stats.get(), 4}};
//   options.namespaces = Namespaces::All();
//   SLUICE_ASSIGN_OR_RETURN(ChildProcess child, Spawn(options));
//   ...
//   child.Kill();
//   SLUICE_ASSIGN_OR_RETURN(ExitStatus status, child.Wait(absl::Seconds(5)));
//
// See namespaces(7), user_namespaces(7), clone(2) (clone3), pidfd_open(2).
#ifndef SLUICE_VMM_JAIL_SPAWN_H_
#define SLUICE_VMM_JAIL_SPAWN_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "vmm/base/unique_fd.h"

namespace sluice::jail {

// A set of Linux namespaces. In SpawnOptions: the ones wanted. In ChildProcess: the ones obtained.
struct Namespaces {
  bool user = false;
  bool mount = false;
  bool net = false;
  bool pid = false;
  bool ipc = false;
  bool uts = false;

  static Namespaces All() { return {true, true, true, true, true, true}; }
  bool any() const { return user || mount || net || pid || ipc || uts; }
  bool operator==(const Namespaces&) const = default;
  // "user,mount,net,pid,ipc,uts" or "none".
  std::string ToString() const;
};

struct PassedFd {
  int fd = -1;     // in this process; stays open here
  int number = 0;  // in the child; 0, 1 and 2 replace the standard streams
};

struct SpawnOptions {
  // Absolute path of the binary.
  std::string program;
  // argv[1] and on; argv[0] is `program`.
  std::vector<std::string> arguments;
  // "KEY=value" entries. The child sees these and nothing of the parent's environment; see InheritedEnvironment().
  std::vector<std::string> environment;
  // Each `number` at most once, below 64. Standard error is kept unless replaced; standard input and output are
  // /dev/null unless replaced.
  std::vector<PassedFd> fds;
  // Wanted namespaces. What the kernel or its policy refuses is left out and ChildProcess::namespaces tells so;
  // with `namespaces_required` a refusal is PERMISSION_DENIED instead.
  Namespaces namespaces;
  bool namespaces_required = false;
  // The child is killed when the *thread* that called Spawn ends (PR_SET_PDEATHSIG): spawn from a thread that lives as
  // long as the child should.
  bool die_with_parent = true;
  // RLIMIT_NOFILE, RLIMIT_FSIZE (bytes; memfds count), RLIMIT_AS: unset leaves the parent's. RLIMIT_CORE is always 0.
  std::optional<uint64_t> max_open_files;
  std::optional<uint64_t> max_file_bytes;
};

// How a child ended.
struct ExitStatus {
  int code = 0;    // exit code when signal == 0
  int signal = 0;  // the signal that killed it, or 0
  bool clean() const { return code == 0 && signal == 0; }
  // "exit code 3", "killed by signal 31 (Bad system call: outside its seccomp policy)".
  std::string ToString() const;
};

// A running child, owned. Movable. Destruction kills and reaps it: nothing is left behind.
class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Readable once the child has ended: for an event loop.
  int pidfd() const { return pidfd_.get(); }
  const Namespaces& namespaces() const { return namespaces_; }
  bool running() const { return pidfd_.valid(); }

  // SIGKILL; harmless when it has ended. Does not reap.
  void Kill();
  // Sends `signal` through the pidfd (never to a recycled pid). Inside a PID namespace the child is init: signals other
  // than SIGKILL reach it only if it handles them.
  absl::Status Signal(int signal);
  // Reaps the child. DEADLINE_EXCEEDED when it still runs after `timeout` (absl::ZeroDuration(): only look).
  absl::StatusOr<ExitStatus> Wait(absl::Duration timeout);

 private:
  friend absl::StatusOr<ChildProcess> Spawn(const SpawnOptions& options);
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  Namespaces namespaces_;
};

// Starts the child. Errors: INVALID_ARGUMENT (bad options), NOT_FOUND and others from execve(2) with the program's
// name, PERMISSION_DENIED (namespaces_required). Returns after a successful exec. Thread-safe.
absl::StatusOr<ChildProcess> Spawn(const SpawnOptions& options);

// Which namespaces this process may create, found by trying (a short-lived child). Cached per process.
Namespaces ProbeNamespaces();

// Path of a binary in the directory of the running one: SiblingBinary("sluice-worker").
std::string SiblingBinary(absl::string_view name);

// The entries of this process's environment with these names, as "KEY=value". Always adds PATH, LANG and the
// sanitizers' options (ASAN_OPTIONS, UBSAN_OPTIONS, TSAN_OPTIONS) and SLUICE_SECCOMP where set.
std::vector<std::string> InheritedEnvironment(const std::vector<std::string>& names = {});

}  // namespace sluice::jail

#endif  // SLUICE_VMM_JAIL_SPAWN_H_
