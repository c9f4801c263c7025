// File: domain_process.h
//
// A GPU Domain with process isolation: the running sluice-domain and its control socket (flatbuf/control.fbs). Internal
// to this library; loop thread only; lives as long as its loop.
#ifndef SLUICE_VMM_TOPOLOGY_DOMAIN_PROCESS_H_
#define SLUICE_VMM_TOPOLOGY_DOMAIN_PROCESS_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/base/log.h"
#include "vmm/jail/spawn.h"
#include "vmm/topology/control_socket.h"
#include "vmm/topology/plan.h"

namespace sluice::topology {

class DomainProcess {
 public:
  struct Events {
    std::function<void()> ready;
    // error "": the worker runs, with this pid.
    std::function<void(uint32_t id, const std::string& error, uint32_t pid)> attached;
    // how "": it ended as it should.
    std::function<void(uint32_t id, const std::string& how)> worker_exited;
    // The domain's process has ended. how "": as it should.
    std::function<void(const std::string& how)> gone;
  };

  static absl::StatusOr<std::unique_ptr<DomainProcess>> Start(asio::io_context& loop, const std::string& program,
                                                              const DomainPlan& plan, LogLevel log_level,
                                                              Events events);

  // Asks for a worker; `attached` follows. `capture` -1: none.
  absl::Status Attach(uint32_t id, const FrontendPlan& frontend, int channel, int stats, int capture);
  void Detach(uint32_t id);
  // Asks the domain to end; `gone` follows.
  void Stop();
  void Kill() { child_.Kill(); }
  pid_t pid() const { return child_.pid(); }
  bool gone() const { return gone_; }

 private:
  DomainProcess(asio::io_context& loop, jail::ChildProcess child, UniqueFd control, UniqueFd pidfd, Events events);
  absl::Status OnPacket(const Packet& packet);
  bool OnEnded();

  jail::ChildProcess child_;
  ControlSocket control_;
  ReadableWatch end_;
  Events events_;
  std::vector<std::string> gpus_;  // what it selects, for messages
  std::string violation_;
  bool gone_ = false;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_DOMAIN_PROCESS_H_
