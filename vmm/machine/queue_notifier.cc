#include "vmm/machine/queue_notifier.h"

#include <utility>

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::machine {

absl::StatusOr<std::unique_ptr<QueueNotifier>> QueueNotifier::Create(asio::io_context& loop, const kvm::Vm* vm,
                                                                     virtio::PciTransport* transport,
                                                                     wire::VmStats* stats) {
  std::unique_ptr<QueueNotifier> notifier(new QueueNotifier(vm));
  for (uint16_t index = 0; index < transport->queue_count(); ++index) {
    SLUICE_ASSIGN_OR_RETURN(UniqueFd event_fd, CreateEventFd(/*nonblocking=*/true));
    auto queue = std::make_shared<Queue>(loop, index, transport, stats);
    asio::error_code error;
    queue->descriptor.assign(event_fd.get(), error);
    if (error) return absl::InternalError(error.message());
    event_fd.Release();
    queue->Arm();
    notifier->queues_.push_back(std::move(queue));
  }
  return notifier;
}

QueueNotifier::~QueueNotifier() {
  for (const auto& queue : queues_) {
    queue->transport = nullptr;
    asio::error_code ignored;
    queue->descriptor.close(ignored);
  }
}

void QueueNotifier::Queue::Arm() {
  descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = shared_from_this()](const asio::error_code& error) {
                          if (error || self->transport == nullptr) return;
                          DrainEventFd(self->descriptor.native_handle());
                          self->stats->queue_notifies.fetch_add(1, std::memory_order_relaxed);
                          self->transport->NotifyFromLoop(self->index);
                          self->Arm();
                        });
}

void QueueNotifier::SetBase(std::optional<memory::GuestAddress> base) {
  const MutexLock lock(&mu_);
  events_.clear();
  if (!base.has_value()) return;
  for (const auto& queue : queues_) {
    const auto address = base->CheckedAdd(virtio::PciTransport::NotifyOffset(queue->index));
    if (!address.has_value()) return;
    // Any length: drivers write the queue's index with 2 bytes, but the place alone says which queue it is.
    auto event = vm_->RegisterIoEvent({.address = address->value(), .length = 0}, queue->descriptor.native_handle());
    if (event.ok()) {
      events_.push_back(*std::move(event));
    } else {
      SLUICE_LOG_GUEST(warn, "queue {}: no ioeventfd at {}: {}", queue->index, address->ToString(),
                       event.status().ToString());
    }
  }
}

}  // namespace sluice::machine
