// Memory slots of a Vm.
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/ioctl_raw.h"
#include "vmm/kvm/vm.h"
#include "vmm/kvm/vm_state.h"

namespace sluice::kvm {

using internal::KvmIoctl;

absl::StatusOr<MemSlot> Vm::AddMemory(GuestAddress address, Mapping mapping, MemoryFlags flags) const {
  return AddMemory(address, std::make_shared<const Mapping>(std::move(mapping)), flags);
}

absl::StatusOr<MemSlot> Vm::AddMemory(GuestAddress address, std::shared_ptr<const Mapping> mapping,
                                      MemoryFlags flags) const {
  if (mapping == nullptr || !mapping->valid()) return absl::InvalidArgumentError("memory slot without a mapping");
  const auto range = GuestRange::Create(address, mapping->size());
  if (!range.has_value() || !address.IsAligned(kPageSize) || mapping->size() % kPageSize != 0) {
    return absl::InvalidArgumentError(absl::StrCat("memory slot at ", address.ToString(), " of ",
                                                   memory::Hex(mapping->size()),
                                                   " bytes: both must be multiples of 4 KiB and not wrap"));
  }
  MutexLock lock(&state_->mu);
  uint32_t id = 0;  // the lowest that is free
  bool found = false;
  for (const auto& [taken, slot] : state_->slots) {
    if (slot.range.Overlaps(*range)) {
      return absl::AlreadyExistsError(
          absl::StrCat("memory slot ", range->ToString(), " overlaps slot ", taken, " at ", slot.range.ToString()));
    }
    if (!found && taken != id) found = true;
    if (!found) ++id;
  }
  if (id >= state_->slot_limit) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", state_->slot_limit, " memory slots are taken"));
  }
  kvm_userspace_memory_region region = {};
  region.slot = id;
  region.flags = (flags.read_only ? KVM_MEM_READONLY : 0) | (flags.log_dirty ? KVM_MEM_LOG_DIRTY_PAGES : 0);
  region.guest_phys_addr = address.value();
  region.memory_size = mapping->size();
  // SAFETY: the mapping stays until RemoveMemory() has taken it from KVM, or until the VM, all vCPUs and devices are
  // closed: VmState owns it and they own VmState.
  region.userspace_addr = reinterpret_cast<uintptr_t>(mapping->data());
  if (KvmIoctl<KVM_SET_USER_MEMORY_REGION>(fd(), &region) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_SET_USER_MEMORY_REGION ", range->ToString()));
  }
  state_->slots.emplace(id, VmState::Slot{*range, std::move(mapping)});
  return MemSlot(id);
}

absl::StatusOr<std::vector<MemSlot>> Vm::AddGuestMemory(const memory::GuestMemory& ram, MemoryFlags flags) const {
  std::vector<MemSlot> slots;
  for (const memory::Region& region : ram.regions()) {
    auto slot = AddMemory(region.start(), region.mapping(), flags);
    if (!slot.ok()) {
      for (const MemSlot added : slots) (void)RemoveMemory(added);
      return slot.status();
    }
    slots.push_back(*slot);
  }
  return slots;
}

absl::StatusOr<std::shared_ptr<const Mapping>> Vm::RemoveMemory(MemSlot slot) const {
  MutexLock lock(&state_->mu);
  const auto it = state_->slots.find(slot.id());
  if (it == state_->slots.end()) return absl::NotFoundError(absl::StrCat("there is no memory slot ", slot.id()));
  kvm_userspace_memory_region region = {};
  region.slot = slot.id();
  region.guest_phys_addr = it->second.range.start().value();
  if (KvmIoctl<KVM_SET_USER_MEMORY_REGION>(fd(), &region) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_SET_USER_MEMORY_REGION (remove ", it->second.range.ToString(), ")"));
  }
  std::shared_ptr<const Mapping> mapping = std::move(it->second.mapping);
  state_->slots.erase(it);
  return mapping;
}

absl::StatusOr<std::vector<uint64_t>> Vm::TakeDirtyLog(MemSlot slot) const {
  MutexLock lock(&state_->mu);
  const auto it = state_->slots.find(slot.id());
  if (it == state_->slots.end()) return absl::NotFoundError(absl::StrCat("there is no memory slot ", slot.id()));
  std::vector<uint64_t> bits((it->second.range.size() / kPageSize + 63) / 64);
  kvm_dirty_log log = {};
  log.slot = slot.id();
  // SAFETY: KVM writes one bit per page of the slot, rounded up to 64: as many words as `bits` has.
  log.dirty_bitmap = bits.data();
  if (KvmIoctl<KVM_GET_DIRTY_LOG>(fd(), &log) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_GET_DIRTY_LOG(slot ", slot.id(), ")"));
  }
  return bits;
}

}  // namespace sluice::kvm
