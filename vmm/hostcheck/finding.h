// File: finding.h
//
// One thing that was found out about this host: what it is, what follows from it, and how to change it.
//
//   Finding f = Warning("huge pages", "none are reserved", "guests run on 4 KiB pages", "sysctl vm.nr_hugepages=512");
//   std::cout << FindingLine(f);  // "warning huge pages: none are reserved: guests ..."
#ifndef SLUICE_VMM_HOSTCHECK_FINDING_H_
#define SLUICE_VMM_HOSTCHECK_FINDING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::hostcheck {

struct Finding {
  enum class Level {
    kOk,       // there, and usable
    kNote,     // something optional is absent: what needs it does not work here
    kWarning,  // works, but worse than it could
    kFailure,  // something that every VM or every GPU Domain needs is missing
  };
  Level level = Level::kOk;
  std::string subject;  // "KVM", "execution", "GPU 0000:01:00.0": for people and as a key for scripts
  std::string found;    // what was seen, no final stop
  std::string follows;  // what that means for Sluice, no final stop; may be empty
  std::string remedy;   // what to do about it, a whole sentence; empty where nothing needs to be done
};

Finding Ok(absl::string_view subject, absl::string_view found, absl::string_view follows = "");
Finding Note(absl::string_view subject, absl::string_view found, absl::string_view follows,
             absl::string_view remedy = "");
Finding Warning(absl::string_view subject, absl::string_view found, absl::string_view follows,
                absl::string_view remedy);
Finding Failure(absl::string_view subject, absl::string_view found, absl::string_view follows,
                absl::string_view remedy);

// "ok", "note", "warning", "failure".
absl::string_view LevelName(Finding::Level level);

// "FAILED  KVM: FOUND: FOLLOWS. REMEDY", without a final newline. Text from outside (names of devices) is as it was.
std::string FindingLine(const Finding& finding);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_FINDING_H_
