// Packets to the guest, and the host's bytes in them.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "devices/vsock/connection.h"
#include "devices/vsock/device.h"
#include "vmm/base/log.h"

namespace sluice::vsock {
namespace {

constexpr int kPacketsPerTurn = 64;

}  // namespace

void VsockDevice::MarkReady(Connection& connection) {
  if (connection.MayRead() && connection.Credit() == 0 && !connection.credit_asked) {
    connection.credit_asked = true;
    connection.ask_credit = true;
  }
  if (connection.queued || !connection.HasPacket()) return;
  connection.queued = true;
  ready_.push_back(connection.key);
}

// The connection ends with a reset; the host's side is closed at once.
void VsockDevice::MarkReset(Connection& connection) {
  connection.tell_reset = true;
  if (connection.descriptor.is_open()) {
    asio::error_code ignored;
    connection.descriptor.close(ignored);
  }
  MarkReady(connection);
}

void VsockDevice::QueueReset(const PacketHeader& to) {
  PacketHeader reset{};
  reset.src_cid = kHostCid;
  reset.dst_cid = options_.guest_cid;
  reset.src_port = to.dst_port;
  reset.dst_port = to.src_port;
  reset.type = to.type;
  reset.op = kOpReset;
  resets_.push_back(reset);
}

PacketHeader VsockDevice::HeaderFor(Connection& connection, Op op) const {
  PacketHeader header{};
  header.src_cid = kHostCid;
  header.dst_cid = options_.guest_cid;
  header.src_port = connection.key.host_port;
  header.dst_port = connection.key.guest_port;
  header.type = kTypeStream;
  header.op = op;
  header.buf_alloc = options_.buffer_bytes;
  header.fwd_cnt = connection.passed;
  connection.passed_told = connection.passed;
  return header;
}

void VsockDevice::GivePackets() {
  virtio::Queue* const to = queue(kReceiveQueue);
  if (to == nullptr) return;
  bool more = false;
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    more = !resets_.empty() || !ready_.empty();
    if (!more) break;
    if (!receive_chain_.has_value()) receive_chain_ = NextChain(kReceiveQueue);
    if (!receive_chain_.has_value()) {
      more = false;
      break;
    }
    if (receive_chain_->WritableSize() <= kHeaderBytes) {
      BreakQueue(kReceiveQueue, absl::InvalidArgumentError("a receive buffer has no room for a header and a byte"));
      to->Complete(*std::exchange(receive_chain_, std::nullopt), 0).IgnoreError();
      more = false;
      break;
    }
    uint64_t written = 0;
    if (!resets_.empty()) {
      receive_chain_->WriteObject(0, resets_.front()).IgnoreError();
      resets_.pop_front();
      written = kHeaderBytes;
      // The guest's packets may have been held for them.
      if (resets_.empty()) Later(&VsockDevice::TakePackets);
    } else {
      Connection* const connection = Find(ready_.front());
      ready_.pop_front();
      if (connection == nullptr) continue;
      connection->queued = false;
      const Key key = connection->key;
      written = Produce(*connection, *receive_chain_);
      // A turn each: the next packet of this connection comes after the others'.
      if (Connection* const still = Find(key)) MarkReady(*still);
    }
    if (written > 0) to->Complete(*std::exchange(receive_chain_, std::nullopt), written).IgnoreError();
  }
  Interrupt(kReceiveQueue);
  if (more) Later(&VsockDevice::GivePackets);
}

// Writes one packet of the connection's; 0: there was none after all. May remove the connection.
uint64_t VsockDevice::Produce(Connection& connection, const virtio::DescriptorChain& chain) {
  const auto control = [&](Op op, uint32_t flags = 0) {
    PacketHeader header = HeaderFor(connection, op);
    header.flags = flags;
    chain.WriteObject(0, header).IgnoreError();
    return kHeaderBytes;
  };
  if (connection.tell_reset) {
    const uint64_t written = control(kOpReset);
    Remove(connection.key);
    return written;
  }
  if (std::exchange(connection.tell_request, false)) return control(kOpRequest);
  if (std::exchange(connection.tell_response, false)) return control(kOpResponse);
  if (connection.MayRead() && connection.Credit() > 0) {
    bool hung_up = false;
    if (const uint64_t written = ProduceData(connection, chain, &hung_up); written > 0) return written;
    if (connection.tell_reset) return control(kOpReset);
    if (connection.host_ended) connection.tell_shutdown = hung_up ? kShutdownBoth : kShutdownSend;
  }
  if (const uint32_t flags = std::exchange(connection.tell_shutdown, 0); flags != 0) {
    if (flags == kShutdownBoth) {
      connection.state = Connection::kEnding;
      connection.deadline = absl::Now() + options_.patience;
      StartTimer();
    }
    return control(kOpShutdown, flags);
  }
  // Every header tells the credit.
  if (std::exchange(connection.ask_credit, false)) return control(kOpCreditRequest);
  if (std::exchange(connection.tell_credit, false)) return control(kOpCreditUpdate);
  return 0;
}

// Reads from the host's socket what fits the chain and the guest's credit. 0: nothing is there, it has ended
// (host_ended; `*hung_up`: in both directions), or it failed (tell_reset).
uint64_t VsockDevice::ProduceData(Connection& connection, const virtio::DescriptorChain& chain, bool* hung_up) {
  const size_t room =
      std::min<uint64_t>({chain.WritableSize() - kHeaderBytes, connection.Credit(), uint64_t{staging_.size()}});
  if (room == 0) return 0;
  const int fd = connection.descriptor.native_handle();
  ssize_t size = 0;
  do {
    size = read(fd, staging_.data(), room);
  } while (size < 0 && errno == EINTR);
  if (size > 0) {
    PacketHeader header = HeaderFor(connection, kOpData);
    header.len = static_cast<uint32_t>(size);
    chain.WriteObject(0, header).IgnoreError();
    chain.Write(kHeaderBytes, absl::MakeConstSpan(staging_).subspan(0, static_cast<size_t>(size))).IgnoreError();
    connection.given += header.len;
    return kHeaderBytes + header.len;
  }
  connection.readable = false;
  if (size == 0) {
    connection.host_ended = true;
    pollfd state{fd, POLLIN, 0};
    *hung_up = poll(&state, 1, 0) == 1 && (state.revents & (POLLHUP | POLLERR)) != 0;
  } else if (errno != EAGAIN) {
    MarkReset(connection);
  } else if (!connection.awaiting_readable) {
    connection.awaiting_readable = true;
    Await(connection, asio::posix::stream_descriptor::wait_read, [](VsockDevice& device, Connection& ready) {
      ready.awaiting_readable = false;
      ready.readable = true;
      device.MarkReady(ready);
      device.GivePackets();
    });
  }
  return 0;
}

void VsockDevice::GiveEvent() {
  virtio::Queue* const to = queue(kEventQueue);
  if (to == nullptr || !event_pending_) return;
  std::optional<virtio::DescriptorChain> chain = NextChain(kEventQueue);
  if (!chain.has_value()) return;
  event_pending_ = false;
  const uint64_t written = chain->WriteObject(0, kEventTransportReset).ok() ? sizeof(kEventTransportReset) : 0;
  to->Complete(*std::move(chain), written).IgnoreError();
  Interrupt(kEventQueue);
}

}  // namespace sluice::vsock
