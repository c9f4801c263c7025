// File: host_check.h
//
// What this host can do for Sluice, found by trying: each finding says what follows and how to change it.
//
//   for (const HostFinding& f : CheckHost(options)) std::cout << f.subject << ": " << f.text << "\n";
#ifndef SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_
#define SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice::topology {

struct HostFinding {
  enum class Level { kOk, kWarning, kFailure };
  Level level = Level::kOk;
  std::string subject;  // "KVM", "guest", "Vulkan", "namespaces"
  std::string text;     // what was found, what follows, and the remedy
};

struct HostCheckOptions {
  std::string kvm_device = "/dev/kvm";
  std::string domain_program;      // sluice-domain
  std::string vm_program;          // sluice
  std::string firmware_directory;  // has hello.elf, the guest that is run
  absl::Duration patience = absl::Seconds(30);
};

// Runs all probes, one after the other. Starts and ends a domain, a worker and a VM; leaves nothing behind.
std::vector<HostFinding> CheckHost(const HostCheckOptions& options);

// Starts a domain with one worker and asks it for the name of its Vulkan device. What went wrong is in the message.
absl::StatusOr<std::string> ProbeVulkanDevice(const HostCheckOptions& options);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_HOST_CHECK_H_
