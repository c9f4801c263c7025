// File: connector.h
//
// How a guest's connection to the host (CID 2, port N) becomes a socket: by the convention that Firecracker's users
// know, a connection to the Unix socket "<path>_N", where <path> is the one that the host's programs connect to.
//
// A jailed VM process has no file system: it asks its parent over a socket (BrokeredConnector), which connects and
// sends the descriptor (ConnectBroker). Programs outside a jail use UnixConnector.
#ifndef SLUICE_DEVICES_VSOCK_CONNECTOR_H_
#define SLUICE_DEVICES_VSOCK_CONNECTOR_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "vmm/base/unique_fd.h"

namespace sluice::vsock {

class HostConnector {
 public:
  using Done = std::function<void(absl::StatusOr<UniqueFd>)>;
  virtual ~HostConnector() = default;
  // Connects to the host's service `port`. `done` comes once, from the loop and never from inside this call, with a
  // connected stream socket or why there is none. It does not come after the connector's end.
  virtual void Connect(uint32_t port, Done done) = 0;
};

// A listening stream socket at `path` for the host's programs; only this user may connect. What is left of an earlier
// one is replaced. INVALID_ARGUMENT: the path is too long; ALREADY_EXISTS: somebody listens there, or the file is no
// socket.
absl::StatusOr<UniqueFd> ListenVsock(const std::string& path);
// A connection to the Unix stream socket at `path`, without waiting. NOT_FOUND: nobody listens there;
// RESOURCE_EXHAUSTED: too many wait there already.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

// Connects to "<path>_<port>" itself. `loop` outlives it.
class UnixConnector final : public HostConnector {
 public:
  UnixConnector(asio::io_context* loop, std::string path);
  void Connect(uint32_t port, Done done) override;

 private:
  asio::io_context* const loop_;
  const std::string path_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The jailed side: asks over `socket` (one end of a SOCK_SEQPACKET pair). At most kMaxRequests are out; more fail, and
// so do all when the parent is gone. `loop` outlives it.
inline constexpr size_t kMaxRequests = 64;
absl::StatusOr<std::unique_ptr<HostConnector>> CreateBrokeredConnector(asio::io_context* loop, UniqueFd socket);

// The parent's side: answers what comes over `socket` by ConnectUnix("<path>_<port>"). The VM process is not trusted:
// it chooses the port and nothing else. Ends its work silently when the VM process closes.
class ConnectBroker {
 public:
  virtual ~ConnectBroker() = default;
  static absl::StatusOr<std::unique_ptr<ConnectBroker>> Create(asio::io_context* loop, UniqueFd socket,
                                                               std::string path);
  // False: the VM process is gone, or broke the protocol.
  virtual bool open() const = 0;
};

}  // namespace sluice::vsock

#endif  // SLUICE_DEVICES_VSOCK_CONNECTOR_H_
