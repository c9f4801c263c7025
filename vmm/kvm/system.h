// File: system.h
//
// /dev/kvm: what this host's KVM can do, and where VMs come from.
//
//   SLUICE_ASSIGN_OR_RETURN(kvm::System system, kvm::System::Open());
//   SLUICE_RETURN_IF_ERROR(system.Require({kvm::Capability::kIrqfd, kvm::Capability::kIoeventfd}));
//   SLUICE_ASSIGN_OR_RETURN(kvm::Vm vm, kvm::Vm::Create(system));
//
// Kernel interface: Documentation/virt/kvm/api.rst.
#ifndef SLUICE_VMM_KVM_SYSTEM_H_
#define SLUICE_VMM_KVM_SYSTEM_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vmm/base/unique_fd.h"
#include "vmm/kvm/cpuid.h"
#include "vmm/kvm/types.h"

namespace sluice::kvm {

// Movable; methods are thread-safe.
class System {
 public:
  // Opens the device. Errors, each with its remedy in the message: NOT_FOUND (no such device), PERMISSION_DENIED,
  // UNAVAILABLE (device without a module behind it), FAILED_PRECONDITION (not KVM, or another API version than 12).
  static absl::StatusOr<System> Open(const std::string& path = "/dev/kvm");
  // Takes an open /dev/kvm (a jailed VM process gets it from its parent). Errors as above.
  static absl::StatusOr<System> FromFd(UniqueFd fd);

  // KVM_CHECK_EXTENSION: 0 if absent, else 1 or the value that the capability's documentation names.
  int Check(Capability capability) const;
  // FAILED_PRECONDITION naming each that is absent.
  absl::Status Require(std::initializer_list<Capability> capabilities) const;
  // KVM_GET_SUPPORTED_CPUID.
  absl::StatusOr<CpuidTable> SupportedCpuid() const;
  // KVM_GET_MSR_INDEX_LIST: MSRs that Vcpu::GetMsrs may ask for.
  absl::StatusOr<std::vector<uint32_t>> MsrIndices() const;
  int fd() const { return fd_.get(); }

 private:
  friend class Vm;
  System(UniqueFd fd, uint32_t vcpu_mmap_size) : fd_(std::move(fd)), vcpu_mmap_size_(vcpu_mmap_size) {}
  absl::StatusOr<UniqueFd> CreateVmFd() const;

  UniqueFd fd_;
  uint32_t vcpu_mmap_size_;
};

// "KVM_CAP_IRQFD" for a named capability, "KVM_CAP 123" for others.
std::string CapabilityName(Capability capability);

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_SYSTEM_H_
