#include "devices/block/device.h"

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::block {
namespace {

// Requests taken before others on the loop get a turn.
constexpr uint32_t kRequestsPerTurn = 128;
// Of one DISCARD or WRITE_ZEROES. A host that has to write the zeros writes 16 x 32 MiB for one request at most.
constexpr uint32_t kMaxRanges = 16;
constexpr uint32_t kMaxDiscardSectors = 1 << 22;  // 2 GiB
constexpr uint32_t kMaxZeroesSectors = 1 << 16;   // 32 MiB

absl::Status CheckOptions(const BlockOptions& options) {
  const auto bad = [&options](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("block device \"", options.name, "\": ", what));
  };
  if (options.loop == nullptr) return bad("no event loop");
  if (options.disk == nullptr) return bad("no disk");
  if (options.serial.size() > kSerialBytes ||
      !std::all_of(options.serial.begin(), options.serial.end(), absl::ascii_isprint)) {
    return bad("a serial number is at most 20 printable ASCII characters");
  }
  if (options.queues < 1 || options.queues > kMaxQueues) return bad("1 to 16 queues");
  if (!IsPowerOfTwo(options.queue_size) || options.queue_size < 4 || options.queue_size > kMaxQueueSize) {
    return bad("a queue's size is a power of two, 4 to 1024");
  }
  if (!IsPowerOfTwo(options.block_size) || options.block_size < kSectorBytes || options.block_size > 4096) {
    return bad("the block size is 512, 1024, 2048 or 4096");
  }
  if (options.block_size < options.disk->info().logical_block) {
    return bad(absl::StrCat("the host's disk has blocks of ", options.disk->info().logical_block,
                            " bytes; the block size cannot be smaller"));
  }
  if (options.disk->info().bytes < options.block_size) return bad("the disk is shorter than a block");
  if (options.threads < 1 || options.threads > 64) return bad("1 to 64 threads");
  if (options.max_in_flight < 1 || options.max_in_flight > 4096) return bad("1 to 4096 requests in flight");
  if (options.segment_bytes < 4096) return bad("segments of at least 4096 bytes");
  return absl::OkStatus();
}

uint8_t Log2(uint32_t power_of_two) {
  return static_cast<uint8_t>(__builtin_ctz(power_of_two));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockDevice>> BlockDevice::Create(BlockOptions options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  const uint64_t bytes = options.disk->info().bytes;
  const uint64_t usable = bytes / options.block_size * options.block_size;
  if (usable != bytes) {
    SLUICE_LOG(warn, "{}: the last {} bytes are no whole block of {} and are out of the guest's reach", options.name,
               bytes - usable, options.block_size);
  }
  auto device = std::unique_ptr<BlockDevice>(new BlockDevice(std::move(options), usable >> kSectorShift));
  const BlockOptions& o = device->options_;
  IoSink* const sink = device.get();
  SLUICE_ASSIGN_OR_RETURN(device->engine_, CreateEngine(o.engine, {.loop = o.loop,
                                                                   .disk = o.disk.get(),
                                                                   .sink = sink,
                                                                   .threads = o.threads,
                                                                   .max_in_flight = o.max_in_flight}));
  return device;
}

BlockDevice::BlockDevice(BlockOptions options, uint64_t sectors)
    : options_(std::move(options)),
      queue_sizes_(options_.queues, options_.queue_size),
      writeback_(options_.write_back ? 1 : 0),
      bytes_(options_.bytes),
      operations_(options_.operations),
      timer_(*options_.loop),
      ready_(options_.queues, false),
      self_(std::make_shared<BlockDevice*>(this)) {
  rules_.sectors = sectors;
  rules_.read_only = options_.disk->info().read_only;
  // A header and a status take a descriptor each.
  rules_.segments = std::min<uint32_t>(options_.queue_size, virtio::kMaxChainDescriptors) - 2;
  rules_.segment_bytes = options_.segment_bytes;
  rules_.ranges = kMaxRanges;
  rules_.discard_sectors = kMaxDiscardSectors;
  rules_.zeroes_sectors = kMaxZeroesSectors;
  rules_.serial = options_.serial;
  FillConfig();
}

BlockDevice::~BlockDevice() = default;

void BlockDevice::FillConfig() {
  const DiskInfo& info = options_.disk->info();
  config_.capacity = rules_.sectors;
  config_.size_max = rules_.segment_bytes;
  config_.seg_max = rules_.segments;
  config_.blk_size = options_.block_size;
  const uint32_t physical = std::max(info.physical_block, options_.block_size);
  config_.physical_block_exp = Log2(physical / options_.block_size);
  config_.min_io_size = static_cast<uint16_t>(physical / options_.block_size);
  config_.num_queues = options_.queues;
  config_.max_discard_sectors = kMaxDiscardSectors;
  config_.max_discard_seg = kMaxRanges;
  config_.discard_sector_alignment = physical >> kSectorShift;
  config_.max_write_zeroes_sectors = kMaxZeroesSectors;
  config_.max_write_zeroes_seg = kMaxRanges;
  config_.write_zeroes_may_unmap = 1;
}

uint64_t BlockDevice::features() const {
  uint64_t features = kFeatureSizeMax | kFeatureSegMax | kFeatureBlockSize | kFeatureTopology;
  if (options_.write_back) features |= kFeatureFlush | kFeatureConfigWce;
  if (options_.queues > 1) features |= kFeatureMultiQueue;
  if (rules_.read_only) {
    features |= kFeatureReadOnly;
  } else if (options_.discard) {
    features |= kFeatureDiscard | kFeatureWriteZeroes;
  }
  return features;
}

void BlockDevice::ReadConfig(uint64_t offset, absl::Span<uint8_t> to) {
  BlockConfig config = config_;
  config.writeback = writeback_.load(std::memory_order_relaxed);
  std::array<uint8_t, sizeof(config)> bytes;
  std::memcpy(bytes.data(), &config, sizeof(config));
  std::fill(to.begin(), to.end(), 0);
  if (offset >= bytes.size()) return;
  std::memcpy(to.data(), bytes.data() + offset, std::min<size_t>(to.size(), bytes.size() - offset));
}

void BlockDevice::WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) {
  // The only field that a driver may write. A device without a cache stays so.
  if (offset != offsetof(BlockConfig, writeback) || from.size() != 1 || from[0] > 1 || !options_.write_back) return;
  if (writeback_.exchange(from[0], std::memory_order_relaxed) == from[0] || from[0] == 1) return;
  // The driver need not flush any more; what it wrote before is to reach the medium all the same.
  if (cache_flush_posted_.exchange(true)) return;
  asio::post(*options_.loop, [weak = std::weak_ptr<BlockDevice*>(self_)] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (*self)->cache_flush_posted_.store(false);
    (*self)->FlushCache();
  });
}

void BlockDevice::FlushCache() {
  if (!activation_.has_value()) return;
  if (cache_flush_running_) {
    cache_flush_again_ = true;
    return;
  }
  cache_flush_running_ = true;
  engine_->Submit({.id = 0, .kind = IoKind::kFlush});
  engine_->Kick();
}

bool BlockDevice::WritesThrough() const {
  if (!options_.write_back || (activation_->features & kFeatureFlush) == 0) return true;
  return (activation_->features & kFeatureConfigWce) != 0 && writeback_.load(std::memory_order_relaxed) == 0;
}

absl::Status BlockDevice::Activate(virtio::Activation activation) {
  activation_ = std::move(activation);
  rules_.discard = (activation_->features & kFeatureDiscard) != 0;
  rules_.write_zeroes = (activation_->features & kFeatureWriteZeroes) != 0;
  // Section 5.2.5.2: without a way to flush there is no volatile cache.
  if ((activation_->features & kFeatureFlush) == 0) writeback_.store(0, std::memory_order_relaxed);
  return absl::OkStatus();
}

void BlockDevice::Reset() {
  engine_->Quiesce();
  in_flight_.clear();
  cache_flush_running_ = false;
  cache_flush_again_ = false;
  activation_.reset();
  ready_.assign(ready_.size(), false);
  next_queue_ = 0;
  timer_.cancel();
  timer_armed_ = false;
  writeback_.store(options_.write_back ? 1 : 0, std::memory_order_relaxed);
}

void BlockDevice::QueueNotified(uint16_t index) {
  if (!activation_.has_value() || index >= activation_->queues.size() || !activation_->queues[index].has_value()) {
    return;
  }
  if (!ready_[index]) activation_->queues[index]->DisableNotifications();
  ready_[index] = true;
  Pump();
}

rate::TokenBucket::Clock::duration BlockDevice::WaitForRates() {
  if (!bytes_.limited() && !operations_.limited()) return rate::TokenBucket::Clock::duration::zero();
  const auto now = rate::TokenBucket::Clock::now();
  return std::max(bytes_.Wait(now), operations_.Wait(now));
}

void BlockDevice::Pump() {
  if (!activation_.has_value()) return;
  uint32_t turn = kRequestsPerTurn;
  uint32_t idle = 0;  // queues in a row that had nothing
  const auto queues = static_cast<uint16_t>(activation_->queues.size());
  while (idle < queues) {
    const uint16_t index = next_queue_;
    const auto next = static_cast<uint16_t>((index + 1) % queues);
    if (!ready_[index]) {
      ++idle;
      next_queue_ = next;
      continue;
    }
    // Whoever cannot have its turn now has it first when there is room.
    if (in_flight_.size() >= options_.max_in_flight) break;  // IoDone comes back here
    if (timer_armed_) break;
    if (const auto wait = WaitForRates(); wait > wait.zero()) {
      ++stats_.throttled;
      timer_armed_ = true;
      timer_.expires_after(wait);
      timer_.async_wait([weak = std::weak_ptr<BlockDevice*>(self_)](const asio::error_code& error) {
        const auto self = weak.lock();
        if (error || self == nullptr) return;
        (*self)->timer_armed_ = false;
        (*self)->Pump();
      });
      break;
    }
    if (turn-- == 0) {
      PostPump();
      break;
    }
    next_queue_ = next;
    idle = TakeOne(index) ? 0 : idle + 1;
  }
  engine_->Kick();
  Interrupts();
}

void BlockDevice::PostPump() {
  if (std::exchange(pump_posted_, true)) return;
  asio::post(*options_.loop, [weak = std::weak_ptr<BlockDevice*>(self_)] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (*self)->pump_posted_ = false;
    (*self)->Pump();
  });
}

bool BlockDevice::TakeOne(uint16_t index) {
  virtio::Queue& queue = *activation_->queues[index];
  auto chain = queue.Pop();
  if (!chain.ok()) {
    SLUICE_LOG_GUEST(warn, "{}: queue {} is broken: {}", options_.name, index, chain.status().ToString());
    ready_[index] = false;
    activation_->interrupt->SetNeedsReset();
    return false;
  }
  if (!chain->has_value()) {
    if (queue.EnableNotifications()) {
      queue.DisableNotifications();  // one came meanwhile: next time round
      return true;
    }
    ready_[index] = false;
    return false;
  }
  Start(index, **std::move(chain));
  return true;
}

void BlockDevice::Start(uint16_t index, virtio::DescriptorChain chain) {
  if (chain.WritableSize() == 0) {
    SLUICE_LOG_GUEST(warn, "{}: a request without room for its status", options_.name);
    ++stats_.errors;
    activation_->queues[index]->Complete(std::move(chain), 0).IgnoreError();
    return;
  }
  rules_.durable = WritesThrough();
  std::variant<Answer, IoRequest> decoded = Decode(chain, activation_->memory, rules_);
  const bool limited = bytes_.limited() || operations_.limited();
  const auto now = limited ? rate::TokenBucket::Clock::now() : rate::TokenBucket::Clock::time_point();
  operations_.Take(1, now);
  if (const auto* answer = std::get_if<Answer>(&decoded)) {
    return Complete(index, std::move(chain), answer->status, answer->data, answer->data.size());
  }
  IoRequest request = std::get<IoRequest>(std::move(decoded));
  const uint64_t bytes = BytesMoved(request);
  bytes_.Take(bytes, now);
  switch (request.kind) {
    case IoKind::kRead:
      ++stats_.reads;
      stats_.read_bytes += bytes;
      break;
    case IoKind::kWrite:
      ++stats_.writes;
      stats_.written_bytes += bytes;
      break;
    case IoKind::kFlush:
      ++stats_.flushes;
      break;
    case IoKind::kDiscard:
    case IoKind::kWriteZeroes:
      ++stats_.discards;
      break;
  }
  request.id = ++last_request_;
  in_flight_.emplace(request.id, InFlight{index, request.kind, std::move(chain)});
  engine_->Submit(std::move(request));
}

void BlockDevice::IoDone(absl::Span<const IoResult> results) {
  for (const IoResult& result : results) {
    if (result.id == 0) {
      cache_flush_running_ = false;
      if (std::exchange(cache_flush_again_, false)) FlushCache();
      continue;
    }
    auto node = in_flight_.extract(result.id);
    if (node.empty() || !activation_.has_value()) continue;
    InFlight& done = node.mapped();
    // A read that went well has filled all that lies before the status.
    const uint64_t written = result.ok && done.kind == IoKind::kRead ? done.chain.WritableSize() - 1 : 0;
    Complete(done.queue, std::move(done.chain), result.ok ? kStatusOk : kStatusIoError, {}, written);
  }
  // There is room for more now; and interrupts are due.
  Pump();
}

void BlockDevice::Complete(uint16_t index, virtio::DescriptorChain chain, uint8_t status, absl::string_view data,
                           uint64_t written) {
  if (status != kStatusOk) ++stats_.errors;
  const std::vector<uint8_t> bytes(data.begin(), data.end());
  const uint64_t last = chain.WritableSize() - 1;
  if (!bytes.empty()) chain.Write(0, bytes).IgnoreError();
  chain.Write(last, {status}).IgnoreError();
  // The used length counts from the front: it can include the status only if everything before it was written.
  activation_->queues[index]->Complete(std::move(chain), written == last ? last + 1 : written).IgnoreError();
}

void BlockDevice::Interrupts() {
  for (size_t i = 0; i < activation_->queues.size(); ++i) {
    auto& queue = activation_->queues[i];
    if (queue.has_value() && queue->NeedsInterrupt()) activation_->interrupt->SignalQueue(static_cast<uint16_t>(i));
  }
}

}  // namespace sluice::block
