#include "devices/console/device.h"

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "devices/console/port.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::console {
namespace {

constexpr uint16_t kPortQueueSize = 128;
constexpr uint16_t kControlQueueSize = 64;
constexpr size_t kMaxBufferBytes = 16 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<ConsoleDevice>> ConsoleDevice::Create(ConsoleOptions options) {
  if (options.loop == nullptr) return absl::InvalidArgumentError("virtio-console: needs a loop");
  if (options.ports.empty() || options.ports.size() > kMaxPorts) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtio-console: ", options.ports.size(), " ports; 1 to ", kMaxPorts, " are possible"));
  }
  auto device = std::unique_ptr<ConsoleDevice>(new ConsoleDevice(std::move(options)));
  for (PortOptions& from : device->options_.ports) {
    if (from.name.size() > kMaxNameBytes ||
        !std::all_of(from.name.begin(), from.name.end(), [](unsigned char c) { return absl::ascii_isgraph(c); })) {
      return absl::InvalidArgumentError(absl::StrCat("virtio-console: port name \"", Printable(from.name),
                                                     "\" is not 1 to ", kMaxNameBytes, " printable characters"));
    }
    if (from.buffer_bytes == 0 || from.buffer_bytes > kMaxBufferBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("virtio-console: a buffer of ", from.buffer_bytes, " bytes is not in 1..16 MiB"));
    }
    auto port = std::make_unique<Port>(*device->options_.loop);
    port->name = from.name;
    port->console = from.console;
    port->buffer_bytes = from.buffer_bytes;
    port->discard_when_full = from.discard_when_full;
    if (from.fd.valid()) {
      SLUICE_RETURN_IF_ERROR(
          Annotate(device->Attach(*port, std::move(from.fd)), absl::StrCat("virtio-console port \"", from.name, "\"")));
    }
    device->ports_.push_back(std::move(port));
  }
  const size_t count = device->ports_.size();
  device->queue_sizes_.assign(2 * count + 2, kPortQueueSize);
  device->queue_sizes_[kControlReceiveQueue] = kControlQueueSize;
  device->queue_sizes_[kControlTransmitQueue] = kControlQueueSize;
  return device;
}

ConsoleDevice::ConsoleDevice(ConsoleOptions options)
    : options_(std::move(options)),
      cols_(options_.cols),
      rows_(options_.rows),
      self_(std::make_shared<ConsoleDevice*>(this)) {}

ConsoleDevice::~ConsoleDevice() = default;

void ConsoleDevice::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  std::array<uint8_t, kConfigBytes> config{};
  {
    MutexLock lock(&config_mu_);
    config[kConfigCols] = static_cast<uint8_t>(cols_);
    config[kConfigCols + 1] = static_cast<uint8_t>(cols_ >> 8);
    config[kConfigRows] = static_cast<uint8_t>(rows_);
    config[kConfigRows + 1] = static_cast<uint8_t>(rows_ >> 8);
  }
  config[kConfigPorts] = static_cast<uint8_t>(ports_.size());
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = offset < config.size() && i < config.size() - offset ? config[offset + i] : 0;
  }
}

void ConsoleDevice::SetSize(uint16_t cols, uint16_t rows) {
  {
    MutexLock lock(&config_mu_);
    if (cols_ == cols && rows_ == rows) return;
    cols_ = cols;
    rows_ = rows;
    if (activation_.has_value()) activation_->interrupt->BumpConfigGeneration();
  }
  if (!activation_.has_value()) return;
  if ((activation_->features & kFeatureSize) != 0) activation_->interrupt->SignalConfig();
  for (const std::unique_ptr<Port>& port : ports_) port->tell_resize = port->console && multiport();
  SendControl(0);
}

absl::Status ConsoleDevice::ConnectPort(uint32_t index, UniqueFd fd) {
  if (index >= ports_.size()) return absl::InvalidArgumentError(absl::StrCat("virtio-console: no port ", index));
  Port& port = *ports_[index];
  if (port.descriptor.is_open()) {
    return absl::FailedPreconditionError(absl::StrCat("virtio-console: port ", index, " is connected"));
  }
  SLUICE_RETURN_IF_ERROR(Annotate(Attach(port, std::move(fd)), absl::StrCat("virtio-console port ", index)));
  if (activation_.has_value()) {
    port.tell_open = multiport();
    SendControl(0);
    Input(index);
    Output(index);
  }
  return absl::OkStatus();
}

bool ConsoleDevice::host_connected(uint32_t port) const {
  return port < ports_.size() && ports_[port]->descriptor.is_open();
}

bool ConsoleDevice::guest_open(uint32_t port) const {
  return port < ports_.size() && ports_[port]->guest_open;
}

bool ConsoleDevice::multiport() const {
  return activation_.has_value() && (activation_->features & kFeatureMultiport) != 0;
}

absl::Status ConsoleDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  // Without ports' control messages there is one port, always open (section 5.3.5).
  ports_[0]->guest_open = !multiport();
  return absl::OkStatus();
}

void ConsoleDevice::Reset() {
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    Port& port = *ports_[i];
    // What is in the buffer left the guest and still goes out.
    port.input.reset();
    port.output.reset();
    port.output_taken = 0;
    port.tell_add = port.tell_console = port.tell_name = port.tell_resize = port.tell_open = false;
    const bool was_open = std::exchange(port.guest_open, false);
    if (was_open && options_.on_guest_open != nullptr && multiport()) options_.on_guest_open(i, false);
  }
  activation_.reset();
}

void ConsoleDevice::QueueNotified(uint16_t index) {
  if (index == kControlReceiveQueue) return SendControl(0);
  if (index == kControlTransmitQueue) return DrainControl(0);
  const uint32_t port = index < 2 ? 0 : (index - 2u) / 2;
  if (port >= ports_.size()) return;
  if (index == ReceiveQueue(port)) return Input(port);
  Output(port);
}

virtio::Queue* ConsoleDevice::queue(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value()) {
    return nullptr;
  }
  return &*activation_->queues[index];
}

std::optional<virtio::DescriptorChain> ConsoleDevice::NextChain(uint16_t index) {
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

void ConsoleDevice::Interrupt(uint16_t index) {
  virtio::Queue* const used = queue(index);
  if (used != nullptr && used->NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
}

void ConsoleDevice::BreakQueue(uint16_t index, const absl::Status& why) {
  SLUICE_LOG_GUEST(warn, "virtio-console: queue {} is broken: {}", index, std::string(why.message()));
  activation_->interrupt->SetNeedsReset();
}

void ConsoleDevice::Later(void (ConsoleDevice::*step)(uint32_t), uint32_t port) {
  asio::post(*options_.loop, [self = std::weak_ptr<ConsoleDevice*>(self_), step, port] {
    if (const std::shared_ptr<ConsoleDevice*> device = self.lock()) ((*device)->*step)(port);
  });
}

}  // namespace sluice::console
