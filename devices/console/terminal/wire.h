// File: wire.h
//
// What a console server and its clients say to each other: packets on a Unix SOCK_SEQPACKET socket, one byte of kind
// and a payload. Either side drops packets of unknown kind.
#ifndef SLUICE_DEVICES_CONSOLE_TERMINAL_WIRE_H_
#define SLUICE_DEVICES_CONSOLE_TERMINAL_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"

namespace sluice::console {

enum class PacketKind : uint8_t {
  kData = 0,    // terminal bytes, 1..kMaxDataBytes; client: what was typed, server: what the guest shows
  kResize = 1,  // from a client: columns and rows, two little-endian u16
  kEnded = 2,   // from the server: there is nothing more; the payload is why, for people. Then it closes
};
inline constexpr size_t kMaxDataBytes = 16 << 10;

// A listening socket at `path` that only this user may connect to. What is left of an earlier server is replaced.
// INVALID_ARGUMENT: the path is longer than a socket's can be; ALREADY_EXISTS: somebody listens there, or the file is
// no socket; otherwise what the system said.
absl::StatusOr<UniqueFd> ListenConsole(const std::string& path);
// A connection to it. NOT_FOUND: nobody listens there.
absl::StatusOr<UniqueFd> ConnectConsole(const std::string& path);

// One packet, without waiting. RESOURCE_EXHAUSTED: the socket is full; UNAVAILABLE: the peer is gone.
absl::Status SendConsolePacket(int socket, PacketKind kind, absl::Span<const uint8_t> payload);

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_TERMINAL_WIRE_H_
