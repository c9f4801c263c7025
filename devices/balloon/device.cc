#include "devices/balloon/device.h"

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "vmm/base/checked.h"
#include "vmm/base/log.h"

namespace sluice::balloon {
namespace {

constexpr uint16_t kQueueSizes[kQueueCount] = {128, 128, 16, 128, 128};
// Chains handled before others on the loop get a turn; each may cost up to kMaxPfns system calls.
constexpr uint32_t kChainsPerTurn = 4;
// Pages that one inflate or deflate request may name; Linux names 256 at most.
constexpr size_t kMaxPfns = 4096;
// Bytes of statistics that are looked at.
constexpr size_t kMaxStatsBytes = 64 * kStatBytes;

}  // namespace

absl::StatusOr<std::unique_ptr<BalloonDevice>> BalloonDevice::Create(BalloonOptions options) {
  if (options.loop == nullptr) return absl::InvalidArgumentError("balloon: no event loop");
  return std::unique_ptr<BalloonDevice>(new BalloonDevice(std::move(options)));
}

BalloonDevice::BalloonDevice(BalloonOptions options)
    : options_(std::move(options)), self_(std::make_shared<BalloonDevice*>(this)) {}

absl::Status BalloonDevice::SetTarget(uint64_t bytes) {
  const uint64_t pages = bytes / kPageSize;
  if (pages > UINT32_MAX) return absl::InvalidArgumentError("balloon: a target is less than 16 TiB");
  {
    MutexLock lock(&mu_);
    config_.num_pages = static_cast<uint32_t>(pages);
    if (activation_.has_value()) activation_->interrupt->BumpConfigGeneration();
  }
  if (activation_.has_value()) activation_->interrupt->SignalConfig();
  return absl::OkStatus();
}

uint64_t BalloonDevice::target_bytes() const {
  MutexLock lock(&mu_);
  return uint64_t{config_.num_pages} * kPageSize;
}

uint64_t BalloonDevice::actual_bytes() const {
  MutexLock lock(&mu_);
  return uint64_t{config_.actual} * kPageSize;
}

absl::Status BalloonDevice::RequestStats() {
  if (!activation_.has_value() || !stats_buffer_.has_value()) {
    return absl::FailedPreconditionError("balloon: the guest has no statistics to give, or owes the last ones");
  }
  // Section 5.5.6.3: the driver fills a buffer when the device uses the one that it has.
  auto& queue = activation_->queues[kStatsQueue];
  queue->Complete(*std::exchange(stats_buffer_, std::nullopt), 0).IgnoreError();
  if (queue->NeedsInterrupt()) activation_->interrupt->SignalQueue(kStatsQueue);
  return absl::OkStatus();
}

uint64_t BalloonDevice::features() const {
  uint64_t features = kFeatureStats | kFeaturePagePoison;
  if (options_.deflate_on_oom) features |= kFeatureDeflateOnOom;
  if (options_.page_reporting) features |= kFeaturePageReporting;
  return features;
}

absl::Span<const uint16_t> BalloonDevice::queue_max_sizes() const {
  return kQueueSizes;
}

void BalloonDevice::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  std::array<uint8_t, sizeof(BalloonConfig)> bytes;
  {
    MutexLock lock(&mu_);
    std::memcpy(bytes.data(), &config_, sizeof(config_));
  }
  std::fill(to.begin(), to.end(), 0);
  if (offset >= bytes.size()) return;
  std::memcpy(to.data(), bytes.data() + offset, std::min<size_t>(to.size(), bytes.size() - offset));
}

void BalloonDevice::WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) {
  uint32_t value;
  if (from.size() != sizeof(value)) return;
  std::memcpy(&value, from.data(), sizeof(value));
  MutexLock lock(&mu_);
  if (offset == offsetof(BalloonConfig, actual)) config_.actual = value;
  if (offset == offsetof(BalloonConfig, poison_val)) config_.poison_val = value;
}

absl::Status BalloonDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  return absl::OkStatus();
}

void BalloonDevice::Reset() {
  activation_.reset();
  stats_buffer_.reset();
  MutexLock lock(&mu_);
  config_.actual = 0;
  config_.poison_val = 0;
}

BalloonDevice::Role BalloonDevice::RoleOf(uint16_t index) const {
  const bool has_stats = (activation_->features & kFeatureStats) != 0;
  const bool reporting = (activation_->features & kFeaturePageReporting) != 0;
  if (index == kInflateQueue) return Role::kInflate;
  if (index == kDeflateQueue) return Role::kDeflate;
  if (index == kStatsQueue && has_stats) return Role::kStats;
  // By the specification, or by counting without gaps.
  const uint16_t without_gaps = has_stats ? kStatsQueue + 1 : kStatsQueue;
  if (reporting && (index == kReportingQueue || index == without_gaps)) return Role::kReporting;
  return Role::kNone;
}

void BalloonDevice::QueueNotified(uint16_t index) {
  Drain(index);
}

void BalloonDevice::Drain(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value()) {
    return;
  }
  const Role role = RoleOf(index);
  if (role == Role::kNone) return;
  virtio::Queue& queue = *activation_->queues[index];
  const auto more = queue.Drain(
      kChainsPerTurn, [this, index, role](virtio::DescriptorChain chain) { Take(index, role, std::move(chain)); });
  if (queue.NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
  if (!more.ok()) {
    SLUICE_LOG_GUEST(warn, "{}: queue {} is broken: {}", options_.name, index, more.status().ToString());
    activation_->interrupt->SetNeedsReset();
    return;
  }
  if (!*more || std::exchange(drain_posted_[index], true)) return;
  asio::post(*options_.loop, [weak = std::weak_ptr<BalloonDevice*>(self_), index] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (*self)->drain_posted_[index] = false;
    (*self)->Drain(index);
  });
}

void BalloonDevice::Take(uint16_t index, Role role, virtio::DescriptorChain chain) {
  switch (role) {
    case Role::kInflate:
      Inflate(chain);
      break;
    case Role::kDeflate:
      // Nothing to do: a page comes back when it is touched. What is counted is what the guest says.
      counters_.deflated_pages += chain.ReadableSize() / sizeof(uint32_t);
      break;
    case Role::kReporting:
      Report(chain);
      break;
    case Role::kStats:
      return TakeStats(std::move(chain));
    case Role::kNone:
      break;
  }
  activation_->queues[index]->Complete(std::move(chain), 0).IgnoreError();
}

void BalloonDevice::Count(const Released& released, uint64_t* pages) {
  *pages += released.pages;
  counters_.refused_pages += released.refused;
  if (released.refused > 0) {
    SLUICE_LOG_GUEST(warn, "{}: the guest gave {} pages that it cannot give", options_.name, released.refused);
  }
}

void BalloonDevice::Inflate(const virtio::DescriptorChain& chain) {
  const uint64_t named = chain.ReadableSize() / sizeof(uint32_t);
  std::vector<uint8_t> bytes(std::min<uint64_t>(named, kMaxPfns) * sizeof(uint32_t));
  if (!chain.Read(0, absl::MakeSpan(bytes)).ok()) return;
  std::vector<uint32_t> pfns(bytes.size() / sizeof(uint32_t));
  if (!pfns.empty()) std::memcpy(pfns.data(), bytes.data(), bytes.size());
  Released released = ReleasePages(activation_->memory, std::move(pfns));
  released.refused += named - bytes.size() / sizeof(uint32_t);
  Count(released, &counters_.inflated_pages);
}

void BalloonDevice::Report(const virtio::DescriptorChain& chain) {
  // Section 5.5.6.7: a reported page may lose its contents, unless the driver counts on a pattern that we do not
  // restore. Zero we do.
  if ((activation_->features & kFeaturePagePoison) != 0) {
    MutexLock lock(&mu_);
    if (config_.poison_val != 0) return;
  }
  for (const virtio::Segment& segment : chain.writable()) {
    Count(ReleaseRange(activation_->memory, segment.address, segment.size), &counters_.reported_pages);
  }
}

void BalloonDevice::TakeStats(virtio::DescriptorChain chain) {
  std::vector<uint8_t> bytes(std::min<uint64_t>(chain.ReadableSize(), kMaxStatsBytes));
  if (chain.Read(0, absl::MakeSpan(bytes)).ok() && !bytes.empty()) {
    stats_ = ParseStats(bytes);
    if (options_.on_stats != nullptr) options_.on_stats(*stats_);
  }
  // One buffer is the driver's to give; of more, the older ones go back.
  if (stats_buffer_.has_value()) {
    activation_->queues[kStatsQueue]->Complete(*std::exchange(stats_buffer_, std::nullopt), 0).IgnoreError();
  }
  stats_buffer_.emplace(std::move(chain));
}

}  // namespace sluice::balloon
