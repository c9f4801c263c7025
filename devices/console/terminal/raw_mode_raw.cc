#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "devices/console/terminal/raw_mode.h"
#include "vmm/base/status_macros.h"

namespace sluice::console {

absl::Status RawMode::Enter(int fd) {
  if (isatty(fd) == 0) return absl::OkStatus();
  if (tcgetattr(fd, &before_) != 0) return ErrnoToStatus(errno, "the terminal's mode cannot be read");
  termios raw = before_;
  cfmakeraw(&raw);
  if (tcsetattr(fd, TCSANOW, &raw) != 0) return ErrnoToStatus(errno, "the terminal's mode cannot be set");
  fd_ = fd;
  return absl::OkStatus();
}

RawMode::~RawMode() {
  if (fd_ >= 0) tcsetattr(fd_, TCSANOW, &before_);
}

std::optional<std::pair<uint16_t, uint16_t>> TerminalSize(int fd) {
  winsize size{};
  // SAFETY: TIOCGWINSZ writes one winsize, which lives on this stack.
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return std::nullopt;
  return std::pair<uint16_t, uint16_t>(size.ws_col, size.ws_row);
}

}  // namespace sluice::console
