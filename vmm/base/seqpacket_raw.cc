#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice {

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> CreateSeqPacketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return ErrnoToStatus(errno, "socketpair");
  std::pair<UniqueFd, UniqueFd> pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  return pair;
}

absl::Status SendPacket(int socket, absl::Span<const uint8_t> bytes, absl::Span<const int> fds, bool nonblocking) {
  if (bytes.empty() || bytes.size() > kMaxPacketBytes || fds.size() > kMaxPacketFds) {
    return absl::InvalidArgumentError(absl::StrCat("packet of ", bytes.size(), " bytes and ", fds.size(),
                                                   " descriptors is outside the channel's limits"));
  }
  iovec iov{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  if (!fds.empty()) {
    msg.msg_control = control.data();
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    // SAFETY: `control` has CMSG_SPACE for kMaxPacketFds ints and fds.size() was checked against that.
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t n;
  do {
    n = sendmsg(socket, &msg, MSG_NOSIGNAL | (nonblocking ? MSG_DONTWAIT : 0));
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return absl::OkStatus();
  if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::ResourceExhaustedError("channel is full");
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return absl::UnavailableError("channel peer is gone");
  return ErrnoToStatus(errno, "sendmsg");
}

absl::StatusOr<std::optional<Packet>> ReceivePacket(int socket, bool nonblocking) {
  // Kept and not zeroed: packets are small against the limit. On the heap: thread-local storage counts against a stack.
  thread_local const std::unique_ptr<uint8_t[]> buffer = std::make_unique_for_overwrite<uint8_t[]>(kMaxPacketBytes);
  Packet packet;
  iovec iov{buffer.get(), kMaxPacketBytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  msg.msg_control = control.data();
  msg.msg_controllen = control.size();
  ssize_t n;
  do {
    n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | (nonblocking ? MSG_DONTWAIT : 0));
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::ResourceExhaustedError("channel is empty");
    if (errno == ECONNRESET) return std::optional<Packet>();
    return ErrnoToStatus(errno, "recvmsg");
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&msg); c != nullptr; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      // SAFETY: the kernel wrote `count` descriptors behind this header.
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(fd);
    }
  }
  if (n == 0) return std::optional<Packet>();
  if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::InvalidArgumentError("channel packet exceeds the limits");
  }
  packet.bytes.assign(buffer.get(), buffer.get() + n);
  return std::optional<Packet>(std::move(packet));
}

}  // namespace sluice
