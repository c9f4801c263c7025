// sluice-worker: executes the Vulkan commands of one front-end. Started by sluice-domain, never by hand; descriptors at
// fixed numbers (options.h), confined before it reads a single byte of the front-end's.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gpu-domain/worker/driver.h"
#include "gpu-domain/worker/options.h"
#include "gpu-domain/worker/seccomp_worker.h"
#include "gpu-domain/worker/shared_raw.h"
#include "gpu-domain/worker/worker.h"
#include "vmm/base/abort.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/mapping.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/jail/privileges.h"
#include "vmm/jail/seccomp.h"

ABSL_FLAG(std::string, name, "frontend", "front-end that this worker serves");
ABSL_FLAG(std::string, domain, "", "GPU Domain that it belongs to");
ABSL_FLAG(std::string, os, "linux", "OS type of both");
ABSL_FLAG(uint64_t, memory_bytes, uint64_t{256} << 20, "quota for device memory and blobs of all contexts, bytes");
ABSL_FLAG(uint32_t, max_contexts, 16, "contexts alive at once");
ABSL_FLAG(std::vector<std::string>, gpus, {}, "parts of Vulkan device names, comma-separated; empty: all devices");
ABSL_FLAG(bool, require_hardware, false, "use no device that is a CPU");
ABSL_FLAG(bool, import_host_memory, true,
          "let the driver import memory that guests see; false: copy, as for drivers that cannot (for tests)");
ABSL_FLAG(absl::Duration, gpu_timeout, absl::ZeroDuration(),
          "GPU work that takes longer is a hang; 0: 30 s, or 2 minutes where a device is a CPU");
ABSL_FLAG(absl::Duration, reply_timeout, absl::Seconds(10), "how long a guest may leave its reply ring full");
ABSL_FLAG(bool, spare, false, "get ready, then wait on descriptor 3 for a channel and the name of its front-end");
ABSL_FLAG(bool, validate, false,
          "put the Khronos validation layer between the worker and the driver; log what it says");
ABSL_FLAG(bool, capture, false, "descriptor 5 is a capture file");
ABSL_FLAG(bool, jail, true,
          "confine the process (empty root, no capabilities, system call filter); false: for debuggers");
ABSL_FLAG(int, log_level, 1, "0 debug, 1 info, 2 warnings, 3 errors");

namespace sluice::worker {
namespace {

constexpr absl::Duration kGpuTimeout = absl::Seconds(30);
// A driver on a CPU compiles shaders in here, and on a busy or emulated processor that alone has taken 30 s.
constexpr absl::Duration kCpuTimeout = absl::Minutes(2);

// The descriptor if it is open, close-on-exec from now on.
UniqueFd TakeFd(int number) {
  if (fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return UniqueFd();
  return UniqueFd(number);
}

WorkerOptions OptionsFromFlags() {
  WorkerOptions options;
  options.name = absl::GetFlag(FLAGS_name);
  options.domain = absl::GetFlag(FLAGS_domain);
  options.os = absl::GetFlag(FLAGS_os);
  options.memory_bytes = absl::GetFlag(FLAGS_memory_bytes);
  options.max_contexts = absl::GetFlag(FLAGS_max_contexts);
  options.gpus = absl::GetFlag(FLAGS_gpus);
  options.gpu_timeout = absl::GetFlag(FLAGS_gpu_timeout);
  options.reply_timeout = absl::GetFlag(FLAGS_reply_timeout);
  return options;
}

int Fail(int code, const absl::Status& status) {
  SLUICE_LOG(error, "{}", std::string(status.message()));
  return code;
}

int Main() {
  WorkerOptions options = OptionsFromFlags();
  const int level = std::min(std::max(absl::GetFlag(FLAGS_log_level), 0), 3);
  InitLogging(absl::StrCat("worker ", options.name), static_cast<LogLevel>(level));
  const bool jailed = absl::GetFlag(FLAGS_jail);
  // Until Run() takes over, there is nothing to be put in order. The handler is what makes SIGTERM reach the first
  // process of a PID namespace at all.
  std::signal(SIGTERM, [](int) { _exit(kExitOk); });
  MakeAbortVisible();

  UniqueFd channel = TakeFd(kChannelFd);
  if (!channel.valid()) return Fail(kExitUsage, absl::InvalidArgumentError("descriptor 3 is no channel"));
  UniqueFd stats_fd = TakeFd(kStatsFd);
  UniqueFd capture = absl::GetFlag(FLAGS_capture) ? TakeFd(kCaptureFd) : UniqueFd();
  if (absl::GetFlag(FLAGS_capture) && !capture.valid()) {
    return Fail(kExitUsage, absl::InvalidArgumentError("--capture, but descriptor 5 is not open"));
  }
  // Everything is private to this process; nothing may be left in somebody's home directory, or read from it.
  setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
  setenv("MESA_GLSL_CACHE_DISABLE", "true", 1);

  jail::EmptyRoot root;
  const jail::SeccompMode mode = jail::SeccompModeFromEnvironment();
  const jail::SeccompPolicy policy = WorkerSeccompPolicy(getpid());
  if (jailed) {
    absl::StatusOr<jail::EmptyRoot> prepared = jail::EmptyRoot::Prepare();
    if (!prepared.ok()) return Fail(kExitJail, prepared.status());
    root = *std::move(prepared);
    if (const absl::Status status = jail::DropPrivileges(); !status.ok()) return Fail(kExitJail, status);
    if (const absl::Status status = policy.Install(jail::SeccompPhase::kInit, mode); !status.ok()) {
      return Fail(kExitJail, status);
    }
  }
  SLUICE_LOG(debug, "privileges dropped");  // the logger reads the time zone while there is one

  Mapping stats_page;
  wire::WorkerStats own_stats{};
  wire::WorkerStats* stats = &own_stats;
  struct stat info {};
  if (stats_fd.valid() && fstat(stats_fd.get(), &info) == 0 && info.st_size >= static_cast<off_t>(kPageSize)) {
    absl::StatusOr<Mapping> mapping = Mapping::MapShared(stats_fd.get(), 0, kPageSize, Mapping::kReadWrite);
    if (!mapping.ok()) return Fail(kExitUsage, mapping.status());
    stats_page = *std::move(mapping);
    stats = StatsIn(stats_page);
  }

  absl::StatusOr<std::unique_ptr<VulkanDriver>> driver =
      VulkanDriver::Create({.gpus = options.gpus,
                            .require_hardware = absl::GetFlag(FLAGS_require_hardware),
                            .import_host_memory = absl::GetFlag(FLAGS_import_host_memory),
                            .validate = absl::GetFlag(FLAGS_validate)});
  if (!driver.ok()) return Fail(kExitNoVulkan, driver.status());
  if (options.gpu_timeout == absl::ZeroDuration()) {
    options.gpu_timeout = (*driver)->has_cpu_device() ? kCpuTimeout : kGpuTimeout;
  }
  const bool spare = absl::GetFlag(FLAGS_spare);
  UniqueFd handover = spare ? std::move(channel) : UniqueFd();
  Worker worker(options, std::move(channel), driver->get(), stats, std::move(capture));
  worker.EndOnSigterm();
  if (jailed) {
    const absl::StatusOr<jail::EmptyRoot::Kind> kind = root.Enter();
    if (!kind.ok()) return Fail(kExitJail, kind.status());
    SLUICE_LOG(debug, "root directory: {}", jail::EmptyRoot::KindName(*kind));
    if (const absl::Status status = policy.Install(jail::SeccompPhase::kRun, mode); !status.ok()) {
      return Fail(kExitJail, status);
    }
  }
  if (spare) {
    SLUICE_LOG(debug, "ready");
    absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(handover.get());
    if (!packet.ok()) return Fail(kExitUsage, packet.status());
    if (!packet->has_value()) return kExitOk;  // nobody needed it
    if ((*packet)->fds.size() != 1) return Fail(kExitUsage, absl::InvalidArgumentError("a handover without a channel"));
    const std::string name = Printable(std::string((*packet)->bytes.begin(), (*packet)->bytes.end()));
    InitLogging(absl::StrCat("worker ", name), static_cast<LogLevel>(level));
    handover.Reset();
    worker.SetChannel(std::move((*packet)->fds[0]), name);
  }
  SLUICE_LOG(info, "serves on {}", (*driver)->devices().front().name);
  return worker.Run();
}

}  // namespace
}  // namespace sluice::worker

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Executes the Vulkan commands of one front-end. Started by sluice-domain with the service channel as descriptor "
      "3, the\n"
      "statistics page as 4 and the capture file as 5.\n"
      "Exit codes: 0 the front-end closed the channel, 2 usage, 3 the front-end broke the channel's protocol, 4 no "
      "Vulkan\n"
      "device, 5 GPU work or the driver hangs, 6 the process could not be confined.");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(file, "gpu-domain/worker/main.cc"); };
  absl::SetFlagsUsageConfig(usage);
  absl::ParseCommandLine(argc, argv);
  const int code = sluice::worker::Main();
  // _exit: a confined process cannot do what libraries want to do at exit, and nothing is left to be done.
  fflush(nullptr);
  _exit(code);
}
