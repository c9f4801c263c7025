// File: privileges.h
//
// What a confined process does to itself after exec: leave the file system, give up every capability.
//
//   SLUICE_ASSIGN_OR_RETURN(EmptyRoot root, EmptyRoot::Prepare());  // single-threaded, still privileged in its
//   namespace SLUICE_RETURN_IF_ERROR(DropPrivileges());
//   ... open libraries, start threads ...
//   SLUICE_ASSIGN_OR_RETURN(EmptyRoot::Kind kind, root.Enter());    // from here no path resolves to anything
//
// See capabilities(7), pivot_root(2), prctl(2).
#ifndef SLUICE_VMM_JAIL_PRIVILEGES_H_
#define SLUICE_VMM_JAIL_PRIVILEGES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "vmm/base/unique_fd.h"

namespace sluice::jail {

// Replaces the root directory of this process (all its threads) with an empty, read-only one. Two steps, because
// privileges go before a driver's code runs and the file system goes after it has been loaded: Prepare() forks a
// small helper that shares this process's root directory and keeps the right to change it; Enter() tells it to, once.
class EmptyRoot {
 public:
  enum class Kind {
    kPivoted,    // a read-only tmpfs without entries; the old tree is unmounted from this mount namespace
    kChrooted,   // the directory of a process that has ended: empty, cannot be written
    kUnchanged,  // the host permits neither (no user namespace, not root)
  };
  static const char* KindName(Kind kind);

  EmptyRoot() = default;
  EmptyRoot(EmptyRoot&& other) noexcept;
  EmptyRoot& operator=(EmptyRoot&& other) noexcept;
  ~EmptyRoot();  // without Enter(): ends the helper, changes nothing

  // Both steps at once, without a helper where mounting is permitted: for a process that needs no path any more. Call
  // while single-threaded and before DropPrivileges().
  static absl::StatusOr<Kind> EnterNow();
  // Call while single-threaded and before DropPrivileges(). Never fails for lack of permission: Enter() then reports
  // kUnchanged.
  static absl::StatusOr<EmptyRoot> Prepare();
  // Changes the root. Once. Needs write, read, close, wait4 (the seccomp Init phase allows them).
  absl::StatusOr<Kind> Enter();

 private:
  void Abandon();
  pid_t helper_ = -1;
  UniqueFd socket_;
};

// Drops every capability from all five sets, including the bounding set; locks securebits so that uid 0 means nothing;
// sets no_new_privs and not-dumpable. When Spawn gave the process a user namespace with a spare id (supervisor run as
// root), becomes that id, which owns nothing. Call while single-threaded: threads started later inherit it.
absl::Status DropPrivileges();

}  // namespace sluice::jail

#endif  // SLUICE_VMM_JAIL_PRIVILEGES_H_
