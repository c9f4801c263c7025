#include "devices/net/frame_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "devices/net/protocol.h"
#include "vmm/base/status_macros.h"

namespace sluice::net {
namespace {

// Send buffer asked for: bursts of a transfer fit. The kernel may grant less.
constexpr int kSocketBufferBytes = 1 << 20;

bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

}  // namespace

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> CreateFrameSocketPair() {
  int fds[2];
  // SEQPACKET rather than DGRAM: its end shows, as end of file.
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return ErrnoToStatus(errno, "socketpair for frames");
  }
  std::pair<UniqueFd, UniqueFd> pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  for (const int fd : fds) {
    // A smaller buffer works too.
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  }
  return pair;
}

absl::StatusOr<bool> SendFrame(int socket, absl::Span<const uint8_t> frame) {
  iovec piece{const_cast<uint8_t*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  while (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (WouldBlock(errno)) return false;
    if (errno == EMSGSIZE) return true;  // longer than the socket takes: dropped
    return absl::UnavailableError(absl::StrCat("frame socket: ", ErrnoToStatus(errno, "sendmsg").message()));
  }
  return true;
}

absl::StatusOr<std::optional<size_t>> ReceiveFrame(int socket, absl::Span<uint8_t> to) {
  iovec piece{to.data(), to.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  while (true) {
    // Descriptors that a peer attaches are discarded: there is no room for control data.
    const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    if (size < 0) {
      if (errno == EINTR) continue;
      if (WouldBlock(errno)) return std::nullopt;
      return absl::UnavailableError(absl::StrCat("frame socket: ", ErrnoToStatus(errno, "recvmsg").message()));
    }
    // An empty message looks like the end, and no frame is empty.
    if (size == 0) return absl::UnavailableError("frame socket: the other end is closed");
    return std::optional<size_t>(static_cast<size_t>(size) > to.size() ? 0 : static_cast<size_t>(size));
  }
}

absl::StatusOr<std::optional<size_t>> FrameSocket::Receive(absl::Span<uint8_t> buffer) {
  std::fill_n(buffer.begin(), kHeaderBytes, uint8_t{0});
  return ReceiveFrame(socket_.get(), buffer.subspan(kHeaderBytes));
}

absl::StatusOr<bool> FrameSocket::Send(absl::Span<const uint8_t> header_and_frame) {
  return SendFrame(socket_.get(), header_and_frame.subspan(kHeaderBytes));
}

}  // namespace sluice::net
