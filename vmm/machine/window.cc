#include "vmm/machine/window.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::machine {

absl::Status KvmWindow::Show(uint64_t offset, Entry& entry) {
  if (!base_.has_value()) return absl::OkStatus();
  const auto address = base_->CheckedAdd(offset);
  if (!address.has_value()) return absl::OutOfRangeError("window past the end of the address space");
  if (entry.mapping != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(entry.slot, vm_->AddMemory(*address, entry.mapping));
  } else {
    SLUICE_ASSIGN_OR_RETURN(entry.doorbell,
                            vm_->RegisterIoEvent({.address = address->value(), .length = 0}, entry.event_fd.get()));
  }
  return absl::OkStatus();
}

void KvmWindow::Hide(Entry& entry) {
  if (entry.slot.has_value()) {
    const auto removed = vm_->RemoveMemory(*entry.slot);
    if (!removed.ok()) SLUICE_LOG(error, "removing a window slot: {}", removed.status().ToString());
    entry.slot.reset();
  }
  entry.doorbell = kvm::IoEvent();
}

void KvmWindow::SetBase(std::optional<memory::GuestAddress> base) {
  const MutexLock lock(&mu_);
  if (base == base_) return;
  for (auto& [offset, entry] : entries_) Hide(entry);
  base_ = base;
  for (auto& [offset, entry] : entries_) {
    const absl::Status status = Show(offset, entry);
    if (!status.ok()) SLUICE_LOG_GUEST(warn, "window moved to {}: {}", base_->ToString(), status.ToString());
  }
}

absl::Status KvmWindow::Map(uint64_t offset, std::shared_ptr<const Mapping> mapping) {
  const MutexLock lock(&mu_);
  Entry entry;
  entry.mapping = std::move(mapping);
  SLUICE_RETURN_IF_ERROR(Show(offset, entry));
  entries_[offset] = std::move(entry);
  return absl::OkStatus();
}

absl::Status KvmWindow::MapDoorbell(uint64_t offset, int event_fd) {
  const MutexLock lock(&mu_);
  Entry entry;
  entry.event_fd.Reset(fcntl(event_fd, F_DUPFD_CLOEXEC, 3));
  if (!entry.event_fd) return ErrnoToStatus(errno, "doorbell");
  SLUICE_RETURN_IF_ERROR(Show(offset, entry));
  entries_[offset] = std::move(entry);
  return absl::OkStatus();
}

void KvmWindow::Unmap(uint64_t offset) {
  const MutexLock lock(&mu_);
  const auto it = entries_.find(offset);
  if (it == entries_.end()) return;
  Hide(it->second);
  entries_.erase(it);
}

}  // namespace sluice::machine
