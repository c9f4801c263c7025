// File: queue.h
//
// The device's side of a split virtqueue (virtio 1.2 section 2.7), with indirect descriptors and event indices. The
// rings are the driver's memory and the driver may be hostile: each ring field and each descriptor is fetched once,
// checked, then used.
//
//   SLUICE_ASSIGN_OR_RETURN(Queue queue, Queue::Create(memory, layout));
//   auto more = queue.Drain(64, [&](DescriptorChain chain) {
//     ...                                                    // now, or later and in another order:
//     queue.Complete(std::move(chain), bytes_written).IgnoreError();
//   });
//   if (!more.ok()) interrupt.SetNeedsReset();               // a broken ring
//   if (queue.NeedsInterrupt()) interrupt.SignalQueue(0);
#ifndef SLUICE_VMM_VIRTIO_QUEUE_H_
#define SLUICE_VMM_VIRTIO_QUEUE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/descriptor_chain.h"
#include "vmm/virtio/spec.h"

namespace sluice::virtio {

// What the driver configured. Unchecked until Queue::Create.
struct QueueLayout {
  uint16_t size = 0;                 // entries: a power of two, 1 .. 32768
  memory::GuestAddress descriptors;  // 16-byte aligned
  memory::GuestAddress driver_area;  // the available ring, 2-byte aligned
  memory::GuestAddress device_area;  // the used ring, 4-byte aligned
  bool event_idx = false;            // VIRTIO_F_EVENT_IDX was negotiated
  bool indirect = true;              // VIRTIO_F_INDIRECT_DESC was negotiated; else such a descriptor is an error
};

// One thread at a time (the loop thread). Movable. At most `size` chains are in flight, which bounds what a driver can
// make the device hold.
class Queue {
 public:
  // INVALID_ARGUMENT: the size is no power of two, or an area is misaligned or not RAM.
  static absl::StatusOr<Queue> Create(memory::GuestMemory memory, const QueueLayout& layout);

  Queue(Queue&&) = default;
  Queue& operator=(Queue&&) = default;

  // The next chain that the driver made available; nullopt: none. Error (the driver broke the ring or the chain): the
  // queue is unusable from now on and says so again at each Pop; the device is to set NEEDS_RESET. Chains in flight may
  // be completed.
  absl::StatusOr<std::optional<DescriptorChain>> Pop();

  // Gives the chain back to the driver with `written` bytes in its writable part (capped to its size), in any order.
  // Consumes `chain` in any case. FAILED_PRECONDITION, nothing written: the chain is another queue's, one of before a
  // reset, or done.
  absl::Status Complete(DescriptorChain&& chain, uint64_t written);

  // True if the driver wants an interrupt for what was completed since the last call. Call once after a batch of
  // completions.
  bool NeedsInterrupt();

  // Pops and handles until the ring is empty or `budget` chains were handled, with notifications off meanwhile. False:
  // empty, and the driver will notify. True: the budget is spent and there may be more: come back later (so that one
  // guest's queue cannot keep the loop thread). Error: as Pop.
  absl::StatusOr<bool> Drain(uint32_t budget, absl::FunctionRef<void(DescriptorChain)> handler);

  // Asks the driver not to notify (a hint). Drain does these two itself.
  void DisableNotifications();
  // Asks the driver to notify of the next chain. True if one came meanwhile: Pop again, nobody will notify of it.
  bool EnableNotifications();

  // Chains popped and not completed.
  uint32_t in_flight() const { return in_flight_; }
  uint16_t size() const { return layout_.size; }
  const QueueLayout& layout() const { return layout_; }
  // What broke the queue; OK while it works.
  const absl::Status& status() const { return status_; }

 private:
  Queue(memory::GuestMemory memory, const QueueLayout& layout, uint64_t id)
      : memory_(std::move(memory)), layout_(layout), id_(id) {}
  // Breaks the queue for good.
  absl::Status Fail(const absl::Status& status);
  absl::Status Walk(DescriptorChain& chain) const;
  absl::Status WalkIndirect(const VirtqDesc& table, uint32_t budget, DescriptorChain& chain) const;
  absl::Status Append(const VirtqDesc& descriptor, DescriptorChain& chain) const;
  // Addresses in the rings. Create has checked that they are RAM, so none wraps.
  memory::GuestAddress InDriverArea(uint64_t offset) const {
    return memory::GuestAddress(layout_.driver_area.value() + offset);
  }
  memory::GuestAddress InDeviceArea(uint64_t offset) const {
    return memory::GuestAddress(layout_.device_area.value() + offset);
  }

  memory::GuestMemory memory_;
  QueueLayout layout_;
  uint64_t id_;              // unique in the process: stamps this queue's chains
  uint16_t avail_idx_ = 0;   // the driver's idx when we last looked
  uint16_t next_avail_ = 0;  // our position in the available ring (wraps at 2^16, as the ring's idx does)
  uint16_t next_used_ = 0;
  uint16_t announced_used_ = 0;  // next_used_ at the last NeedsInterrupt
  uint32_t in_flight_ = 0;
  absl::Status status_;
};

}  // namespace sluice::virtio

#endif  // SLUICE_VMM_VIRTIO_QUEUE_H_
