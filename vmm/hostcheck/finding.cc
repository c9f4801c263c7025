#include "vmm/hostcheck/finding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::hostcheck {
namespace {

Finding Make(Finding::Level level, absl::string_view subject, absl::string_view found, absl::string_view follows,
             absl::string_view remedy) {
  return {level, std::string(subject), std::string(found), std::string(follows), std::string(remedy)};
}

}  // namespace

Finding Ok(absl::string_view subject, absl::string_view found, absl::string_view follows) {
  return Make(Finding::Level::kOk, subject, found, follows, "");
}
Finding Note(absl::string_view subject, absl::string_view found, absl::string_view follows, absl::string_view remedy) {
  return Make(Finding::Level::kNote, subject, found, follows, remedy);
}
Finding Warning(absl::string_view subject, absl::string_view found, absl::string_view follows,
                absl::string_view remedy) {
  return Make(Finding::Level::kWarning, subject, found, follows, remedy);
}
Finding Failure(absl::string_view subject, absl::string_view found, absl::string_view follows,
                absl::string_view remedy) {
  return Make(Finding::Level::kFailure, subject, found, follows, remedy);
}

absl::string_view LevelName(Finding::Level level) {
  switch (level) {
    case Finding::Level::kOk:
      return "ok";
    case Finding::Level::kNote:
      return "note";
    case Finding::Level::kWarning:
      return "warning";
    case Finding::Level::kFailure:
      return "failure";
  }
  return "?";
}

std::string FindingLine(const Finding& finding) {
  const absl::string_view mark = finding.level == Finding::Level::kFailure ? "FAILED" : LevelName(finding.level);
  std::string line = absl::StrFormat("%-8s%s: %s", mark, finding.subject, finding.found);
  if (!finding.follows.empty()) absl::StrAppend(&line, ": ", finding.follows);
  if (!finding.remedy.empty()) absl::StrAppend(&line, ". ", finding.remedy);
  return line;
}

}  // namespace sluice::hostcheck
