#include "vmm/virtio/testing/fake_driver.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::virtio::testing {

using memory::GuestAddress;

FakeDriver::FakeDriver(memory::GuestMemory memory, const Options& options)
    : memory_(std::move(memory)), options_(options) {
  for (uint16_t i = 0; i < options_.size; ++i) free_.push_back(i);
}

absl::StatusOr<FakeDriver> FakeDriver::Create(memory::GuestMemory memory, const Options& options) {
  FakeDriver driver(std::move(memory), options);
  const uint16_t size = options.size;
  driver.layout_.size = size;
  driver.layout_.event_idx = options.event_idx;
  driver.layout_.descriptors = options.rings;
  const uint64_t avail = options.rings.value() + DescriptorTableBytes(size);
  const auto used = CheckedAlignUp(avail + AvailRingBytes(size), 64);
  if (!IsPowerOfTwo(size) || !used.has_value()) return absl::InvalidArgumentError("FakeDriver: queue size");
  driver.layout_.driver_area = GuestAddress(avail);
  driver.layout_.device_area = GuestAddress(*used);
  SLUICE_RETURN_IF_ERROR(driver.memory_.Fill(options.rings, 0, *used + UsedRingBytes(size) - options.rings.value()));
  if (!driver.memory_.Contains(options.buffers, options.buffer_bytes)) {
    return absl::OutOfRangeError("FakeDriver: the buffers do not fit into RAM");
  }
  return driver;
}

absl::StatusOr<GuestAddress> FakeDriver::Allocate(uint64_t bytes) {
  const auto at = CheckedAlignUp(allocated_, 16);
  if (!at.has_value() || !RangeFits(*at, bytes, options_.buffer_bytes)) {
    return absl::ResourceExhaustedError("FakeDriver: buffer space is used up");
  }
  allocated_ = *at + bytes;
  return GuestAddress(options_.buffers.value() + *at);
}

FakeDriver::ChainBuilder FakeDriver::Chain() {
  if (chains_.empty()) allocated_ = 0;  // all collected: buffer space is free again
  return ChainBuilder(this);
}

FakeDriver::ChainBuilder& FakeDriver::ChainBuilder::Readable(absl::Span<const uint8_t> bytes) {
  const auto at = driver_->Allocate(bytes.size());
  if (!at.ok()) {
    status_.Update(at.status());
    return *this;
  }
  status_.Update(driver_->memory_.CopyTo(*at, bytes));
  return Raw(at->value(), static_cast<uint32_t>(bytes.size()), 0);
}

FakeDriver::ChainBuilder& FakeDriver::ChainBuilder::Writable(uint32_t size) {
  const auto at = driver_->Allocate(size);
  if (!at.ok()) {
    status_.Update(at.status());
    return *this;
  }
  status_.Update(driver_->memory_.Fill(*at, 0xaa, size));
  return Raw(at->value(), size, kDescWrite);
}

FakeDriver::ChainBuilder& FakeDriver::ChainBuilder::Raw(uint64_t address, uint32_t size, uint16_t flags) {
  pieces_.push_back({.address = address, .size = size, .flags = flags, .next = 0});
  return *this;
}

FakeDriver::ChainBuilder& FakeDriver::ChainBuilder::Indirect(size_t after) {
  indirect_after_ = after;
  return *this;
}

absl::StatusOr<uint16_t> FakeDriver::ChainBuilder::Submit() {
  SLUICE_RETURN_IF_ERROR(status_);
  if (pieces_.empty()) return absl::InvalidArgumentError("FakeDriver: a chain needs a piece");
  InFlight record;
  for (const VirtqDesc& piece : pieces_) {
    if ((piece.flags & kDescWrite) != 0) record.writable.push_back({GuestAddress(piece.address), piece.size});
  }
  std::vector<VirtqDesc> direct = pieces_;
  if (indirect_after_.has_value()) {
    const size_t split = std::min(*indirect_after_, pieces_.size() - 1);
    const std::vector<VirtqDesc> table(pieces_.begin() + static_cast<std::ptrdiff_t>(split), pieces_.end());
    SLUICE_ASSIGN_OR_RETURN(const GuestAddress at, driver_->Allocate(table.size() * sizeof(VirtqDesc)));
    for (size_t i = 0; i < table.size(); ++i) {
      VirtqDesc entry = table[i];
      if (i + 1 < table.size()) {
        entry.flags |= kDescNext;
        entry.next = static_cast<uint16_t>(i + 1);
      }
      SLUICE_RETURN_IF_ERROR(driver_->memory_.Write(GuestAddress(at.value() + i * sizeof(VirtqDesc)), entry));
    }
    direct.resize(split);
    direct.push_back({.address = at.value(),
                      .size = static_cast<uint32_t>(table.size() * sizeof(VirtqDesc)),
                      .flags = kDescIndirect,
                      .next = 0});
  }
  if (direct.size() > driver_->free_.size()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("FakeDriver: ", direct.size(), " descriptors wanted, ", driver_->free_.size(), " free"));
  }
  for (size_t i = 0; i < direct.size(); ++i) {
    record.descriptors.push_back(driver_->free_.front());
    driver_->free_.pop_front();
  }
  for (size_t i = 0; i < direct.size(); ++i) {
    if (i + 1 < direct.size()) {
      direct[i].flags |= kDescNext;
      direct[i].next = record.descriptors[i + 1];
    }
    driver_->WriteDescriptor(record.descriptors[i], direct[i]);
  }
  const uint16_t head = record.descriptors[0];
  driver_->chains_[head] = std::move(record);
  driver_->Publish(head);
  return head;
}

void FakeDriver::WriteDescriptor(uint16_t index, const VirtqDesc& descriptor) {
  memory_.Write(GuestAddress(layout_.descriptors.value() + uint64_t{16} * index), descriptor).IgnoreError();
}

void FakeDriver::Publish(uint16_t head) {
  const uint64_t slot = avail_idx_ % layout_.size;
  memory_.Write(GuestAddress(layout_.driver_area.value() + kRingEntries + 2 * slot), head).IgnoreError();
  SetAvailIdx(static_cast<uint16_t>(avail_idx_ + 1));
}

void FakeDriver::SetAvailIdx(uint16_t idx) {
  avail_idx_ = idx;
  memory_.Store<uint16_t>(GuestAddress(layout_.driver_area.value() + kRingIdx), avail_idx_, std::memory_order_seq_cst)
      .IgnoreError();
}

uint16_t FakeDriver::used_idx() const {
  return memory_.Load<uint16_t>(GuestAddress(layout_.device_area.value() + kRingIdx)).value_or(0);
}

std::optional<Completion> FakeDriver::Collect() {
  if (used_idx() == used_seen_) return std::nullopt;
  const uint64_t slot = used_seen_ % layout_.size;
  const auto element = memory_.Read<VirtqUsedElem>(
      GuestAddress(layout_.device_area.value() + kRingEntries + sizeof(VirtqUsedElem) * slot));
  if (!element.ok()) return std::nullopt;
  ++used_seen_;
  if (layout_.event_idx) SetUsedEvent(used_seen_);

  Completion completion;
  completion.head = static_cast<uint16_t>(element->id);
  completion.written = element->size;
  const auto it = chains_.find(completion.head);
  if (it == chains_.end()) return completion;
  uint64_t left = element->size;
  for (const Segment& segment : it->second.writable) {
    const uint64_t bytes = std::min<uint64_t>(left, segment.size);
    if (bytes == 0) break;
    const size_t at = completion.data.size();
    completion.data.resize(at + bytes);
    memory_.CopyFrom(segment.address, absl::MakeSpan(completion.data).subspan(at)).IgnoreError();
    left -= bytes;
  }
  free_.insert(free_.end(), it->second.descriptors.begin(), it->second.descriptors.end());
  chains_.erase(it);
  return completion;
}

bool FakeDriver::NeedsNotify() {
  const uint16_t from = std::exchange(notified_idx_, avail_idx_);
  if (from == avail_idx_) return false;
  if (layout_.event_idx) {
    const auto event = memory_.Load<uint16_t>(
        GuestAddress(layout_.device_area.value() + AvailEventOffset(layout_.size)), std::memory_order_seq_cst);
    return event.ok() && NeedsEvent(*event, avail_idx_, from);
  }
  const auto flags =
      memory_.Load<uint16_t>(GuestAddress(layout_.device_area.value() + kRingFlags), std::memory_order_seq_cst);
  return flags.ok() && (*flags & kUsedNoNotify) == 0;
}

void FakeDriver::SetNoInterrupt(bool on) {
  memory_
      .Store<uint16_t>(GuestAddress(layout_.driver_area.value() + kRingFlags), on ? kAvailNoInterrupt : 0,
                       std::memory_order_seq_cst)
      .IgnoreError();
}

void FakeDriver::SetUsedEvent(uint16_t event) {
  memory_
      .Store<uint16_t>(GuestAddress(layout_.driver_area.value() + UsedEventOffset(layout_.size)), event,
                       std::memory_order_seq_cst)
      .IgnoreError();
}

}  // namespace sluice::virtio::testing
