#include "devices/net/device.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vmm/base/log.h"

namespace sluice::net {
namespace {

constexpr uint16_t kQueueSizes[] = {256, 256, 16};
constexpr uint16_t kMinMtu = 68;  // section 5.1.4.1
constexpr uint16_t kMaxMtu = 65520;
constexpr uint16_t kStandardMtu = 1500;

}  // namespace

absl::StatusOr<MacAddress> ParseMac(absl::string_view text) {
  MacAddress mac{};
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  bool good = parts.size() == mac.size();
  for (size_t i = 0; good && i < mac.size(); ++i) {
    uint32_t value = 0;
    good = parts[i].size() == 2 && absl::SimpleHexAtoi(parts[i], &value) && value <= 0xff;
    mac[i] = static_cast<uint8_t>(value);
  }
  if (!good || (mac[0] & 1) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text,
                                                   "\" is no MAC address of a single station: six hexadecimal bytes "
                                                   "like 52:54:00:12:34:56 with an even first byte"));
  }
  return mac;
}

absl::StatusOr<std::unique_ptr<NetDevice>> NetDevice::Create(NetOptions options) {
  if (options.loop == nullptr || options.backend == nullptr || options.backend->fd() < 0) {
    return absl::InvalidArgumentError("virtio-net: needs a loop and a back end with a descriptor");
  }
  if (options.mtu < kMinMtu || options.mtu > kMaxMtu) {
    return absl::InvalidArgumentError(absl::StrCat("virtio-net: MTU ", options.mtu, " is not in 68..65520"));
  }
  if ((options.mac[0] & 1) != 0) return absl::InvalidArgumentError("virtio-net: the MAC address is a group address");
  auto device = std::unique_ptr<NetDevice>(new NetDevice(std::move(options)));
  asio::error_code error;
  device->descriptor_.assign(device->options_.backend->fd(), error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("virtio-net: cannot wait for frames: ", error.message()));
  return device;
}

NetDevice::NetDevice(NetOptions options)
    : options_(std::move(options)),
      descriptor_(*options_.loop),
      receive_timer_(*options_.loop),
      transmit_timer_(*options_.loop),
      receive_limit_(options_.receive),
      transmit_limit_(options_.transmit),
      received_(kHeaderBytes + kMaxFrameBytes),
      sent_(kHeaderBytes + kMaxFrameBytes),
      mac_(options_.mac),
      self_(std::make_shared<NetDevice*>(this)) {}

NetDevice::~NetDevice() {
  // The back end owns the descriptor.
  if (descriptor_.is_open()) descriptor_.release();
}

uint64_t NetDevice::features() const {
  uint64_t features =
      kFeatureMtu | kFeatureMac | kFeatureStatus | kFeatureCtrlVq | kFeatureCtrlRx | kFeatureCtrlMacAddr;
  const uint64_t offloads = options_.offloads ? options_.backend->offload_features() : 0;
  features |= offloads;
  if ((offloads & kGuestOffloads) != 0) features |= kFeatureCtrlGuestOffloads;
  const bool one_buffer_does =
      (offloads & (kFeatureGuestTso4 | kFeatureGuestTso6)) == 0 && options_.mtu <= kStandardMtu;
  if (options_.merge_buffers == MergeBuffers::kAlways ||
      (options_.merge_buffers == MergeBuffers::kAuto && one_buffer_does)) {
    features |= kFeatureMrgRxbuf;
  }
  return features;
}

absl::Span<const uint16_t> NetDevice::queue_max_sizes() const {
  return kQueueSizes;
}

void NetDevice::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  std::array<uint8_t, kConfigBytes> config{};
  const auto put16 = [&config](size_t at, uint16_t value) {
    config[at] = static_cast<uint8_t>(value);
    config[at + 1] = static_cast<uint8_t>(value >> 8);
  };
  {
    MutexLock lock(&config_mu_);
    std::copy(mac_.begin(), mac_.end(), config.begin() + kConfigMac);
    put16(kConfigStatus, status_);
  }
  put16(kConfigMaxPairs, 1);
  put16(kConfigMtu, options_.mtu);
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = offset < config.size() && i < config.size() - offset ? config[offset + i] : 0;
  }
}

absl::Status NetDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  notifications_on_.fill(true);
  return SetGuestOffloads(activation_->features & kGuestOffloads & options_.backend->offload_features());
}

absl::Status NetDevice::SetGuestOffloads(uint64_t offloads) {
  guest_offloads_ = offloads;
  return backend_alive_ ? options_.backend->SetOffloads(offloads) : absl::OkStatus();
}

void NetDevice::Reset() {
  activation_.reset();
  gathered_.clear();
  gathered_bytes_ = 0;
  received_bytes_ = 0;
  held_.reset();
  sent_bytes_ = 0;
  receive_timer_.cancel();
  transmit_timer_.cancel();
  // A driver may change the address, not the machine's configuration of it.
  MutexLock lock(&config_mu_);
  mac_ = options_.mac;
}

void NetDevice::QueueNotified(uint16_t index) {
  switch (index) {
    case kReceiveQueue:
      return Receive();
    case kTransmitQueue:
      return Transmit();
    case kControlQueue:
      return DrainControl();
    default:
      return;
  }
}

virtio::Queue* NetDevice::queue(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value()) {
    return nullptr;
  }
  return &*activation_->queues[index];
}

std::optional<virtio::DescriptorChain> NetDevice::NextChain(uint16_t index) {
  virtio::Queue* const from = queue(index);
  if (from == nullptr || !from->status().ok()) return std::nullopt;
  // Twice: the driver may add a chain while notifications are switched on. A third is notified of.
  for (int attempt = 0; attempt < 2; ++attempt) {
    absl::StatusOr<std::optional<virtio::DescriptorChain>> chain = from->Pop();
    if (!chain.ok()) {
      BreakQueue(index, chain.status());
      return std::nullopt;
    }
    if (chain->has_value()) {
      // Until it is empty again, nobody needs to tell us of more.
      if (std::exchange(notifications_on_[index], false)) from->DisableNotifications();
      return *std::move(chain);
    }
    notifications_on_[index] = true;
    if (!from->EnableNotifications()) return std::nullopt;
  }
  return std::nullopt;
}

void NetDevice::Interrupt(uint16_t index) {
  virtio::Queue* const used = queue(index);
  if (used != nullptr && used->NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
}

void NetDevice::BreakQueue(uint16_t index, const absl::Status& why) {
  SLUICE_LOG_GUEST(warn, "virtio-net: queue {} is broken: {}", index, std::string(why.message()));
  activation_->interrupt->SetNeedsReset();
}

void NetDevice::Later(void (NetDevice::*step)()) {
  asio::post(*options_.loop, [self = std::weak_ptr<NetDevice*>(self_), step] {
    if (const std::shared_ptr<NetDevice*> device = self.lock()) ((*device)->*step)();
  });
}

rate::TokenBucket::Clock::duration NetDevice::Limiter::Wait() {
  const auto now = rate::TokenBucket::Clock::now();
  return std::max(bytes.Wait(now), frames.Wait(now));
}

void NetDevice::Limiter::Take(uint64_t frame_bytes) {
  if (!any()) return;
  const auto now = rate::TokenBucket::Clock::now();
  bytes.Take(frame_bytes, now);
  frames.Take(1, now);
}

bool NetDevice::Delay(asio::steady_timer& timer, Limiter& limit, void (NetDevice::*step)()) {
  if (!limit.any()) return false;
  const auto wait = limit.Wait();
  if (wait <= rate::TokenBucket::Clock::duration::zero()) return false;
  timer.expires_after(wait);
  timer.async_wait([self = std::weak_ptr<NetDevice*>(self_), step](asio::error_code error) {
    const std::shared_ptr<NetDevice*> device = self.lock();
    if (!error && device != nullptr) ((*device)->*step)();
  });
  return true;
}

void NetDevice::SetLink(bool up) {
  cable_ = up;
  ApplyLink();
}

void NetDevice::ApplyLink() {
  const bool up = cable_ && backend_alive_;
  if (up == link_up_) return;
  link_up_ = up;
  {
    MutexLock lock(&config_mu_);
    status_ = up ? kStatusLinkUp : 0;
    if (activation_.has_value()) activation_->interrupt->BumpConfigGeneration();
  }
  if (activation_.has_value()) activation_->interrupt->SignalConfig();
  Later(&NetDevice::Receive);
  Later(&NetDevice::Transmit);
}

void NetDevice::LoseBackend(const absl::Status& why) {
  if (!backend_alive_) return;
  backend_alive_ = false;
  SLUICE_LOG(warn, "virtio-net: the network is gone: {}", std::string(why.message()));
  ApplyLink();
  if (options_.on_backend_lost != nullptr) options_.on_backend_lost(why);
}

}  // namespace sluice::net
