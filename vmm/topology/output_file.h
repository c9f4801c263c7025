// File: output_file.h
//
// Files that a run writes into its output directory. The directory may be one that others can write to: a symbolic
// link, a FIFO or a device that waits there under the name of an output is refused, never followed and never waited
// for.
//
//   SLUICE_ASSIGN_OR_RETURN(UniqueFd log, OpenOutput("out/web-0.serial.log"));       // grows while the run lasts
//   SLUICE_ASSIGN_OR_RETURN(PartialFile file, PartialFile::Create("out/report.json"));  // appears whole or not at all
//   SLUICE_RETURN_IF_ERROR(WriteAll(file.fd(), text, "out/report.json"));
//   SLUICE_RETURN_IF_ERROR(file.Commit());
#ifndef SLUICE_VMM_TOPOLOGY_OUTPUT_FILE_H_
#define SLUICE_VMM_TOPOLOGY_OUTPUT_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vmm/base/unique_fd.h"

namespace sluice::topology {

// Creates or empties `path` and opens it for writing. FAILED_PRECONDITION: what is there is no regular file; else the
// error of open(2). Messages name the path. Never blocks.
absl::StatusOr<UniqueFd> OpenOutput(const std::string& path);

// Opens an existing regular file for reading. Errors as above; symbolic links are followed, as the user named the file.
absl::StatusOr<UniqueFd> OpenInput(const std::string& path);

// All of `bytes`, or the error of write(2) with `what` before it.
absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view what);

// A file under a temporary name (`path`.part) until Commit; removed if there is none. Replaces whatever non-directory
// has the name `path`, without opening it.
class PartialFile {
 public:
  static absl::StatusOr<PartialFile> Create(const std::string& path);
  PartialFile(PartialFile&& other) noexcept : path_(std::exchange(other.path_, "")), fd_(std::move(other.fd_)) {}
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile();

  int fd() const { return fd_.get(); }
  absl::Status Commit();

 private:
  PartialFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;  // "": committed or moved from
  UniqueFd fd_;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_OUTPUT_FILE_H_
