// File: listener.h
//
// `sluice-domain --listen=PATH`: a Unix SOCK_SEQPACKET socket for programs that speak the service channel themselves
// (the ICD's socket transport). Each connection gets a worker of its own, which ends with it. No supervisor.
//
//   SLUICE_ASSIGN_OR_RETURN(auto listener, Listener::Create(loop, path, domain, WorkerSpec{...}, {}));
//   loop.run();
#ifndef SLUICE_GPU_DOMAIN_BROKER_LISTENER_H_
#define SLUICE_GPU_DOMAIN_BROKER_LISTENER_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gpu-domain/broker/broker.h"
#include "vmm/base/unique_fd.h"

namespace sluice::broker {

struct ListenerOptions {
  size_t max_workers = 64;
  // One worker is always ready: its driver is loaded, it is confined, and it waits for a channel.
  bool spare_worker = true;
};

// Loop thread only. The socket is for its owner alone (mode 0600) and removed at the end.
class Listener {
 public:
  // Errors: INVALID_ARGUMENT: the path does not fit a socket address; from bind(2) with the path. A socket left over by
  // a process that is gone is replaced; one that somebody listens on is not.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(asio::io_context& loop, const std::string& path,
                                                          DomainSpec domain, WorkerSpec spec,
                                                          const ListenerOptions& options);
  ~Listener();

  // Ends all workers, then the loop.
  void Stop();

 private:
  Listener(asio::io_context& loop, std::string path, UniqueFd socket, DomainSpec domain, WorkerSpec spec,
           const ListenerOptions& options);
  void WaitForConnection();
  void OnConnection();
  // Some time from now, when the connection that took the last one has started.
  void PrepareSpareSoon();

  asio::io_context& loop_;
  const std::string path_;
  asio::posix::stream_descriptor socket_;
  const WorkerSpec spec_;
  const ListenerOptions options_;
  asio::steady_timer spare_timer_;
  uint32_t next_id_ = 1;
  bool stopping_ = false;
  Broker broker_;
};

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_LISTENER_H_
