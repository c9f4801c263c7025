// File: launch.h
//
// How one worker process is started: which binary, descriptors, flags, environment and confinement. The only place that
// knows both control.fbs and the worker's command line.
//
//   WorkerSpec spec{.name = "web-0", .os = "linux", .memory_bytes = 256 << 20};
//   SLUICE_ASSIGN_OR_RETURN(jail::ChildProcess worker, LaunchWorker(domain, spec, std::move(fds)));
#ifndef SLUICE_GPU_DOMAIN_BROKER_LAUNCH_H_
#define SLUICE_GPU_DOMAIN_BROKER_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/base/unique_fd.h"
#include "vmm/jail/spawn.h"

namespace sluice::broker {

// What all workers of a domain share.
struct DomainSpec {
  std::string name;
  std::string os = "linux";
  std::vector<std::string> gpus;  // parts of Vulkan device names; empty: all
  int log_level = 1;              // 0 debug .. 3 errors
  std::string worker_path;        // empty: sluice-worker beside this binary
  bool jail = true;               // false: for debuggers
  bool validate = false;          // the Khronos validation layer below the workers; for development
};

struct WorkerSpec {
  std::string name;
  std::string os;
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t max_contexts = 16;
  bool require_hardware = false;  // no device that is a CPU
  bool spare = false;             // `channel` will bring the channel (worker/options.h)
};

struct WorkerFds {
  UniqueFd channel;
  UniqueFd stats;    // may be absent
  UniqueFd capture;  // may be absent
};

// Starts a worker. The descriptors are closed here in any case: the worker is the only owner of its end of the channel,
// so that the front-end notices its death at once. Errors: FAILED_PRECONDITION when the OS types differ; from
// jail::Spawn.
absl::StatusOr<jail::ChildProcess> LaunchWorker(const DomainSpec& domain, const WorkerSpec& spec, WorkerFds fds);

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_LAUNCH_H_
