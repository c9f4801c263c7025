#include "vmm/machine/virtio_slot.h"

#include <asio/post.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "vmm/base/status_macros.h"

namespace sluice::machine {

absl::StatusOr<std::unique_ptr<VirtioSlot>> VirtioSlot::Create(std::string name, std::unique_ptr<virtio::Device> device,
                                                               const Environment& environment, KvmWindow* window,
                                                               uint8_t window_id) {
  std::unique_ptr<VirtioSlot> slot(new VirtioSlot(window, window_id));
  const auto vectors = static_cast<uint16_t>(device->queue_max_sizes().size() + 1);
  slot->interrupts_ = std::make_unique<MsiNotifier>(environment.vm, vectors, environment.stats);
  auto transport = virtio::PciTransport::Create(
      std::move(device),
      {.name = name,
       .memory = environment.memory,
       .notifier = slot->interrupts_.get(),
       .post = [loop = environment.loop](std::function<void()> task) { asio::post(*loop, std::move(task)); }});
  if (!transport.ok()) return Annotate(transport.status(), name);
  slot->transport_ = *std::move(transport);
  auto notifies = QueueNotifier::Create(*environment.loop, environment.vm, slot->transport_.get(), environment.stats);
  if (!notifies.ok()) return Annotate(notifies.status(), name);
  slot->notifies_ = *std::move(notifies);
  return slot;
}

VirtioSlot::~VirtioSlot() {
  if (transport_ != nullptr) transport_->SetBarObserver(nullptr);
}

void VirtioSlot::Watch() {
  transport_->SetBarObserver(this);
}

void VirtioSlot::Reset() {
  const uint8_t status = 0;
  transport_->BarWrite(virtio::kRegisterBar, virtio::kCommonOffset + virtio::kCommonDeviceStatus,
                       absl::MakeConstSpan(&status, 1));
}

void VirtioSlot::NotifyAll() {
  for (uint16_t queue = 0; queue < transport_->queue_count(); ++queue) transport_->NotifyFromLoop(queue);
}

void VirtioSlot::BarMapped(const pci::PciDevice&, uint8_t bar, memory::GuestRange range) {
  if (bar == virtio::kRegisterBar) notifies_->SetBase(range.start());
  if (bar == virtio::kSharedMemoryBar && window_ != nullptr) {
    const auto place = transport_->SharedMemory(window_id_);
    if (place.has_value()) window_->SetBase(range.start().CheckedAdd(place->offset));
  }
}

void VirtioSlot::BarUnmapped(const pci::PciDevice&, uint8_t bar, memory::GuestRange) {
  if (bar == virtio::kRegisterBar) notifies_->SetBase(std::nullopt);
  if (bar == virtio::kSharedMemoryBar && window_ != nullptr) window_->SetBase(std::nullopt);
}

}  // namespace sluice::machine
