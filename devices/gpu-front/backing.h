// File: backing.h
//
// The guest memory behind a resource: a list of guest-physical pieces that act as one run of bytes. What ATTACH_BACKING
// and RESOURCE_CREATE_BLOB carry.
//
//   SLUICE_ASSIGN_OR_RETURN(Backing backing, Backing::Create(ram, entries));
//   SLUICE_RETURN_IF_ERROR(backing.CopyOut(ram, offset, row));
#ifndef SLUICE_DEVICES_GPU_FRONT_BACKING_H_
#define SLUICE_DEVICES_GPU_FRONT_BACKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devices/gpu-front/protocol.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::gpu_front {

class Backing {
 public:
  // Neighbouring pieces are merged, empty ones dropped. INVALID_ARGUMENT: a piece is not guest RAM.
  static absl::StatusOr<Backing> Create(const memory::GuestMemory& ram, absl::Span<const MemEntry> entries);

  // Sum of the pieces, bytes.
  uint64_t size() const { return size_; }
  // Pieces kept, for accounting.
  size_t pieces() const { return pieces_.size(); }

  // Fills `to` from [offset, offset + to.size()). OUT_OF_RANGE: not all of it is there; then nothing was copied.
  absl::Status CopyOut(const memory::GuestMemory& ram, uint64_t offset, absl::Span<uint8_t> to) const;

 private:
  struct Piece {
    uint64_t start;    // first byte's place in the run
    uint64_t address;  // guest-physical
    uint64_t bytes;
  };
  std::vector<Piece> pieces_;  // ascending by start, no gaps
  uint64_t size_ = 0;
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_BACKING_H_
