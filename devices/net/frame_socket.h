// File: frame_socket.h
//
// A back end over a connected Unix socket that keeps message boundaries (SOCK_SEQPACKET, SOCK_DGRAM): one message is
// one Ethernet frame, from the destination address on, without header, padding or checksum. On the other end: a
// user-mode network (user/), another VM's device, or whatever else speaks Ethernet. The peer is not trusted: a message
// is a frame or it is dropped.
//
//   SLUICE_ASSIGN_OR_RETURN(auto pair, CreateFrameSocketPair());
//   options.backend = std::make_unique<FrameSocket>(std::move(pair.first));
//
// System calls: sendmsg, recvmsg.
#ifndef SLUICE_DEVICES_NET_FRAME_SOCKET_H_
#define SLUICE_DEVICES_NET_FRAME_SOCKET_H_

#include <utility>

#include "devices/net/backend.h"
#include "vmm/base/unique_fd.h"

namespace sluice::net {

// A connected pair for frames, close-on-exec. A writer ahead of its reader by some hundred frames is told to wait.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> CreateFrameSocketPair();

// Sends one frame; false: would block. UNAVAILABLE: the peer is gone.
absl::StatusOr<bool> SendFrame(int socket, absl::Span<const uint8_t> frame);
// Receives one frame into `to`: its size; 0: it was longer than `to`, and is gone; nullopt: none is there. UNAVAILABLE:
// the peer is gone (or sent an empty message).
absl::StatusOr<std::optional<size_t>> ReceiveFrame(int socket, absl::Span<uint8_t> to);

class FrameSocket final : public FrameBackend {
 public:
  explicit FrameSocket(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<uint8_t> buffer) override;
  absl::StatusOr<bool> Send(absl::Span<const uint8_t> header_and_frame) override;

 private:
  UniqueFd socket_;
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_FRAME_SOCKET_H_
