// File: unique_fd.h
//
// A file descriptor with one owner; closed when the owner goes. Movable, not copyable; thread-compatible.
#ifndef SLUICE_VMM_BASE_UNIQUE_FD_H_
#define SLUICE_VMM_BASE_UNIQUE_FD_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  // The descriptor, or -1. Still owned here.
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  // Gives up ownership.
  int Release() { return std::exchange(fd_, -1); }
  // Closes what is held and takes `fd`.
  void Reset(int fd = -1);
  // A second descriptor for the same open file (F_DUPFD_CLOEXEC).
  absl::StatusOr<UniqueFd> Duplicate() const;

 private:
  int fd_ = -1;
};

// eventfd(2), close-on-exec; `nonblocking` for a reader in an event loop.
absl::StatusOr<UniqueFd> CreateEventFd(bool nonblocking);
// Adds 1 to an eventfd. Never blocks for a nonblocking one; a saturated counter is success (the reader will wake).
void SignalEventFd(int fd);
// Reads and clears an eventfd; 0 when it was clear (nonblocking) or on error. Blocks if the eventfd blocks.
uint64_t DrainEventFd(int fd);

// memfd_create(2) of `size` bytes (rounded up to 4 KiB), close-on-exec, sealed against shrinking and growing, so that a
// peer that holds the descriptor cannot make a mapping fault with SIGBUS.
absl::StatusOr<UniqueFd> CreateMemFd(absl::string_view name, uint64_t size);

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_UNIQUE_FD_H_
