// File: frontend_process.h
//
// One front-end machine as the supervisor sees it: the VM process, its control socket, its serial log, its counters,
// the last picture that it showed. Internal to this library; loop thread only; lives as long as its loop.
#ifndef SLUICE_VMM_TOPOLOGY_FRONTEND_PROCESS_H_
#define SLUICE_VMM_TOPOLOGY_FRONTEND_PROCESS_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vmm/base/log.h"
#include "vmm/base/unique_fd.h"
#include "vmm/jail/spawn.h"
#include "vmm/topology/control_socket.h"
#include "vmm/topology/plan.h"
#include "vmm/topology/png.h"
#include "vmm/topology/serial_log.h"
#include "vmm/topology/stats_page.h"

namespace sluice::topology {

class FrontendProcess {
 public:
  struct Options {
    std::string program;
    int kvm = -1;
    int firmware = -1;
    int channel = -1;  // -1: no GPU Domain
    LogLevel log_level = LogLevel::kWarn;
    UniqueFd serial_file;  // invalid: none
    std::function<void(absl::string_view)> serial;
  };
  struct Events {
    std::function<void()> running;  // the guest executes
    std::function<void()> ended;    // the process has ended; the accessors below are final
  };

  // The descriptors in `options` may be closed afterwards.
  static absl::StatusOr<std::unique_ptr<FrontendProcess>> Start(asio::io_context& loop, const FrontendPlan& plan,
                                                                Options options, Events events);

  // Asks the machine to end; `ended` follows.
  void Stop();
  void Kill() { child_.Kill(); }
  pid_t pid() const { return child_.pid(); }

  uint64_t first_instruction_ns() const { return first_instruction_ns_; }
  // What the guest or the machine said: 0..255, or -1.
  int exit_code() const { return exit_code_; }
  const std::string& exit_cause() const { return exit_cause_; }
  // OK, or why the serial log is not complete.
  const absl::Status& serial_error() const { return serial_->error(); }
  const StatsPage& stats() const { return stats_; }
  // What was on the screen last; nullopt: nothing, ever. Error: the process sent nonsense.
  std::optional<absl::StatusOr<Picture>> LastPicture() const;

 private:
  FrontendProcess(asio::io_context& loop, jail::ChildProcess child, UniqueFd control, UniqueFd pidfd, StatsPage stats,
                  std::unique_ptr<SerialLog> serial, Events events);
  absl::Status OnPacket(Packet packet);
  bool OnEnded();

  jail::ChildProcess child_;
  ControlSocket control_;
  ReadableWatch end_;
  StatsPage stats_;
  std::unique_ptr<SerialLog> serial_;
  Events events_;
  std::string violation_;
  uint64_t first_instruction_ns_ = 0;
  bool said_exit_ = false;
  int exit_code_ = -1;
  std::string exit_cause_;
  ScanoutShape shape_;
  UniqueFd scanout_;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_FRONTEND_PROCESS_H_
