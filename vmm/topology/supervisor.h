// File: supervisor.h
//
// Runs a plan: starts the GPU Domains, attaches and starts the front-end machines, watches all of them, and ends all of
// them. It opens /dev/kvm and the firmware files and hands the descriptors on; it never touches guest memory and never
// loads Vulkan.
//
//   SLUICE_ASSIGN_OR_RETURN(Report report, RunPlan(plan, options));
//   return report.ok ? 0 : 1;
//
// Order of ending, always: machines, then domains, each with a bounded time, then SIGKILL. Every child holds a
// parent-death signal, so that nothing outlives a supervisor that is killed itself.
#ifndef SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_
#define SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "vmm/base/log.h"
#include "vmm/topology/plan.h"
#include "vmm/topology/report.h"

namespace sluice::topology {

struct RunOptions {
  std::string out_directory;  // created if missing; pictures, logs, report.json. "" writes nothing
  absl::Duration timeout = absl::InfiniteDuration();  // for the whole run; then it is ended as by a signal
  std::string domain_program;                         // sluice-domain
  std::string vm_program;                             // sluice itself, run as "sluice vm-process"
  std::string kvm_device = "/dev/kvm";
  LogLevel log_level = LogLevel::kWarn;
  bool handle_signals = true;  // SIGINT, SIGTERM: end in order; a second one: kill at once
  // Called on the supervisor's thread with one line for people: "gpu-a: ready", "web-0: running on gpu-a".
  std::function<void(const std::string&)> progress;
};

// Runs to the end. A failure of a machine or domain is in the report. Errors: what kept the run from starting at all:
// PERMISSION_DENIED, NOT_FOUND or UNIMPLEMENTED about /dev/kvm (the host cannot), else INTERNAL with context.
absl::StatusOr<Report> RunPlan(const Plan& plan, const std::string& topology_name, const RunOptions& options);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_
