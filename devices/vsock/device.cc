#include "devices/vsock/device.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/vsock/connection.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::vsock {
namespace {

constexpr uint16_t kQueueSizes[] = {128, 128, 8};
constexpr uint32_t kMaxConnections = 4096;
constexpr uint32_t kMinBufferBytes = 4 << 10;
constexpr uint32_t kMaxBufferBytes = 16 << 20;
// Ports of connections that the host makes: where Firecracker puts them too.
constexpr uint32_t kFirstHostPort = 1u << 30;
// One packet to the guest: Linux's driver never gives larger buffers.
constexpr size_t kMaxPacketBytes = 64 << 10;
constexpr auto kDeadlineStep = std::chrono::milliseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<VsockDevice>> VsockDevice::Create(VsockOptions options) {
  if (options.loop == nullptr) return absl::InvalidArgumentError("virtio-vsock: needs a loop");
  if (options.guest_cid < kMinGuestCid || options.guest_cid > kMaxGuestCid) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtio-vsock: CID ", options.guest_cid, " is not in 3..4294967294"));
  }
  if (options.max_connections == 0 || options.max_connections > kMaxConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtio-vsock: ", options.max_connections, " connections are not in 1..", kMaxConnections));
  }
  if (options.buffer_bytes < kMinBufferBytes || options.buffer_bytes > kMaxBufferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtio-vsock: a buffer of ", options.buffer_bytes, " bytes is not in 4 KiB..16 MiB"));
  }
  UniqueFd listener = std::move(options.listener);
  auto device = std::unique_ptr<VsockDevice>(new VsockDevice(std::move(options)));
  if (listener.valid()) {
    asio::error_code error;
    device->listener_.assign(listener.get(), error);
    if (error) return absl::InvalidArgumentError(absl::StrCat("virtio-vsock: listening socket: ", error.message()));
    listener.Release();  // now the descriptor's
    device->AwaitHosts();
  }
  return device;
}

VsockDevice::VsockDevice(VsockOptions options)
    : options_(std::move(options)),
      listener_(*options_.loop),
      timer_(*options_.loop),
      next_host_port_(kFirstHostPort),
      staging_(kMaxPacketBytes),
      self_(std::make_shared<VsockDevice*>(this)) {}

VsockDevice::~VsockDevice() = default;

absl::Span<const uint16_t> VsockDevice::queue_max_sizes() const {
  return kQueueSizes;
}

void VsockDevice::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    const bool inside = offset < kConfigBytes && i < kConfigBytes - offset;
    to[i] = inside ? static_cast<uint8_t>(options_.guest_cid >> (8 * (offset + i))) : 0;
  }
}

absl::Status VsockDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  return absl::OkStatus();
}

void VsockDevice::Reset() {
  connections_.clear();
  greetings_.clear();
  ready_.clear();
  resets_.clear();
  receive_chain_.reset();
  event_pending_ = false;
  activation_.reset();
}

void VsockDevice::ResetTransport() {
  connections_.clear();
  greetings_.clear();
  ready_.clear();
  resets_.clear();
  event_pending_ = activation_.has_value();
  GiveEvent();
}

void VsockDevice::QueueNotified(uint16_t index) {
  switch (index) {
    case kReceiveQueue:
      return GivePackets();
    case kTransmitQueue:
      return TakePackets();
    case kEventQueue:
      return GiveEvent();
    default:
      return;
  }
}

virtio::Queue* VsockDevice::queue(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value()) {
    return nullptr;
  }
  return &*activation_->queues[index];
}

std::optional<virtio::DescriptorChain> VsockDevice::NextChain(uint16_t index) {
  virtio::Queue* const from = queue(index);
  if (from == nullptr || !from->status().ok()) return std::nullopt;
  // Twice: the driver may add a chain while notifications are switched on. A third is notified of.
  for (int attempt = 0; attempt < 2; ++attempt) {
    absl::StatusOr<std::optional<virtio::DescriptorChain>> chain = from->Pop();
    if (!chain.ok()) {
      BreakQueue(index, chain.status());
      return std::nullopt;
    }
    if (chain->has_value()) return *std::move(chain);
    if (!from->EnableNotifications()) return std::nullopt;
  }
  return std::nullopt;
}

void VsockDevice::Interrupt(uint16_t index) {
  virtio::Queue* const used = queue(index);
  if (used != nullptr && used->NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
}

void VsockDevice::BreakQueue(uint16_t index, const absl::Status& why) {
  SLUICE_LOG_GUEST(warn, "virtio-vsock: queue {} is broken: {}", index, std::string(why.message()));
  activation_->interrupt->SetNeedsReset();
}

void VsockDevice::Later(void (VsockDevice::*step)()) {
  asio::post(*options_.loop, [self = std::weak_ptr<VsockDevice*>(self_), step] {
    if (const std::shared_ptr<VsockDevice*> device = self.lock()) ((*device)->*step)();
  });
}

VsockDevice::Connection* VsockDevice::Find(const Key& key) {
  const auto it = connections_.find(key);
  return it == connections_.end() ? nullptr : it->second.get();
}

VsockDevice::Connection* VsockDevice::Add(const Key& key) {
  auto connection = std::make_unique<Connection>(*options_.loop, key, ++last_id_);
  connection->deadline = absl::Now() + options_.patience;
  Connection* const added = connection.get();
  connections_.emplace(key, std::move(connection));
  StartTimer();
  return added;
}

void VsockDevice::Remove(const Key& key) {
  const Connection* const connection = Find(key);
  if (connection == nullptr) return;
  // Not left for later: a guest that makes and drops connections without ever reading would fill ready_.
  if (connection->queued) ready_.erase(std::remove(ready_.begin(), ready_.end(), key), ready_.end());
  connections_.erase(key);
}

// One timer for all deadlines, which runs while there is one.
void VsockDevice::StartTimer() {
  if (timer_runs_) return;
  timer_runs_ = true;
  timer_.expires_after(kDeadlineStep);
  timer_.async_wait([self = std::weak_ptr<VsockDevice*>(self_)](asio::error_code error) {
    const std::shared_ptr<VsockDevice*> device = self.lock();
    if (error || device == nullptr) return;
    (*device)->timer_runs_ = false;
    (*device)->CheckDeadlines();
  });
}

void VsockDevice::CheckDeadlines() {
  const absl::Time now = absl::Now();
  bool more = false;
  greetings_.remove_if([&](const std::unique_ptr<Greeting>& greeting) { return greeting->deadline <= now; });
  more = !greetings_.empty();
  for (const auto& [key, connection] : connections_) {
    if (connection->deadline == absl::InfiniteFuture()) continue;
    if (connection->deadline > now) {
      more = true;
    } else {
      connection->deadline = absl::InfiniteFuture();
      MarkReset(*connection);
    }
  }
  if (more) StartTimer();
  GivePackets();
}

}  // namespace sluice::vsock
