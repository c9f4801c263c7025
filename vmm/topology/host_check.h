// File: host_check.h
//
// What this host can do for Sluice, found by trying: each finding says what follows and how to change it.
//
//   for (const hostcheck::Finding& f : CheckHost(options)) std::cout << hostcheck::FindingLine(f) << "\n";
//
// The probes of single things are vmm/hostcheck; here are those that start processes of ours, and the order of all.
#ifndef SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_
#define SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"

namespace sluice::topology {

struct HostCheckOptions {
  std::string kvm_device = "/dev/kvm";
  std::string domain_program;      // sluice-domain
  std::string vm_program;          // sluice
  std::string firmware_directory;  // has hello.elf, the guest that is run
  absl::Duration patience = absl::Seconds(30);
  hostcheck::HostFiles files;  // /proc, /sys and /dev, but for kvm_device
};

// Runs all probes, one after the other. Starts and ends a domain, a worker and VMs; leaves nothing behind. Vulkan is
// loaded in the worker only. Subjects, in this order: "KVM"; if machines can run "KVM extras", "execution" and "guest";
// "Vulkan", "namespaces", "IOMMU", "VFIO", one or more that begin with "GPU", "huge pages", "tap".
std::vector<hostcheck::Finding> CheckHost(const HostCheckOptions& options);

// True if no finding is a failure: VMs run here, and GPU Domains as processes.
bool HostIsUsable(const std::vector<hostcheck::Finding>& findings);

// {"usable": true, "findings": [{"subject", "level", "found", "follows", "remedy"}, ...]}; level is one of
// hostcheck::LevelName's.
std::string HostCheckJson(const std::vector<hostcheck::Finding>& findings);

// Starts a domain with one worker and asks it for the name of its Vulkan device. What went wrong is in the message.
absl::StatusOr<std::string> ProbeVulkanDevice(const HostCheckOptions& options);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_
