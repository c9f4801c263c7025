// File: seqpacket.h
//
// Messages with file descriptors over a Unix SOCK_SEQPACKET socket: what every service channel and control socket
// speaks. One message is one packet; its bytes are a FlatBuffer of the channel's schema. The peer is not trusted.
//
//   SLUICE_ASSIGN_OR_RETURN(auto pair, CreateSeqPacketPair());
//   SLUICE_RETURN_IF_ERROR(SendPacket(pair.first.get(), bytes, {fd.get()}));
#ifndef SLUICE_VMM_BASE_SEQPACKET_H_
#define SLUICE_VMM_BASE_SEQPACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"

namespace sluice {

// Largest packet, bytes; a longer one is refused at both ends. SUBMIT_3D payloads (64 KiB) fit.
inline constexpr size_t kMaxPacketBytes = 96 * 1024;
// Most descriptors in one packet.
inline constexpr size_t kMaxPacketFds = 8;

struct Packet {
  std::vector<uint8_t> bytes;
  std::vector<UniqueFd> fds;  // close-on-exec
};

// A connected pair, close-on-exec, blocking.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> CreateSeqPacketPair();

// Sends one packet. Errors: RESOURCE_EXHAUSTED when a nonblocking send would block, UNAVAILABLE when the peer is gone,
// INVALID_ARGUMENT when the packet is over the limits. Never raises SIGPIPE. `nonblocking` applies to this call alone.
absl::Status SendPacket(int socket, absl::Span<const uint8_t> bytes, absl::Span<const int> fds,
                        bool nonblocking = false);

// Receives one packet. nullopt: the peer closed. Errors: UNAVAILABLE-free: RESOURCE_EXHAUSTED when a nonblocking
// receive would block, INVALID_ARGUMENT when the packet was truncated (over the limits).
absl::StatusOr<std::optional<Packet>> ReceivePacket(int socket, bool nonblocking = false);

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_SEQPACKET_H_
