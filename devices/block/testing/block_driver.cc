#include "devices/block/testing/block_driver.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::block::testing {
namespace {

using memory::GuestAddress;

constexpr std::chrono::seconds kDeadline(10);

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "BlockDriver: %s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

BlockDriver::BlockDriver(BlockOptions options, uint64_t features)
    : ram_(OrDie(memory::GuestMemory::CreateSimple(kRamBytes))) {
  options.loop = &loop_;
  device_ = OrDie(BlockDevice::Create(std::move(options)));
  Start(features);
}

BlockDriver::~BlockDriver() = default;

void BlockDriver::Start(uint64_t features) {
  queues_.clear();
  pending_.clear();
  results_.clear();
  needs_reset_ = false;
  const auto sizes = device_->queue_max_sizes();
  const uint64_t share = (kFreeRam - (2 << 20)) / sizes.size();
  virtio::Activation activation;
  activation.memory = ram_;
  activation.features = (features & device_->features()) | virtio::kFeatureVersion1;
  activation.interrupt = this;
  for (size_t i = 0; i < sizes.size(); ++i) {
    queues_.push_back(OrDie(
        virtio::testing::FakeDriver::Create(ram_, {.size = sizes[i],
                                                   .rings = GuestAddress(0x10000 * (i + 1)),
                                                   .buffers = GuestAddress((2 << 20) + i * (share & ~uint64_t{0xfff})),
                                                   .buffer_bytes = share & ~uint64_t{0xfff}})));
    activation.queues.push_back(OrDie(virtio::Queue::Create(ram_, queues_.back().layout())));
  }
  if (!device_->Activate(std::move(activation)).ok()) std::abort();
}

Ticket BlockDriver::Send(const RequestHeader& header, const std::vector<std::vector<uint8_t>>& readable,
                         const std::vector<uint32_t>& writable, uint16_t index, bool indirect) {
  constexpr Ticket kNone = {0xffff, 0};
  virtio::testing::FakeDriver& queue = queues_[index];
  auto builder = queue.Chain();
  builder.ReadableObject(header);
  for (const std::vector<uint8_t>& bytes : readable) builder.Readable(bytes);
  Pending pending;
  for (const uint32_t bytes : writable) {
    const auto at = queue.Allocate(bytes);
    if (!at.ok()) return kNone;
    pending.data.push_back({*at, bytes});
    builder.Raw(at->value(), bytes, virtio::kDescWrite);
  }
  const auto status = queue.Allocate(1);
  if (!status.ok() || !ram_.Write(*status, kNoStatus).ok()) return kNone;
  pending.status = status->value();
  builder.Raw(pending.status, 1, virtio::kDescWrite);
  if (indirect) builder.Indirect();
  const auto head = builder.Submit();
  if (!head.ok()) return kNone;
  const Ticket ticket = {index, *head};
  results_.erase(ticket);
  pending_[ticket] = std::move(pending);
  if (notify_) device_->QueueNotified(index);
  return ticket;
}

Ticket BlockDriver::Read(uint64_t sector, uint32_t bytes, uint16_t queue) {
  return Send({kTypeIn, 0, sector}, {}, {bytes}, queue);
}

Ticket BlockDriver::Write(uint64_t sector, absl::Span<const uint8_t> bytes, uint16_t queue) {
  return Send({kTypeOut, 0, sector}, {{bytes.begin(), bytes.end()}}, {}, queue);
}

Ticket BlockDriver::Flush(uint16_t queue) {
  return Send({kTypeFlush, 0, 0}, {}, {}, queue);
}

Ticket BlockDriver::GetId(uint32_t bytes) {
  return Send({kTypeGetId, 0, 0}, {}, {bytes});
}

Ticket BlockDriver::Ranges(uint32_t type, const std::vector<RangeSegment>& ranges) {
  std::vector<uint8_t> bytes(ranges.size() * sizeof(RangeSegment));
  if (!bytes.empty()) std::memcpy(bytes.data(), ranges.data(), bytes.size());
  return Send({type, 0, 0}, {bytes}, {});
}

void BlockDriver::Pump() {
  loop_.restart();
  loop_.poll();
  Collect();
}

void BlockDriver::Collect() {
  for (size_t i = 0; i < queues_.size(); ++i) {
    const auto index = static_cast<uint16_t>(i);
    while (auto completion = queues_[i].Collect()) {
      const Ticket ticket = {index, completion->head};
      auto node = pending_.extract(ticket);
      if (node.empty()) continue;
      Result result;
      result.used = completion->written;
      result.status = ram_.Read<uint8_t>(GuestAddress(node.mapped().status)).value_or(kNoStatus);
      for (const virtio::Segment& segment : node.mapped().data) {
        const size_t at = result.data.size();
        result.data.resize(at + segment.size);
        ram_.CopyFrom(segment.address, absl::MakeSpan(result.data).subspan(at)).IgnoreError();
      }
      results_[ticket] = std::move(result);
      completed_.push_back(ticket);
    }
  }
}

std::optional<Result> BlockDriver::Poll(Ticket ticket) {
  Pump();
  auto node = results_.extract(ticket);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::optional<Result> BlockDriver::Wait(Ticket ticket) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (true) {
    if (auto result = Poll(ticket)) return result;
    if (std::chrono::steady_clock::now() > end) return std::nullopt;
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(1));
  }
}

bool BlockDriver::WaitForAll() {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (true) {
    Pump();
    if (pending_.empty()) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(1));
  }
}

BlockConfig BlockDriver::Config() {
  std::array<uint8_t, sizeof(BlockConfig)> bytes;
  device_->ReadConfig(0, absl::MakeSpan(bytes));
  BlockConfig config;
  std::memcpy(&config, bytes.data(), sizeof(config));
  return config;
}

}  // namespace sluice::block::testing
