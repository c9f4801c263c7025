// File: window.h
//
// HostVisibleWindow: what the gpu-front device needs from the machine to show blobs to the guest. The window is the
// shared-memory region with id 1 (a 64-bit prefetchable BAR); the guest chooses offsets in it. The machine implements
// this over KVM memslots and ioeventfds; tests implement it with a map.
//
//   SLUICE_ASSIGN_OR_RETURN(Mapping view, Mapping::MapShared(memfd, 0, size, Mapping::kReadWrite));
//   SLUICE_RETURN_IF_ERROR(window->Map(0x10000, std::make_shared<const Mapping>(std::move(view))));
//   ...
//   window->Unmap(0x10000);
//
// The device has checked every argument before a call (BlobWindow in blobs.h): offsets and sizes are multiples of 4
// KiB, lie in the window and do not overlap anything that is mapped. An implementation need not check again. All calls
// are made on the event-loop thread, while vCPUs run.
#ifndef SLUICE_DEVICES_GPU_FRONT_WINDOW_H_
#define SLUICE_DEVICES_GPU_FRONT_WINDOW_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "vmm/base/mapping.h"

namespace sluice::gpu_front {

class HostVisibleWindow {
 public:
  virtual ~HostVisibleWindow() = default;

  // Bytes in the window; a multiple of 4 KiB. Constant. 0: there is no window, nothing can be mapped.
  virtual uint64_t size() const = 0;

  // Shows `mapping` (all of it, cached, readable and writable) at `offset`, and shares in owning it until
  // Unmap(offset).
  virtual absl::Status Map(uint64_t offset, std::shared_ptr<const Mapping> mapping) = 0;

  // Makes a guest write of any length to the first bytes of the page at `offset` signal `event_fd`; the page has no
  // memory. `event_fd` stays the caller's and lives until Unmap(offset). Fails if it is no eventfd.
  virtual absl::Status MapDoorbell(uint64_t offset, int event_fd) = 0;

  // Undoes the Map or MapDoorbell at `offset`. Cannot fail: when it returns, no vCPU reaches the memory any more.
  virtual void Unmap(uint64_t offset) = 0;
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_WINDOW_H_
