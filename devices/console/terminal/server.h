// File: server.h
//
// The host's end of a console port (or of a serial line): reads what the guest shows all the time, remembers the last
// of it, and shares the terminal with any number of clients that come and go over a Unix socket.
//
//   ConsoleServerOptions options;
//   options.loop = &loop;
//   options.console = std::move(host_end);                    // the other end is the port's descriptor
//   SLUICE_ASSIGN_OR_RETURN(options.listener, ListenConsole(dir + "/web-0.console"));
//   options.on_resize = [&](uint16_t cols, uint16_t rows) { ... ConsoleDevice::SetSize ... };
//   SLUICE_ASSIGN_OR_RETURN(auto server, ConsoleServer::Create(std::move(options)));
//
// A client first gets what is remembered, then what comes. All clients type into the same terminal. A client that does
// not read loses its connection, not the guest its console. Typing waits with the client while the guest takes none.
//
// Everything on the loop's thread.
#ifndef SLUICE_DEVICES_CONSOLE_TERMINAL_SERVER_H_
#define SLUICE_DEVICES_CONSOLE_TERMINAL_SERVER_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"

namespace sluice::console {

struct ConsoleServerOptions {
  asio::io_context* loop = nullptr;  // outlives the server
  UniqueFd console;                  // a stream socket or a terminal device: what the guest shows and reads
  UniqueFd listener;                 // from ListenConsole; invalid: clients come by AddClient only
  size_t history_bytes = 64 << 10;   // what is remembered, 0..16 MiB
  size_t max_clients = 8;
  // Bytes that may wait for a slow client.
  size_t client_bytes = 256 << 10;
  // A client told the size of its terminal.
  std::function<void(uint16_t cols, uint16_t rows)> on_resize;
  // Everything that the guest shows: for a log file.
  std::function<void(absl::Span<const uint8_t>)> on_output;
  // The guest's side is closed. Clients have been told.
  std::function<void()> on_closed;
};

class ConsoleServer {
 public:
  // INVALID_ARGUMENT: an option is out of range, or a descriptor cannot be waited for.
  static absl::StatusOr<std::unique_ptr<ConsoleServer>> Create(ConsoleServerOptions options);
  virtual ~ConsoleServer() = default;
  ConsoleServer(const ConsoleServer&) = delete;
  ConsoleServer& operator=(const ConsoleServer&) = delete;

  // A connected SOCK_SEQPACKET socket becomes a client. RESOURCE_EXHAUSTED: there are max_clients.
  virtual absl::Status AddClient(UniqueFd socket) = 0;
  virtual size_t clients() const = 0;
  // What is remembered, oldest first.
  virtual std::string History() const = 0;

 protected:
  ConsoleServer() = default;
};

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_TERMINAL_SERVER_H_
