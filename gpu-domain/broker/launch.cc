#include "gpu-domain/broker/launch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gpu-domain/worker/options.h"

namespace sluice::broker {
namespace {

// Of a worker: rings have three descriptors each, drivers a few.
constexpr uint64_t kMaxOpenFiles = 4096;

// What chooses and tunes Vulkan drivers, for people who know why they set it.
const std::vector<std::string>& DriverVariables() {
  static const std::vector<std::string> names = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES",        "VK_LOADER_DEBUG",
                                                 "LP_NUM_THREADS",   "LP_NATIVE_VECTOR_WIDTH", "LD_LIBRARY_PATH"};
  return names;
}

}  // namespace

absl::StatusOr<jail::ChildProcess> LaunchWorker(const DomainSpec& domain, const WorkerSpec& spec, WorkerFds fds) {
  if (spec.os != domain.os) {
    return absl::FailedPreconditionError(absl::StrCat("front-end ", spec.name, " is of OS type \"", spec.os,
                                                      "\"; domain ", domain.name, " serves \"", domain.os, "\""));
  }
  jail::SpawnOptions options;
  options.program = domain.worker_path.empty() ? jail::SiblingBinary("sluice-worker") : domain.worker_path;
  options.arguments = {absl::StrCat("--name=", spec.name),
                       absl::StrCat("--domain=", domain.name),
                       absl::StrCat("--os=", domain.os),
                       absl::StrCat("--memory_bytes=", spec.memory_bytes),
                       absl::StrCat("--max_contexts=", spec.max_contexts),
                       absl::StrCat("--require_hardware=", spec.require_hardware ? "true" : "false"),
                       absl::StrCat("--gpus=", absl::StrJoin(domain.gpus, ",")),
                       absl::StrCat("--log_level=", domain.log_level),
                       absl::StrCat("--jail=", domain.jail ? "true" : "false"),
                       absl::StrCat("--validate=", domain.validate ? "true" : "false"),
                       absl::StrCat("--spare=", spec.spare ? "true" : "false"),
                       absl::StrCat("--capture=", fds.capture.valid() ? "true" : "false")};
  options.environment = jail::InheritedEnvironment(DriverVariables());
  options.fds.push_back({fds.channel.get(), worker::kChannelFd});
  if (fds.stats.valid()) options.fds.push_back({fds.stats.get(), worker::kStatsFd});
  if (fds.capture.valid()) options.fds.push_back({fds.capture.get(), worker::kCaptureFd});
  if (domain.jail) options.namespaces = jail::Namespaces::All();
  options.max_open_files = kMaxOpenFiles;
  return jail::Spawn(options);
}

}  // namespace sluice::broker
