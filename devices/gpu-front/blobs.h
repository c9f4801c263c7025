// File: blobs.h
//
// What the device must know before it shows a blob to the guest: where in the host-visible window there is room
// (BlobWindow), and whether the descriptor that a worker sent is what it says (MapBlobMemory). Neither the guest, which
// chooses offsets, nor the worker, which sends descriptors, is trusted.
#ifndef SLUICE_DEVICES_GPU_FRONT_BLOBS_H_
#define SLUICE_DEVICES_GPU_FRONT_BLOBS_H_

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "flatbuf/wire.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"

namespace sluice::gpu_front {

// Which parts of the window are taken. One thread.
//
//   SLUICE_RETURN_IF_ERROR(window.Reserve(offset, size));
//   ...
//   window.Release(offset);
class BlobWindow {
 public:
  explicit BlobWindow(uint64_t size) : size_(size) {}

  // Takes [offset, offset + bytes). INVALID_ARGUMENT: not page-aligned, empty, past the end, or overlaps what is taken.
  absl::Status Reserve(uint64_t offset, uint64_t bytes);
  // Gives back what Reserve(offset, ...) took.
  void Release(uint64_t offset) { taken_.erase(offset); }
  uint64_t size() const { return size_; }
  bool empty() const { return taken_.empty(); }

 private:
  uint64_t size_;
  absl::btree_map<uint64_t, uint64_t> taken_;  // offset -> bytes
};

// Maps a worker's memfd of `bytes` bytes (a multiple of 4 KiB). Refuses what could hurt later: FAILED_PRECONDITION when
// it is shorter, or can still shrink (an access to a mapping of it would then raise SIGBUS), or is no memfd at all.
absl::StatusOr<Mapping> MapBlobMemory(const UniqueFd& memfd, uint64_t bytes);

// Tells everyone who looks at a ring blob that its context is gone. The first reason stays. `ring`: at least one page.
void SetRingStatus(const Mapping& ring, wire::LostReason reason);

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_BLOBS_H_
