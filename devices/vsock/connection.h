// File: connection.h
//
// What the device remembers of a connection. Private to the library; loop thread.
#ifndef SLUICE_DEVICES_VSOCK_CONNECTION_H_
#define SLUICE_DEVICES_VSOCK_CONNECTION_H_

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "devices/vsock/device.h"

namespace sluice::vsock {

struct VsockDevice::Connection {
  enum State {
    kConnecting,  // the guest asked; the host's side is being connected
    kRequested,   // the host asked; the guest has not answered
    kEstablished,
    kEnding,  // the guest was told of the end; it answers with a reset
  };

  Connection(asio::io_context& loop, Key key, uint64_t id) : key(key), id(id), descriptor(loop) {}

  const Key key;
  const uint64_t id;
  State state = kConnecting;
  asio::posix::stream_descriptor descriptor;
  bool awaiting_readable = false;
  bool awaiting_writable = false;
  absl::Time deadline = absl::InfiniteFuture();

  // Packets that the guest is to get.
  bool queued = false;  // is in ready_
  bool tell_reset = false;
  bool tell_request = false;
  bool tell_response = false;
  bool tell_credit = false;
  bool ask_credit = false;
  uint32_t tell_shutdown = 0;

  // To the guest.
  bool readable = false;  // the host's socket may have bytes
  bool host_ended = false;
  bool credit_asked = false;
  bool guest_reads = true;   // no kShutdownReceive came
  uint32_t peer_buffer = 0;  // the guest's buf_alloc and fwd_cnt
  uint32_t peer_passed = 0;
  uint32_t given = 0;  // bytes, modulo 2^32

  // From the guest.
  std::vector<uint8_t> buffer;  // [sent, size) waits for the host's socket
  size_t sent = 0;
  bool guest_writes = true;  // no kShutdownSend came
  bool host_told = false;    // ... and the host was told
  uint32_t taken = 0;        // bytes from the guest, modulo 2^32
  uint32_t passed = 0;       // of those, what the host's socket took (fwd_cnt)
  uint32_t passed_told = 0;  // what the guest last heard of it

  size_t waiting() const { return buffer.size() - sent; }
  // Bytes that the guest can take. A guest that counts wrongly gets none.
  uint32_t Credit() const {
    const uint32_t outstanding = given - peer_passed;
    return outstanding <= peer_buffer ? peer_buffer - outstanding : 0;
  }
  bool MayRead() const {
    return state == kEstablished && readable && !host_ended && guest_reads && tell_shutdown != kShutdownBoth;
  }
  bool HasPacket() const {
    return tell_reset || tell_request || tell_response || tell_credit || ask_credit || tell_shutdown != 0 ||
           (MayRead() && Credit() > 0);
  }
};

// A host's program that has connected and not yet named a port.
struct VsockDevice::Greeting {
  Greeting(asio::io_context& loop, uint64_t id) : id(id), descriptor(loop) {}
  const uint64_t id;
  asio::posix::stream_descriptor descriptor;
  std::string line;
  absl::Time deadline;
};

template <typename F>
void VsockDevice::Await(Connection& connection, asio::posix::stream_descriptor::wait_type what, F f) {
  connection.descriptor.async_wait(what, [self = std::weak_ptr<VsockDevice*>(self_), key = connection.key,
                                          id = connection.id, f = std::move(f)](asio::error_code error) {
    const std::shared_ptr<VsockDevice*> device = self.lock();
    if (device == nullptr || error) return;
    Connection* const found = (*device)->Find(key);
    if (found != nullptr && found->id == id) f(**device, *found);
  });
}

}  // namespace sluice::vsock

#endif  // SLUICE_DEVICES_VSOCK_CONNECTION_H_
