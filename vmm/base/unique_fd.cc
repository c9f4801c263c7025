#include "vmm/base/unique_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice {

absl::Status ErrnoToStatus(int error_number, absl::string_view what) {
  return absl::ErrnoToStatus(error_number, what);
}

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

absl::StatusOr<UniqueFd> UniqueFd::Duplicate() const {
  UniqueFd copy(fcntl(fd_, F_DUPFD_CLOEXEC, 3));
  if (!copy) return ErrnoToStatus(errno, "F_DUPFD_CLOEXEC");
  return copy;
}

absl::StatusOr<UniqueFd> CreateEventFd(bool nonblocking) {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | (nonblocking ? EFD_NONBLOCK : 0)));
  if (!fd) return ErrnoToStatus(errno, "eventfd");
  return fd;
}

void SignalEventFd(int fd) {
  const uint64_t one = 1;
  while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

uint64_t DrainEventFd(int fd) {
  uint64_t count = 0;
  ssize_t n;
  do {
    n = read(fd, &count, sizeof(count));
  } while (n < 0 && errno == EINTR);
  return n == sizeof(count) ? count : 0;
}

absl::StatusOr<UniqueFd> CreateMemFd(absl::string_view name, uint64_t size) {
  const auto rounded = CheckedAlignUp(size, kPageSize);
  if (!rounded.has_value() || *rounded == 0 || *rounded > (uint64_t{1} << 46)) {
    return absl::InvalidArgumentError(absl::StrCat("memfd ", name, ": size ", size, " is not usable"));
  }
  UniqueFd fd(memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return ErrnoToStatus(errno, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(*rounded)) != 0) return ErrnoToStatus(errno, "ftruncate of a memfd");
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return ErrnoToStatus(errno, "F_ADD_SEALS");
  return fd;
}

}  // namespace sluice
