// sluice-domain: the broker of one GPU Domain. Starts a jailed sluice-worker per front-end and reports how each ends.
#include <fcntl.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gpu-domain/broker/control.h"
#include "gpu-domain/broker/exit_codes.h"
#include "gpu-domain/broker/listener.h"
#include "vmm/base/log.h"

ABSL_FLAG(int, control_fd, -1, "descriptor of the supervisor's control socket");
ABSL_FLAG(std::string, listen, "", "path of a socket to serve, instead of a supervisor; one worker per connection");
ABSL_FLAG(std::string, name, "domain", "name of the domain (with --listen; a supervisor sends it)");
ABSL_FLAG(std::string, os, "linux", "OS type that is served (with --listen)");
ABSL_FLAG(std::vector<std::string>, gpus, {},
          "parts of Vulkan device names, comma-separated; empty: all (with --listen)");
ABSL_FLAG(uint32_t, memory_mib, 1024, "quota of each connection for device memory and blobs, MiB (with --listen)");
ABSL_FLAG(uint32_t, max_contexts, 16, "contexts alive at once in each connection (with --listen)");
ABSL_FLAG(uint32_t, max_frontends, 64, "connections served at once (with --listen)");
ABSL_FLAG(bool, spare_worker, false,
          "keep one worker ready, so that a connection does not wait for the driver to load (with --listen)");
ABSL_FLAG(bool, validate, false,
          "run the Khronos validation layer between workers and driver and log what it says; for development");
ABSL_FLAG(std::string, worker, "", "path of the worker binary; empty: sluice-worker beside this one");
ABSL_FLAG(bool, jail, true, "confine workers; false: for debuggers");
ABSL_FLAG(int, log_level, 1, "0 debug, 1 info, 2 warnings, 3 errors");

namespace sluice::broker {
namespace {

int Usage(absl::string_view what) {
  SLUICE_LOG(error, "{}; see --help", std::string(what));
  return kExitUsage;
}

int Main() {
  const int level = std::min(std::max(absl::GetFlag(FLAGS_log_level), 0), 3);
  InitLogging(absl::StrCat("domain ", absl::GetFlag(FLAGS_name)), static_cast<LogLevel>(level));
  DomainSpec domain;
  domain.name = absl::GetFlag(FLAGS_name);
  domain.os = absl::GetFlag(FLAGS_os);
  domain.gpus = absl::GetFlag(FLAGS_gpus);
  domain.log_level = level;
  domain.worker_path = absl::GetFlag(FLAGS_worker);
  domain.jail = absl::GetFlag(FLAGS_jail);
  domain.validate = absl::GetFlag(FLAGS_validate);
  const int control_fd = absl::GetFlag(FLAGS_control_fd);
  const std::string path = absl::GetFlag(FLAGS_listen);
  if ((control_fd >= 0) == !path.empty()) return Usage("exactly one of --control_fd and --listen is needed");

  asio::io_context loop{1};
  asio::signal_set signals(loop, SIGTERM, SIGINT);
  if (control_fd >= 0) {
    if (fcntl(control_fd, F_SETFD, FD_CLOEXEC) != 0)
      return Usage(absl::StrCat("descriptor ", control_fd, " is not open"));
    Control control(loop, UniqueFd(control_fd), std::move(domain));
    signals.async_wait([&](const asio::error_code& error, int) {
      if (!error) control.Stop(kExitOk);
    });
    loop.run();
    return control.exit_code();
  }
  WorkerSpec spec;
  spec.name = domain.name;
  spec.os = domain.os;
  spec.memory_bytes = uint64_t{absl::GetFlag(FLAGS_memory_mib)} << 20;
  spec.max_contexts = absl::GetFlag(FLAGS_max_contexts);
  absl::StatusOr<std::unique_ptr<Listener>> listener = Listener::Create(
      loop, path, std::move(domain), std::move(spec),
      {.max_workers = absl::GetFlag(FLAGS_max_frontends), .spare_worker = absl::GetFlag(FLAGS_spare_worker)});
  if (!listener.ok()) {
    SLUICE_LOG(error, "{}", std::string(listener.status().message()));
    return kExitHost;
  }
  signals.async_wait([&](const asio::error_code& error, int) {
    if (!error) (*listener)->Stop();
  });
  SLUICE_LOG(info, "listening on {}", path);
  loop.run();
  return kExitOk;
}

}  // namespace
}  // namespace sluice::broker

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "The broker of a GPU Domain: starts one jailed sluice-worker per front-end.\n"
      "  sluice-domain --control_fd=3           under a supervisor (sluice run)\n"
      "  sluice-domain --listen=/run/gpu.sock   on its own; one worker per connection\n"
      "Exit codes: 0 stopped in order, 2 usage, 3 the supervisor broke the control protocol, 4 the supervisor is "
      "gone,\n"
      "5 the host refused a socket or a process.");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(file, "gpu-domain/broker/main.cc"); };
  absl::SetFlagsUsageConfig(usage);
  absl::ParseCommandLine(argc, argv);
  return sluice::broker::Main();
}
