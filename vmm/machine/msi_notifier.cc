#include "vmm/machine/msi_notifier.h"

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::machine {

absl::Status MsiNotifier::Prepare(Vector& vector) {
  if (vector.irq.registered()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(vector.route, vm_->AllocateMsiRoute());
  SLUICE_ASSIGN_OR_RETURN(vector.event_fd, CreateEventFd(/*nonblocking=*/true));
  SLUICE_ASSIGN_OR_RETURN(vector.irq, vm_->RegisterIrqFd(vector.route.gsi(), vector.event_fd.get()));
  return absl::OkStatus();
}

void MsiNotifier::SetVector(uint16_t index, bool deliverable, const pci::MsiMessage& message) {
  if (index >= vectors_.size() || !deliverable) return;
  Vector& vector = vectors_[index];
  absl::Status status = Prepare(vector);
  if (status.ok()) status = vector.route.Set({.address = message.address, .data = message.data});
  vector.usable = status.ok();
  if (!status.ok()) SLUICE_LOG_GUEST(warn, "MSI-X vector {} has no route: {}", index, status.ToString());
}

void MsiNotifier::Signal(uint16_t index) {
  if (index >= vectors_.size() || !vectors_[index].usable) return;
  SignalEventFd(vectors_[index].event_fd.get());
  stats_->interrupts.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sluice::machine
