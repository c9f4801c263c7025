#include "vmm/virtio/queue.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;

uint64_t NextQueueId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

absl::Status CheckArea(const memory::GuestMemory& memory, const char* name, GuestAddress at, uint64_t alignment,
                       uint64_t bytes) {
  if (!at.IsAligned(alignment) || !memory.Contains(at, bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtqueue ", name, " at ", at.ToString(), "+", memory::Hex(bytes), " is misaligned or not RAM"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Queue> Queue::Create(memory::GuestMemory memory, const QueueLayout& layout) {
  if (!IsPowerOfTwo(layout.size) || layout.size > kMaxQueueSize) {
    return absl::InvalidArgumentError(absl::StrCat("virtqueue size ", layout.size, " is no power of two up to 32768"));
  }
  // The event fields at the ends of the rings are there whether or not they are negotiated (section 2.7.2).
  SLUICE_RETURN_IF_ERROR(
      CheckArea(memory, "descriptor table", layout.descriptors, 16, DescriptorTableBytes(layout.size)));
  SLUICE_RETURN_IF_ERROR(CheckArea(memory, "available ring", layout.driver_area, 2, AvailRingBytes(layout.size)));
  SLUICE_RETURN_IF_ERROR(CheckArea(memory, "used ring", layout.device_area, 4, UsedRingBytes(layout.size)));
  return Queue(std::move(memory), layout, NextQueueId());
}

absl::Status Queue::Fail(const absl::Status& status) {
  if (status_.ok()) status_ = Annotate(status, "virtqueue");
  return status_;
}

absl::StatusOr<std::optional<DescriptorChain>> Queue::Pop() {
  if (!status_.ok()) return status_;
  if (next_avail_ == avail_idx_) {
    // Acquire: descriptors and ring entries up to idx were written before it.
    const auto idx = memory_.Load<uint16_t>(InDriverArea(kRingIdx));
    if (!idx.ok()) return Fail(idx.status());
    const auto added = static_cast<uint16_t>(*idx - next_avail_);
    if (added > layout_.size) {
      return Fail(
          absl::InvalidArgumentError(absl::StrCat("available index moved by ", added, " in a ring of ", layout_.size)));
    }
    avail_idx_ = *idx;
    if (added == 0) return std::nullopt;
  }
  // More chains than descriptors: the driver gave one out twice.
  if (in_flight_ >= layout_.size) {
    return Fail(absl::InvalidArgumentError("more chains are available than there are descriptors"));
  }
  const auto head = memory_.Load<uint16_t>(
      InDriverArea(kRingEntries + uint64_t{2} * (next_avail_ & (layout_.size - 1))), std::memory_order_relaxed);
  if (!head.ok()) return Fail(head.status());
  if (*head >= layout_.size)
    return Fail(absl::InvalidArgumentError(absl::StrCat("descriptor ", *head, " does not exist")));

  DescriptorChain chain(memory_, id_, *head);
  if (absl::Status status = Walk(chain); !status.ok()) return Fail(status);
  ++next_avail_;
  ++in_flight_;
  return std::optional<DescriptorChain>(std::move(chain));
}

absl::Status Queue::Walk(DescriptorChain& chain) const {
  const uint32_t budget = std::max<uint32_t>(layout_.size, kMaxChainDescriptors);
  uint16_t index = chain.head();
  for (uint32_t count = 1; count <= layout_.size; ++count) {
    SLUICE_ASSIGN_OR_RETURN(const VirtqDesc descriptor,
                            memory_.Read<VirtqDesc>(GuestAddress(layout_.descriptors.value() + uint64_t{16} * index)));
    if ((descriptor.flags & kDescIndirect) != 0) {
      if (!layout_.indirect) return absl::InvalidArgumentError("indirect descriptor without VIRTIO_F_INDIRECT_DESC");
      // Zero or more direct descriptors, then one table (section 2.7.5.3.2).
      if ((descriptor.flags & kDescNext) != 0) return absl::InvalidArgumentError("descriptor both INDIRECT and NEXT");
      return WalkIndirect(descriptor, budget - (count - 1), chain);
    }
    SLUICE_RETURN_IF_ERROR(Append(descriptor, chain));
    if ((descriptor.flags & kDescNext) == 0) return absl::OkStatus();
    index = descriptor.next;
    if (index >= layout_.size) return absl::InvalidArgumentError(absl::StrCat("descriptor ", index, " does not exist"));
  }
  return absl::InvalidArgumentError("descriptor chain does not end");
}

absl::Status Queue::WalkIndirect(const VirtqDesc& table, uint32_t budget, DescriptorChain& chain) const {
  const uint32_t entries = table.size / sizeof(VirtqDesc);
  if (entries == 0 || table.size % sizeof(VirtqDesc) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("indirect table of ", table.size, " bytes"));
  }
  if (!memory_.Contains(GuestAddress(table.address), table.size)) {
    return absl::OutOfRangeError(absl::StrCat("indirect table at ", memory::Hex(table.address), " is not RAM"));
  }
  uint32_t index = 0;
  for (uint32_t count = 1; count <= std::min(entries, budget); ++count) {
    SLUICE_ASSIGN_OR_RETURN(const VirtqDesc descriptor,
                            memory_.Read<VirtqDesc>(GuestAddress(table.address + uint64_t{16} * index)));
    if ((descriptor.flags & kDescIndirect) != 0) return absl::InvalidArgumentError("indirect table within another");
    SLUICE_RETURN_IF_ERROR(Append(descriptor, chain));
    if ((descriptor.flags & kDescNext) == 0) return absl::OkStatus();
    index = descriptor.next;
    if (index >= entries)
      return absl::InvalidArgumentError(absl::StrCat("indirect descriptor ", index, " does not exist"));
  }
  return absl::InvalidArgumentError("indirect descriptor chain is too long or does not end");
}

absl::Status Queue::Append(const VirtqDesc& descriptor, DescriptorChain& chain) const {
  const bool writable = (descriptor.flags & kDescWrite) != 0;
  const bool has_writable = chain.segments_.size() > chain.readable_count_;
  if (!writable && has_writable) return absl::InvalidArgumentError("readable descriptor after a writable one");
  if (descriptor.size == 0) return absl::OkStatus();
  const GuestAddress address(descriptor.address);
  if (!memory_.Contains(address, descriptor.size)) {
    return absl::OutOfRangeError(
        absl::StrCat("buffer at ", address.ToString(), "+", memory::Hex(descriptor.size), " is not RAM"));
  }
  if (chain.readable_size_ + chain.writable_size_ + descriptor.size > UINT32_MAX) {
    return absl::InvalidArgumentError("descriptor chain of 4 GiB or more");
  }
  chain.segments_.push_back({address, descriptor.size});
  if (writable) {
    chain.writable_size_ += descriptor.size;
  } else {
    chain.readable_size_ += descriptor.size;
    ++chain.readable_count_;
  }
  return absl::OkStatus();
}

absl::Status Queue::Complete(DescriptorChain&& chain, uint64_t written) {
  const DescriptorChain taken = std::move(chain);
  if (taken.queue_id_ != id_) {
    return absl::FailedPreconditionError("descriptor chain of another queue, of before a reset, or completed before");
  }
  const VirtqUsedElem element = {taken.head_, static_cast<uint32_t>(std::min(written, taken.writable_size_))};
  const uint64_t slot = next_used_ & (layout_.size - 1);
  SLUICE_RETURN_IF_ERROR(memory_.Write(InDeviceArea(kRingEntries + sizeof(VirtqUsedElem) * slot), element));
  ++next_used_;
  --in_flight_;
  // Release: the response and the element are visible before the index that covers them.
  return memory_.Store<uint16_t>(InDeviceArea(kRingIdx), next_used_);
}

bool Queue::NeedsInterrupt() {
  if (next_used_ == announced_used_) return false;
  const uint16_t from = std::exchange(announced_used_, next_used_);
  // Our index must be out before we look whether the driver waits; the driver does the same the other way round. Both
  // are sequentially consistent, so at least one of the two sees the other.
  if (!memory_.Store<uint16_t>(InDeviceArea(kRingIdx), next_used_, std::memory_order_seq_cst).ok()) return true;
  if (layout_.event_idx) {
    const auto event = memory_.Load<uint16_t>(InDriverArea(UsedEventOffset(layout_.size)), std::memory_order_seq_cst);
    return !event.ok() || NeedsEvent(*event, next_used_, from);
  }
  const auto flags = memory_.Load<uint16_t>(InDriverArea(kRingFlags), std::memory_order_seq_cst);
  return !flags.ok() || (*flags & kAvailNoInterrupt) == 0;
}

void Queue::DisableNotifications() {
  // With event indices, leaving avail_event behind does it.
  if (!layout_.event_idx) memory_.Store<uint16_t>(InDeviceArea(kRingFlags), kUsedNoNotify).IgnoreError();
}

bool Queue::EnableNotifications() {
  if (layout_.event_idx) {
    memory_.Store<uint16_t>(InDeviceArea(AvailEventOffset(layout_.size)), next_avail_, std::memory_order_seq_cst)
        .IgnoreError();
  } else {
    memory_.Store<uint16_t>(InDeviceArea(kRingFlags), 0, std::memory_order_seq_cst).IgnoreError();
  }
  const auto idx = memory_.Load<uint16_t>(InDriverArea(kRingIdx), std::memory_order_seq_cst);
  return idx.ok() && *idx != next_avail_;
}

absl::StatusOr<bool> Queue::Drain(uint32_t budget, absl::FunctionRef<void(DescriptorChain)> handler) {
  DisableNotifications();
  while (true) {
    if (budget == 0) return true;
    SLUICE_ASSIGN_OR_RETURN(std::optional<DescriptorChain> chain, Pop());
    if (chain.has_value()) {
      handler(*std::move(chain));
      --budget;
    } else if (!EnableNotifications()) {
      return false;
    } else {
      // Costs budget too: a driver that moves its index to and fro must not hold us here.
      DisableNotifications();
      --budget;
    }
  }
}

}  // namespace sluice::virtio
