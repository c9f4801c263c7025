// File: control_socket.h
//
// A control socket (vmm/base/seqpacket.h) in the supervisor's event loop. The peer is not trusted: it may send
// anything, at any rate, or nothing. Internal to this library.
#ifndef SLUICE_VMM_TOPOLOGY_CONTROL_SOCKET_H_
#define SLUICE_VMM_TOPOLOGY_CONTROL_SOCKET_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "flatbuffers/flatbuffers.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/unique_fd.h"

namespace sluice::topology {

// Calls `ready` each time `fd` becomes readable, until it returns false or Close(). Lives as long as its loop: handlers
// may be queued. Loop thread only.
class ReadableWatch {
 public:
  // A descriptor that cannot be watched is closed: open() is false then.
  ReadableWatch(asio::io_context& loop, UniqueFd fd);
  void Start(std::function<bool()> ready);
  void Close();
  int fd() { return descriptor_.native_handle(); }
  bool open() const { return descriptor_.is_open(); }

 private:
  void Wait();
  asio::posix::stream_descriptor descriptor_;
  std::function<bool()> ready_;
};

class ControlSocket {
 public:
  // Over a peer's lifetime; a well-behaved one sends a handful.
  static constexpr int kMaxPackets = 100000;

  ControlSocket(asio::io_context& loop, UniqueFd fd) : watch_(loop, std::move(fd)) {}

  // `on_packet` returns an error when the packet breaks the protocol. `on_close`: the peer closed ("") or broke the
  // protocol (what it did). Called once; no packet follows.
  void Start(std::function<absl::Status(Packet)> on_packet, std::function<void(const std::string&)> on_close);
  // Delivers what has arrived already. For a peer that has ended: its last words come before the verdict.
  void Drain();
  // Sends a finished buffer. Never blocks. UNAVAILABLE: the peer is gone.
  absl::Status Send(const flatbuffers::FlatBufferBuilder& message, std::initializer_list<int> fds = {});
  void Close() { watch_.Close(); }

 private:
  // Up to `limit` packets. False: closed.
  bool Receive(int limit);

  ReadableWatch watch_;
  std::function<absl::Status(Packet)> on_packet_;
  std::function<void(const std::string&)> on_close_;
  int packets_ = 0;
  bool closed_ = false;
};

// Verifies and returns the root of a control message, or nullptr. Tight limits: control messages are small and flat.
template <typename Table>
const Table* VerifiedRoot(const Packet& packet) {
  flatbuffers::Verifier verifier(packet.bytes.data(), packet.bytes.size(), /*max_depth=*/8, /*max_tables=*/64);
  if (packet.bytes.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<Table>(packet.bytes.data());
}

// A second descriptor for what `fd` refers to, close-on-exec.
absl::StatusOr<UniqueFd> DuplicateFd(int fd);

// The text of a string field that may be absent, cut to 500 bytes.
std::string ShortText(const flatbuffers::String* text);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_CONTROL_SOCKET_H_
