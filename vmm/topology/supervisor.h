// File: supervisor.h
//
// Runs a plan: starts the GPU Domains, attaches and starts the front-end machines, watches all of them, and ends all of
// them. It hands descriptors on (KVM, firmware, channels, counters); it never touches guest memory and never loads
// Vulkan.
//
//   RunOptions options;
//   options.kvm = kvm.get();
//   options.out_directory = "out/demo";
//   SLUICE_ASSIGN_OR_RETURN(Report report, RunPlan(plan, options));
//   return report.ok ? 0 : 1;
//
// Order of ending, always: machines, then domains, each in bounded time, then SIGKILL. Every child holds a parent-death
// signal, so that nothing outlives a supervisor that is killed itself.
#ifndef SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_
#define SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "vmm/base/log.h"
#include "vmm/topology/plan.h"
#include "vmm/topology/report.h"

namespace sluice::topology {

// Of somebody who waits for a prompt.
inline constexpr absl::Duration kHurriedPatience = absl::Seconds(5);

struct RunOptions {
  int kvm = -1;                // open /dev/kvm; the caller keeps it
  std::string domain_program;  // absolute path of sluice-domain
  std::string vm_program;  // absolute path of a program that has "vm-process" (vmm/machine/vm_process.h): sluice itself
  // An existing directory for pictures, serial logs and captures. "": nothing is written.
  std::string out_directory;
  // For the whole run; then it is ended as by a signal.
  absl::Duration timeout = absl::InfiniteDuration();
  // How long a domain may take to get ready, a machine to stop, a domain to stop: each. After a signal or the timeout
  // at most kHurriedPatience.
  absl::Duration patience = absl::Seconds(30);
  LogLevel log_level = LogLevel::kWarn;
  // SIGINT, SIGTERM, SIGHUP (unless ignored, as by nohup) and SIGQUIT: end in order; a second one: kill at once.
  bool handle_signals = true;
  // One line for people: "gpu-a: ready, pid 12". On the supervisor's thread.
  std::function<void(const std::string& line)> progress;
  // What a guest writes to its serial port, besides the log file. On the supervisor's thread. Bytes of the guest's
  // choice.
  std::function<void(const std::string& machine, absl::string_view bytes)> serial;
};

// Runs to the end; Plan.frontends[].firmware are paths (firmware.h). Call from a thread that lives as long as the run:
// it is the children's parent. What becomes of machines and domains is in the report, failures too. Errors (nothing was
// started): NOT_FOUND a firmware file went away, INTERNAL the host refused something.
absl::StatusOr<Report> RunPlan(const Plan& plan, const RunOptions& options);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_SUPERVISOR_H_
