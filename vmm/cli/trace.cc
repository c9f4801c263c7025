// `sluice trace dump FILE`.
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "gpu-domain/trace/dump.h"
#include "vmm/cli/commands.h"
#include "vmm/cli/exit_code.h"

namespace sluice::cli {

const ArgSpec& TraceSpec() {
  static const ArgSpec* const spec =
      new ArgSpec{"trace",
                  "dump FILE",
                  "Prints a captured command stream (\"capture\": true in a topology) as JSON, one command a line.",
                  {},
                  2,
                  2};
  return *spec;
}

int TraceCommand(const Args& args) {
  if (args.positional[0] != "dump") {
    Complain(absl::StrCat("trace ", args.positional[0], ": unknown; there is: trace dump FILE"));
    return kUsage;
  }
  const std::string& file = args.positional[1];
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    Complain(absl::StrCat(file, ": no such file"));
    return kMissingFile;
  }
  if (!std::filesystem::is_regular_file(file, error)) {  // a FIFO would be waited for
    Complain(absl::StrCat(file, ": is not a regular file"));
    return kMissingFile;
  }
  const absl::Status status = trace::DumpTrace(file, std::cout);
  std::cout << std::flush;
  if (status.ok()) return kOk;
  Complain(absl::StrCat(file, ": ", status.message()));
  return kConfig;
}

}  // namespace sluice::cli
