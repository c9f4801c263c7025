#include <cerrno>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/device.h"
#include "vmm/kvm/ioctl_raw.h"

namespace sluice::kvm {
namespace {

using internal::KvmIoctl;

kvm_device_attr Attribute(uint32_t group, uint64_t attribute, const uint8_t* value) {
  kvm_device_attr request = {};
  request.group = group;
  request.attr = attribute;
  // SAFETY: only the kernel dereferences it, during the call; callers' spans have the size that the attribute is
  // documented with.
  request.addr = reinterpret_cast<uintptr_t>(value);
  return request;
}

}  // namespace

absl::Status Device::SetAttribute(uint32_t group, uint64_t attribute, absl::Span<const uint8_t> value) const {
  kvm_device_attr request = Attribute(group, attribute, value.data());
  if (KvmIoctl<KVM_SET_DEVICE_ATTR>(fd_.get(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_SET_DEVICE_ATTR(", group, ", ", attribute, ")"));
  }
  return absl::OkStatus();
}

absl::Status Device::GetAttribute(uint32_t group, uint64_t attribute, absl::Span<uint8_t> value) const {
  kvm_device_attr request = Attribute(group, attribute, value.data());
  if (KvmIoctl<KVM_GET_DEVICE_ATTR>(fd_.get(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_GET_DEVICE_ATTR(", group, ", ", attribute, ")"));
  }
  return absl::OkStatus();
}

bool Device::HasAttribute(uint32_t group, uint64_t attribute) const {
  kvm_device_attr request = Attribute(group, attribute, nullptr);
  return KvmIoctl<KVM_HAS_DEVICE_ATTR>(fd_.get(), &request) == 0;
}

}  // namespace sluice::kvm
