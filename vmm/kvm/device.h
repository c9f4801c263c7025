// File: device.h
//
// An in-kernel device (KVM_CREATE_DEVICE) and its attributes, e.g. the VFIO group device.
//
//   SLUICE_ASSIGN_OR_RETURN(Device vfio, vm.CreateDevice(KVM_DEV_TYPE_VFIO));
//   SLUICE_RETURN_IF_ERROR(vfio.SetAttribute(KVM_DEV_VFIO_GROUP, KVM_DEV_VFIO_GROUP_ADD, AsBytes(group_fd)));
#ifndef SLUICE_VMM_KVM_DEVICE_H_
#define SLUICE_VMM_KVM_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"

namespace sluice::kvm {

struct VmState;

// Movable; thread-safe. Keeps its VM's kernel object alive.
class Device {
 public:
  // The attribute's documentation fixes the size of the value.
  absl::Status SetAttribute(uint32_t group, uint64_t attribute, absl::Span<const uint8_t> value) const;
  absl::Status GetAttribute(uint32_t group, uint64_t attribute, absl::Span<uint8_t> value) const;
  bool HasAttribute(uint32_t group, uint64_t attribute) const;
  int fd() const { return fd_.get(); }

 private:
  friend class Vm;
  Device(std::shared_ptr<VmState> vm, UniqueFd fd) : vm_(std::move(vm)), fd_(std::move(fd)) {}
  std::shared_ptr<VmState> vm_;
  UniqueFd fd_;
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_DEVICE_H_
