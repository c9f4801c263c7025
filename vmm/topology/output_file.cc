#include "vmm/topology/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"

namespace sluice::topology {
namespace {

std::string PartName(const std::string& path) {
  return path + ".part";
}

absl::Status NotRegular(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": is ", what));
}

// O_NONBLOCK for the open itself: a FIFO without a peer would block it for ever.
absl::StatusOr<UniqueFd> OpenRegular(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    if (errno == ELOOP && (flags & O_NOFOLLOW) != 0) return NotRegular(path, "a symbolic link, which is not followed");
    if (errno == ENXIO) return NotRegular(path, "not a regular file");
    if (errno == EISDIR) return NotRegular(path, "a directory, not a file");
    return ErrnoToStatus(errno, path);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoToStatus(errno, path);
  if (S_ISDIR(info.st_mode)) return NotRegular(path, "a directory, not a file");
  if (!S_ISREG(info.st_mode)) return NotRegular(path, "not a regular file");
  const int now = fcntl(fd.get(), F_GETFL);
  if (now < 0 || fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0) return ErrnoToStatus(errno, path);
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenOutput(const std::string& path) {
  // Emptied only once it is known to be a regular file.
  SLUICE_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path, O_WRONLY | O_CREAT | O_NOFOLLOW));
  if (ftruncate(fd.get(), 0) != 0) return ErrnoToStatus(errno, path);
  return fd;
}

absl::StatusOr<UniqueFd> OpenInput(const std::string& path) {
  return OpenRegular(path, O_RDONLY);
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view what) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return sluice::ErrnoToStatus(n < 0 ? errno : EIO, what);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<PartialFile> PartialFile::Create(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(UniqueFd fd, OpenOutput(PartName(path)));
  return PartialFile(path, std::move(fd));
}

PartialFile::~PartialFile() {
  if (!path_.empty()) unlink(PartName(path_).c_str());
}

absl::Status PartialFile::Commit() {
  if (std::rename(PartName(path_).c_str(), path_.c_str()) != 0) return ErrnoToStatus(errno, path_);
  path_.clear();
  return absl::OkStatus();
}

}  // namespace sluice::topology
