#include "vmm/jail/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "vmm/base/status_macros.h"
#include "vmm/jail/clone_raw.h"

namespace sluice::jail {
namespace {

constexpr unsigned kNobody = 65534;

// Only in a mount namespace of our own, with private propagation. One inode: the root itself. pivot_root(".", ".")
// stacks the old root on the new one, where it is unmounted. System calls only: also runs in the helper.
bool PivotToEmpty() {
  constexpr unsigned long kMountFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  return syscall(SYS_mount, "sluice-empty", "/proc", "tmpfs", kMountFlags, "size=4k,nr_inodes=1,mode=0555") == 0 &&
         syscall(SYS_chdir, "/proc") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
         syscall(SYS_umount2, ".", MNT_DETACH) == 0 && syscall(SYS_chdir, "/") == 0 &&
         syscall(SYS_mount, "sluice-empty", "/", nullptr, MS_REMOUNT | MS_RDONLY | kMountFlags, nullptr) == 0;
}

// A mount namespace of our own, whatever Spawn obtained: a pivot in the host's would be a disaster.
bool OwnMounts() {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Runs in the helper: a process that shares the root directory (CLONE_FS) with the one to confine. System calls only.
[[noreturn]] void RunRootHelper(int socket, bool may_mount) {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  syscall(SYS_dup3, socket, 3, O_CLOEXEC);  // EINVAL when it is 3 already
  syscall(SYS_close_range, 4u, ~0u, 0);
  char byte = 0;
  if (syscall(SYS_read, 3, &byte, 1) != 1) syscall(SYS_exit_group, 0);

  EmptyRoot::Kind kind = EmptyRoot::Kind::kUnchanged;
  if (may_mount && PivotToEmpty()) {
    kind = EmptyRoot::Kind::kPivoted;
  } else if (syscall(SYS_chroot, "/proc/self/fdinfo") == 0 && syscall(SYS_chdir, "/") == 0) {
    kind = EmptyRoot::Kind::kChrooted;  // this process's own directory: gone once it exits, below
  }
  byte = static_cast<char>(kind);
  syscall(SYS_write, 3, &byte, 1);
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

// The id to become: in a user namespace made by Spawn the spare one, for root outside any namespace "nobody", else
// none.
std::optional<unsigned> ReadUnprivilegedId() {
  std::FILE* file = std::fopen("/proc/self/uid_map", "re");
  if (file == nullptr) return std::nullopt;
  std::optional<unsigned> id;
  unsigned inside = 0, outside = 0, count = 0;
  while (std::fscanf(file, "%u %u %u", &inside, &outside, &count) == 3) {
    if (inside == 1 && count == 1) id = 1;
    if (inside == 0 && count > kNobody) id = kNobody;
  }
  std::fclose(file);
  if (geteuid() != 0) return std::nullopt;
  return id;
}

// The same, kept from before the file system went. Single-threaded by contract.
std::optional<std::optional<unsigned>> remembered_id;
void RememberUnprivilegedId() {
  remembered_id = ReadUnprivilegedId();
}
std::optional<unsigned> UnprivilegedId() {
  return remembered_id.has_value() ? *remembered_id : ReadUnprivilegedId();
}

}  // namespace

const char* EmptyRoot::KindName(Kind kind) {
  switch (kind) {
    case Kind::kPivoted:
      return "empty tmpfs";
    case Kind::kChrooted:
      return "empty chroot";
    case Kind::kUnchanged:
      return "unchanged";
  }
  return "?";
}

EmptyRoot::EmptyRoot(EmptyRoot&& other) noexcept
    : helper_(std::exchange(other.helper_, -1)), socket_(std::move(other.socket_)) {}

EmptyRoot& EmptyRoot::operator=(EmptyRoot&& other) noexcept {
  if (this != &other) {
    Abandon();
    helper_ = std::exchange(other.helper_, -1);
    socket_ = std::move(other.socket_);
  }
  return *this;
}

EmptyRoot::~EmptyRoot() {
  Abandon();
}

void EmptyRoot::Abandon() {
  socket_.Reset();
  if (helper_ < 0) return;
  while (waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  helper_ = -1;
}

absl::StatusOr<EmptyRoot::Kind> EmptyRoot::EnterNow() {
  // /proc is about to go, and DropPrivileges() wants to know its id map.
  RememberUnprivilegedId();
  if (OwnMounts() && PivotToEmpty()) return Kind::kPivoted;
  SLUICE_ASSIGN_OR_RETURN(EmptyRoot root, Prepare());
  return root.Enter();
}

absl::StatusOr<EmptyRoot> EmptyRoot::Prepare() {
  const bool may_mount = OwnMounts();
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return ErrnoToStatus(errno, "socketpair");
  EmptyRoot root;
  root.socket_.Reset(sockets[0]);
  const UniqueFd helper_socket(sockets[1]);
  int pidfd = -1;
  const pid_t pid = CloneProcess(CLONE_FS, &pidfd);
  if (pid < 0) return ErrnoToStatus(errno, "clone3(CLONE_FS)");
  if (pid == 0) RunRootHelper(helper_socket.get(), may_mount);
  close(pidfd);
  root.helper_ = pid;
  return root;
}

absl::StatusOr<EmptyRoot::Kind> EmptyRoot::Enter() {
  if (helper_ < 0) return absl::FailedPreconditionError("EmptyRoot::Enter: not prepared, or entered before");
  char byte = 1;
  const bool answered = write(socket_.get(), &byte, 1) == 1 && read(socket_.get(), &byte, 1) == 1;
  Abandon();
  if (!answered) return absl::InternalError("EmptyRoot::Enter: the helper process is gone");
  return static_cast<Kind>(byte);
}

absl::Status DropPrivileges() {
  const std::optional<unsigned> id = UnprivilegedId();
  int parent_death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &parent_death_signal);

  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP,
          capability);  // EPERM without CAP_SETPCAP: then no exec can gain anything either (no_new_privs)
  }
  prctl(PR_SET_SECUREBITS,
        SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
  if (id.has_value()) {
    // Raw calls: glibc's would also signal the threads that a sanitizer runtime keeps.
    if (syscall(SYS_setgroups, 0, nullptr) != 0) return ErrnoToStatus(errno, "setgroups");
    if (syscall(SYS_setresgid, *id, *id, *id) != 0) return ErrnoToStatus(errno, "setresgid");
    if (syscall(SYS_setresuid, *id, *id, *id) != 0) return ErrnoToStatus(errno, "setresuid");
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return ErrnoToStatus(errno, "capset");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoToStatus(errno, "PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return ErrnoToStatus(errno, "PR_SET_DUMPABLE");
  // A change of credentials clears it (prctl(2)).
  if (parent_death_signal != 0 && prctl(PR_SET_PDEATHSIG, parent_death_signal) != 0) {
    return ErrnoToStatus(errno, "PR_SET_PDEATHSIG");
  }
  return absl::OkStatus();
}

}  // namespace sluice::jail
