// File: raw_mode.h
//
// A terminal in raw mode, and as it was when this goes. Private to the library.
#ifndef SLUICE_DEVICES_CONSOLE_TERMINAL_RAW_MODE_H_
#define SLUICE_DEVICES_CONSOLE_TERMINAL_RAW_MODE_H_

#include <termios.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace sluice::console {

class RawMode {
 public:
  RawMode() = default;
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  ~RawMode();
  // OK without effect when `fd` is no terminal.
  absl::Status Enter(int fd);

 private:
  int fd_ = -1;
  termios before_{};
};

// Columns and rows; nullopt: `fd` is no terminal, or does not know.
std::optional<std::pair<uint16_t, uint16_t>> TerminalSize(int fd);

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_TERMINAL_RAW_MODE_H_
