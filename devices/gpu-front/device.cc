#include "devices/gpu-front/device.h"

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cstddef>
#include <cstring>
#include <utility>

#include "devices/gpu-front/decode.h"
#include "devices/gpu-front/edid.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {
namespace {

// Every outstanding fence holds a descriptor, so the control queue is large; the cursor queue need not be.
constexpr uint16_t kQueueSizes[kQueueCount] = {256, 16};
// Chains handled before others on the loop get a turn.
constexpr uint32_t kChainsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<GpuFront>> GpuFront::Create(GpuFrontOptions options) {
  if (options.loop == nullptr) return absl::InvalidArgumentError("gpu-front: no event loop");
  if (options.scanouts < 1 || options.scanouts > kMaxScanouts) {
    return absl::InvalidArgumentError("gpu-front: 1 to 16 scanouts");
  }
  if (options.width < 1 || options.width > kMaxEdidSide || options.height < 1 || options.height > kMaxEdidSide) {
    return absl::InvalidArgumentError("gpu-front: display sides are 1 to 4095 pixels");
  }
  if (options.domain_timeout <= absl::ZeroDuration() || options.domain_timeout > absl::Hours(1)) {
    return absl::InvalidArgumentError("gpu-front: the domain's timeout is more than 0 and at most an hour");
  }
  if (options.window != nullptr && options.window->size() % kPageSize != 0) {
    return absl::InvalidArgumentError("gpu-front: the host-visible window is whole pages");
  }
  UniqueFd channel = std::move(options.channel);
  auto device = std::unique_ptr<GpuFront>(new GpuFront(std::move(options)));
  if (channel.valid()) SLUICE_RETURN_IF_ERROR(device->control_->ConnectDomain(std::move(channel)));
  return device;
}

GpuFront::GpuFront(GpuFrontOptions options) : options_(std::move(options)), self_(std::make_shared<GpuFront*>(this)) {
  Responder* const responder = this;
  control_ = std::make_unique<Control>(ControlOptions{.loop = options_.loop,
                                                      .window = options_.window,
                                                      .identity = options_.identity,
                                                      .scanouts = options_.scanouts,
                                                      .width = options_.width,
                                                      .height = options_.height,
                                                      .limits = options_.limits,
                                                      .stats = options_.stats,
                                                      .domain_timeout = options_.domain_timeout,
                                                      .on_domain_state = options_.on_domain_state},
                                       responder);
}

GpuFront::~GpuFront() = default;

absl::StatusOr<ScanoutImage> GpuFront::SnapshotScanout(uint32_t scanout) const {
  return control_->Snapshot(scanout);
}

absl::Status GpuFront::ConnectDomain(UniqueFd channel) {
  return control_->ConnectDomain(std::move(channel));
}

absl::Status GpuFront::ResizeDisplay(uint32_t width, uint32_t height) {
  if (width < 1 || width > kMaxEdidSide || height < 1 || height > kMaxEdidSide) {
    return absl::InvalidArgumentError("display sides are 1 to 4095 pixels");
  }
  control_->SetDisplaySize(width, height);
  events_.fetch_or(kEventDisplay, std::memory_order_relaxed);
  if (activation_.has_value()) {
    activation_->interrupt->BumpConfigGeneration();
    activation_->interrupt->SignalConfig();
  }
  return absl::OkStatus();
}

uint64_t GpuFront::features() const {
  return (uint64_t{1} << kFeatureVirgl) | (uint64_t{1} << kFeatureEdid) | (uint64_t{1} << kFeatureResourceUuid) |
         (uint64_t{1} << kFeatureResourceBlob) | (uint64_t{1} << kFeatureContextInit);
}

absl::Span<const uint16_t> GpuFront::queue_max_sizes() const {
  return kQueueSizes;
}

std::vector<virtio::SharedMemoryRegion> GpuFront::shared_memory_regions() const {
  if (options_.window == nullptr || options_.window->size() == 0) return {};
  return {{.id = kShmIdHostVisible, .size = options_.window->size()}};
}

void GpuFront::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  const GpuConfig config = {events_.load(std::memory_order_relaxed), 0, options_.scanouts, control_->num_capsets()};
  std::array<uint8_t, sizeof(config)> bytes;
  std::memcpy(bytes.data(), &config, sizeof(config));
  std::fill(to.begin(), to.end(), 0);
  if (offset >= bytes.size()) return;
  const size_t n = std::min<size_t>(to.size(), bytes.size() - offset);
  std::memcpy(to.data(), bytes.data() + offset, n);
}

void GpuFront::WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) {
  // events_clear is the only writable field; a driver writes it as a whole (section 5.7.4).
  if (offset != offsetof(GpuConfig, events_clear) || from.size() != sizeof(uint32_t)) return;
  uint32_t clear;
  std::memcpy(&clear, from.data(), sizeof(clear));
  events_.fetch_and(~clear, std::memory_order_relaxed);
}

absl::Status GpuFront::Activate(virtio::Activation activation) {
  control_->Activate(activation.memory, activation.features);
  activation_ = std::move(activation);
  return absl::OkStatus();
}

void GpuFront::Reset() {
  control_->Reset();
  in_flight_.clear();
  activation_.reset();
}

void GpuFront::QueueNotified(uint16_t index) {
  Drain(index);
}

void GpuFront::Drain(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value())
    return;
  draining_ = true;
  const absl::StatusOr<bool> more = activation_->queues[index]->Drain(
      kChainsPerTurn, [this, index](virtio::DescriptorChain chain) { Take(index, std::move(chain)); });
  draining_ = false;
  // Answers to requests of the control queue may have completed while the cursor queue was drained, and vice versa.
  for (size_t queue = 0; queue < activation_->queues.size(); ++queue) Interrupt(static_cast<uint16_t>(queue));
  if (!more.ok()) {
    SLUICE_LOG_GUEST(warn, "virtio-gpu: queue {} is broken: {}", index, std::string(more.status().message()));
    activation_->interrupt->SetNeedsReset();
    return;
  }
  if (*more) {
    asio::post(*options_.loop, [self = std::weak_ptr<GpuFront*>(self_), index] {
      if (const std::shared_ptr<GpuFront*> device = self.lock()) (*device)->Drain(index);
    });
  }
}

void GpuFront::Take(uint16_t index, virtio::DescriptorChain chain) {
  std::vector<uint8_t> bytes(std::min<uint64_t>(chain.ReadableSize(), kMaxRequestBytes));
  // Cannot fail: the chain says that it has that many. If it did, the zeros would be an unknown command.
  if (!bytes.empty()) chain.Read(0, absl::MakeSpan(bytes)).IgnoreError();
  const uint64_t writable = chain.WritableSize();
  const uint64_t request = ++last_request_;
  in_flight_.emplace(request, InFlight{index, std::move(chain)});
  control_->Handle(index, request, bytes, writable);
}

void GpuFront::Respond(uint64_t request, absl::Span<const uint8_t> response) {
  auto node = in_flight_.extract(request);
  if (node.empty() || !activation_.has_value()) return;
  InFlight& in_flight = node.mapped();
  virtio::Queue& queue = *activation_->queues[in_flight.queue];
  uint64_t written = 0;
  if (response.size() <= in_flight.chain.WritableSize() && in_flight.chain.Write(0, response).ok()) {
    written = response.size();
  }
  queue.Complete(std::move(in_flight.chain), written).IgnoreError();
  if (!draining_) Interrupt(in_flight.queue);
}

void GpuFront::Interrupt(uint16_t index) {
  if (!activation_->queues[index].has_value()) return;
  if (activation_->queues[index]->NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
}

}  // namespace sluice::gpu_front
