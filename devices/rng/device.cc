#include "devices/rng/device.h"

#include <string.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::rng {
namespace {

constexpr uint16_t kQueueSizes[] = {64};
// Requests answered before others on the loop get a turn: 128 KiB, some 0.3 ms.
constexpr uint32_t kRequestsPerTurn = 32;
constexpr std::chrono::milliseconds kRetry(100);

}  // namespace

absl::Status HostEntropy(absl::Span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t got = getrandom(to.data(), to.size(), GRND_NONBLOCK);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoToStatus(errno, "getrandom");
    to.remove_prefix(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RngDevice>> RngDevice::Create(RngOptions options) {
  if (options.loop == nullptr) return absl::InvalidArgumentError("rng: no event loop");
  if (options.source == nullptr) return absl::InvalidArgumentError("rng: no source");
  return std::unique_ptr<RngDevice>(new RngDevice(std::move(options)));
}

RngDevice::RngDevice(RngOptions options)
    : options_(std::move(options)),
      bytes_(options_.bytes),
      timer_(*options_.loop),
      self_(std::make_shared<RngDevice*>(this)) {}

absl::Span<const uint16_t> RngDevice::queue_max_sizes() const {
  return kQueueSizes;
}

void RngDevice::ReadConfig(uint64_t, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0);
}

absl::Status RngDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  return absl::OkStatus();
}

void RngDevice::Reset() {
  activation_.reset();
  held_.reset();
  ready_ = false;
  timer_.cancel();
  timer_armed_ = false;
}

void RngDevice::QueueNotified(uint16_t index) {
  if (!activation_.has_value() || index != 0 || !activation_->queues[0].has_value()) return;
  if (!ready_) activation_->queues[0]->DisableNotifications();
  ready_ = true;
  Pump();
}

void RngDevice::WaitFor(rate::TokenBucket::Clock::duration wait) {
  timer_armed_ = true;
  timer_.expires_after(wait);
  timer_.async_wait([weak = std::weak_ptr<RngDevice*>(self_)](const asio::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    (*self)->timer_armed_ = false;
    (*self)->Pump();
  });
}

void RngDevice::Pump() {
  if (!activation_.has_value()) return;
  uint32_t turn = kRequestsPerTurn;
  while (ready_ && !timer_armed_) {
    if (const auto wait = bytes_.Wait(rate::TokenBucket::Clock::now()); wait > wait.zero()) {
      WaitFor(wait);
      break;
    }
    if (turn-- == 0) {
      if (std::exchange(pump_posted_, true)) break;
      asio::post(*options_.loop, [weak = std::weak_ptr<RngDevice*>(self_)] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        (*self)->pump_posted_ = false;
        (*self)->Pump();
      });
      break;
    }
    auto chain = Next();
    if (chain.has_value() && !Answer(*std::move(chain))) WaitFor(kRetry);
  }
  auto& queue = activation_->queues[0];
  if (queue.has_value() && queue->NeedsInterrupt()) activation_->interrupt->SignalQueue(0);
}

std::optional<virtio::DescriptorChain> RngDevice::Next() {
  if (held_.has_value()) return std::exchange(held_, std::nullopt);
  virtio::Queue& queue = *activation_->queues[0];
  auto chain = queue.Pop();
  if (!chain.ok()) {
    SLUICE_LOG_GUEST(warn, "{}: the queue is broken: {}", options_.name, chain.status().ToString());
    ready_ = false;
    activation_->interrupt->SetNeedsReset();
    return std::nullopt;
  }
  if (chain->has_value()) return *std::move(chain);
  if (queue.EnableNotifications()) {
    queue.DisableNotifications();  // one came meanwhile: next time round
  } else {
    ready_ = false;
  }
  return std::nullopt;
}

bool RngDevice::Answer(virtio::DescriptorChain chain) {
  std::array<uint8_t, kMaxBytes> buffer;
  const auto bytes = absl::MakeSpan(buffer).subspan(0, std::min<uint64_t>(chain.WritableSize(), kMaxBytes));
  if (absl::Status status = options_.source(bytes); !status.ok()) {
    SLUICE_LOG_GUEST(warn, "{}: {}", options_.name, status.ToString());
    held_.emplace(std::move(chain));
    return false;
  }
  uint64_t written = 0;
  if (chain.Write(0, bytes).ok()) written = bytes.size();
  // Nobody else is to find the guest's numbers on our stack.
  explicit_bzero(buffer.data(), buffer.size());
  bytes_.Take(written, rate::TokenBucket::Clock::now());
  bytes_given_ += written;
  activation_->queues[0]->Complete(std::move(chain), written).IgnoreError();
  return true;
}

}  // namespace sluice::rng
