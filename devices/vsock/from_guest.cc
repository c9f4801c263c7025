// Packets from the guest, and its bytes to the host's sockets.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/vsock/connection.h"
#include "devices/vsock/device.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::vsock {
namespace {

constexpr int kPacketsPerTurn = 64;
// Resets that may wait for receive buffers before the guest's packets have to.
constexpr size_t kMaxResets = 64;

ssize_t SendSome(int fd, absl::Span<const uint8_t> bytes) {
  iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

void VsockDevice::TakePackets() {
  virtio::Queue* const from = queue(kTransmitQueue);
  if (from == nullptr) return;
  bool more = false;
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    // GivePackets calls again when resets have gone.
    more = false;
    if (resets_.size() >= kMaxResets) break;
    std::optional<virtio::DescriptorChain> chain = NextChain(kTransmitQueue);
    if (!chain.has_value()) break;
    TakePacket(*chain);
    from->Complete(*std::move(chain), 0).IgnoreError();
    more = true;
  }
  Interrupt(kTransmitQueue);
  GivePackets();
  if (more) Later(&VsockDevice::TakePackets);
}

void VsockDevice::TakePacket(const virtio::DescriptorChain& chain) {
  const absl::StatusOr<PacketHeader> header = chain.ReadObject<PacketHeader>(0);
  if (!header.ok() || header->src_cid != options_.guest_cid || header->dst_cid != kHostCid) {
    SLUICE_LOG_GUEST(warn, "virtio-vsock: a packet of {} bytes that is not from this guest to the host",
                     chain.ReadableSize());
    return;
  }
  const Key key{.host_port = header->dst_port, .guest_port = header->src_port};
  Connection* const connection = Find(key);
  const bool sound = header->type == kTypeStream && header->len <= chain.ReadableSize() - kHeaderBytes;
  if (connection == nullptr) {
    if (header->op == kOpReset) return;
    if (!sound || header->op != kOpRequest) return QueueReset(*header);
    return TakeRequest(key, *header);
  }
  if (!sound) return MarkReset(*connection);
  if (header->op == kOpReset) return Remove(key);
  // One that is being given up takes nothing more.
  if (connection->tell_reset) return;

  const uint32_t credit_before = connection->Credit();
  connection->peer_buffer = header->buf_alloc;
  connection->peer_passed = header->fwd_cnt;
  if (connection->Credit() > credit_before) connection->credit_asked = false;

  const bool established = connection->state == Connection::kEstablished || connection->state == Connection::kEnding;
  switch (header->op) {
    case kOpResponse:
      if (connection->state != Connection::kRequested) return MarkReset(*connection);
      connection->state = Connection::kEstablished;
      connection->deadline = absl::InfiniteFuture();
      connection->readable = true;
      {
        // "OK" comes before everything else, into a fresh socket: one that does not take it is of no use.
        const std::string line = absl::StrCat("OK ", key.host_port, "\n");
        const std::vector<uint8_t> bytes(line.begin(), line.end());
        if (SendSome(connection->descriptor.native_handle(), bytes) != static_cast<ssize_t>(bytes.size())) {
          return MarkReset(*connection);
        }
      }
      return MarkReady(*connection);
    case kOpData:
      if (!established) return MarkReset(*connection);
      return TakeData(*connection, *header, chain);
    case kOpShutdown:
      if (!established) return MarkReset(*connection);
      return TakeShutdown(*connection, header->flags);
    case kOpCreditRequest:
      if (!established) return MarkReset(*connection);
      connection->tell_credit = true;
      return MarkReady(*connection);
    case kOpCreditUpdate:
      if (!established) return MarkReset(*connection);
      return MarkReady(*connection);
    default:
      // A second request, or an operation that there is not.
      return MarkReset(*connection);
  }
}

void VsockDevice::TakeRequest(const Key& key, const PacketHeader& header) {
  if (full() || options_.connector == nullptr) return QueueReset(header);
  Connection* const connection = Add(key);
  connection->peer_buffer = header.buf_alloc;
  connection->peer_passed = header.fwd_cnt;
  options_.connector->Connect(key.host_port, [self = std::weak_ptr<VsockDevice*>(self_), key,
                                              id = connection->id](absl::StatusOr<UniqueFd> fd) {
    if (const std::shared_ptr<VsockDevice*> device = self.lock()) (*device)->HostConnected(key, id, std::move(fd));
  });
}

void VsockDevice::HostConnected(const Key& key, uint64_t id, absl::StatusOr<UniqueFd> fd) {
  Connection* const connection = Find(key);
  // The guest may have given up, or been reset, meanwhile.
  if (connection == nullptr || connection->id != id || connection->state != Connection::kConnecting) return;
  absl::Status attached = fd.status();
  if (attached.ok()) attached = Attach(*connection, *std::move(fd));
  if (!attached.ok()) {
    SLUICE_LOG_GUEST(warn, "virtio-vsock: the guest asks for port {}: {}", key.host_port,
                     std::string(attached.message()));
    MarkReset(*connection);
  } else if (!connection->tell_reset) {
    connection->state = Connection::kEstablished;
    connection->deadline = absl::InfiniteFuture();
    connection->tell_response = true;
    connection->readable = true;
    MarkReady(*connection);
  }
  GivePackets();
}

absl::Status VsockDevice::Attach(Connection& connection, UniqueFd fd) {
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return ErrnoToStatus(errno, "fcntl");
  asio::error_code error;
  connection.descriptor.assign(fd.get(), error);
  if (error) return absl::InvalidArgumentError(error.message());
  fd.Release();  // now the descriptor's
  return absl::OkStatus();
}

void VsockDevice::TakeData(Connection& connection, const PacketHeader& header, const virtio::DescriptorChain& chain) {
  // More than the credit it had, or after it said that it would not.
  if (header.len > options_.buffer_bytes - std::min<size_t>(connection.waiting(), options_.buffer_bytes) ||
      !connection.guest_writes) {
    return MarkReset(connection);
  }
  if (connection.sent > 0) {
    connection.buffer.erase(connection.buffer.begin(),
                            connection.buffer.begin() + static_cast<std::ptrdiff_t>(connection.sent));
    connection.sent = 0;
  }
  const size_t at = connection.buffer.size();
  connection.buffer.resize(at + header.len);
  chain.Read(kHeaderBytes, absl::MakeSpan(connection.buffer).subspan(at)).IgnoreError();
  connection.taken += header.len;
  if (!connection.awaiting_writable) FlushToHost(connection);
}

void VsockDevice::TakeShutdown(Connection& connection, uint32_t flags) {
  if ((flags & kShutdownReceive) != 0) connection.guest_reads = false;
  if ((flags & kShutdownSend) != 0) connection.guest_writes = false;
  if (!connection.awaiting_writable) FlushToHost(connection);
}

// Writes what waits; when the guest has said that nothing follows, and all is out, passes that on too.
void VsockDevice::FlushToHost(Connection& connection) {
  if (!connection.descriptor.is_open()) return;
  while (connection.waiting() > 0) {
    const ssize_t size = SendSome(connection.descriptor.native_handle(),
                                  absl::MakeConstSpan(connection.buffer).subspan(connection.sent));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      connection.awaiting_writable = true;
      Await(connection, asio::posix::stream_descriptor::wait_write, [](VsockDevice& device, Connection& ready) {
        ready.awaiting_writable = false;
        device.FlushToHost(ready);
        device.GivePackets();
      });
      break;
    }
    // The host's program is gone.
    if (size < 0) return MarkReset(connection);
    connection.sent += static_cast<size_t>(size);
    connection.passed += static_cast<uint32_t>(size);
  }
  if (connection.waiting() == 0) {
    connection.buffer.clear();
    connection.sent = 0;
    if (!connection.guest_writes && !connection.guest_reads) return MarkReset(connection);
    if (!connection.guest_writes && !connection.host_told) {
      connection.host_told = true;
      shutdown(connection.descriptor.native_handle(), SHUT_WR);
    }
  }
  // Tell a guest that may be short of credit.
  if (connection.taken - connection.passed_told > options_.buffer_bytes / 2 &&
      connection.passed != connection.passed_told) {
    connection.tell_credit = true;
    MarkReady(connection);
  }
}

}  // namespace sluice::vsock
