// File: guest_pieces.h
//
// Guest memory as the kernel takes it: the pieces that a part of a descriptor chain consists of, as host addresses, so
// that data go from the guest to the file and back without a copy of ours.
//
//   std::vector<iovec> pieces;
//   if (!AppendPieces(ram, chain.readable(), sizeof(RequestHeader), bytes, &pieces)) ...
#ifndef SLUICE_DEVICES_BLOCK_GUEST_PIECES_H_
#define SLUICE_DEVICES_BLOCK_GUEST_PIECES_H_

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/descriptor_chain.h"

namespace sluice::block {

// Appends bytes [offset, offset + bytes) of `segments`. The addresses are good while `memory` (or a copy of it) lives,
// and are for system calls alone: the guest writes there at any time. False, with `pieces` unusable: the segments are
// shorter than that, or not RAM.
bool AppendPieces(const memory::GuestMemory& memory, absl::Span<const virtio::Segment> segments, uint64_t offset,
                  uint64_t bytes, std::vector<iovec>* pieces);

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_GUEST_PIECES_H_
