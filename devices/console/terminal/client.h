// File: client.h
//
// What `sluice console NAME` does: this terminal becomes the guest's until the user leaves it (Ctrl-]) or the guest
// ends.
//
//   SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, ConnectConsole(path));
//   SLUICE_ASSIGN_OR_RETURN(ConsoleEnd end, RunConsole({.socket = socket.get()}));
//   std::fprintf(stderr, "\r\n%s\n", end.message.c_str());
//
// The terminal is in raw mode meanwhile and as it was afterwards, also after SIGINT, SIGTERM, SIGHUP and SIGQUIT. Its
// size, and each change of it, is told to the guest. Input that is no terminal (a pipe) is passed on as it is; after
// its end the guest's output is still shown.
#ifndef SLUICE_DEVICES_CONSOLE_TERMINAL_CLIENT_H_
#define SLUICE_DEVICES_CONSOLE_TERMINAL_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice::console {

struct ConsoleClientOptions {
  int socket = -1;  // from ConnectConsole
  int input = 0;    // the caller's descriptors; they stay open
  int output = 1;
  // The key that leaves: Ctrl-]. nullopt: none does.
  std::optional<uint8_t> escape = 0x1d;
};

struct ConsoleEnd {
  enum Why { kDetached, kEnded, kInterrupted } why = kEnded;
  std::string message;  // a line for people
};

// Blocks until the end. To be called on the main thread before others start: it takes the signals above. Errors: the
// terminal or the socket fails.
absl::StatusOr<ConsoleEnd> RunConsole(const ConsoleClientOptions& options);

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_TERMINAL_CLIENT_H_
