#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/ioctl_raw.h"
#include "vmm/kvm/kick.h"
#include "vmm/kvm/vm.h"
#include "vmm/kvm/vm_state.h"

namespace sluice::kvm {

using internal::KvmIoctl;
using internal::KvmIoctlValue;

absl::StatusOr<Vm> Vm::Create(const System& system) {
  auto state = std::make_shared<VmState>();
  SLUICE_ASSIGN_OR_RETURN(state->fd, system.CreateVmFd());
  state->vcpu_mmap_size = system.vcpu_mmap_size_;
  Vm vm(std::move(state));
  // Kernels before 2.6.30 or so do not say; 32 and 24 are then right.
  const int slots = vm.Check(Capability::kNrMemslots);
  vm.state_->slot_limit = slots > 0 ? static_cast<uint32_t>(slots) : 32;
  vm.state_->gsi_limit = static_cast<uint32_t>(std::max(24, vm.Check(Capability::kIrqRouting)));
  vm.state_->xsave_bytes =
      static_cast<uint32_t>(std::max<int>(static_cast<int>(sizeof(kvm_xsave)), vm.Check(Capability::kXsave2)));
  return vm;
}

int Vm::Check(Capability capability) const {
  return std::max(0, KvmIoctlValue<KVM_CHECK_EXTENSION>(fd(), static_cast<unsigned long>(capability)));
}

absl::Status Vm::EnableCap(Capability capability, std::array<uint64_t, 4> args, uint32_t flags) const {
  kvm_enable_cap request = {};
  request.cap = static_cast<uint32_t>(capability);
  request.flags = flags;
  std::copy(args.begin(), args.end(), request.args);
  if (KvmIoctl<KVM_ENABLE_CAP>(fd(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_ENABLE_CAP(", CapabilityName(capability), ")"));
  }
  return absl::OkStatus();
}

absl::Status Vm::SetTssAddress(GuestAddress address) const {
  if (KvmIoctlValue<KVM_SET_TSS_ADDR>(fd(), address.value()) < 0) return ErrnoToStatus(errno, "KVM_SET_TSS_ADDR");
  return absl::OkStatus();
}

absl::Status Vm::SetIdentityMapAddress(GuestAddress address) const {
  __u64 value = address.value();
  if (KvmIoctl<KVM_SET_IDENTITY_MAP_ADDR>(fd(), &value) < 0) return ErrnoToStatus(errno, "KVM_SET_IDENTITY_MAP_ADDR");
  return absl::OkStatus();
}

absl::Status Vm::SetBootCpu(uint32_t vcpu_id) const {
  if (KvmIoctlValue<KVM_SET_BOOT_CPU_ID>(fd(), vcpu_id) < 0) return ErrnoToStatus(errno, "KVM_SET_BOOT_CPU_ID");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Vcpu>> Vm::CreateVcpu(uint32_t id) const {
  SLUICE_RETURN_IF_ERROR(internal::InstallKickHandler());
  UniqueFd vcpu_fd(KvmIoctlValue<KVM_CREATE_VCPU>(fd(), id));
  if (!vcpu_fd.valid()) return ErrnoToStatus(errno, absl::StrCat("KVM_CREATE_VCPU(", id, ")"));
  auto run = Mapping::MapShared(vcpu_fd.get(), 0, state_->vcpu_mmap_size, Mapping::kReadWrite);
  if (!run.ok()) return Annotate(run.status(), absl::StrCat("vCPU ", id, "'s shared page"));
  return std::unique_ptr<Vcpu>(new Vcpu(state_, std::move(vcpu_fd), *std::move(run), id, state_->xsave_bytes));
}

absl::StatusOr<Device> Vm::CreateDevice(uint32_t type) const {
  kvm_create_device request = {};
  request.type = type;
  if (KvmIoctl<KVM_CREATE_DEVICE>(fd(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_CREATE_DEVICE(type ", type, ")"));
  }
  return Device(state_, UniqueFd(static_cast<int>(request.fd)));
}

absl::StatusOr<BinaryStats> Vm::Stats() const {
  UniqueFd stats_fd(KvmIoctlValue<KVM_GET_STATS_FD>(fd(), 0));
  if (!stats_fd.valid()) return ErrnoToStatus(errno, "KVM_GET_STATS_FD");
  return BinaryStats::FromFd(std::move(stats_fd));
}

int Vm::fd() const {
  return state_->fd.get();
}

}  // namespace sluice::kvm
