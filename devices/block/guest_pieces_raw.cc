#include <algorithm>

#include "devices/block/guest_pieces.h"

namespace sluice::block {
namespace {

// The region that holds `address`, or nullptr.
const memory::Region* Find(const memory::GuestMemory& memory, memory::GuestAddress address) {
  for (const memory::Region& region : memory.regions()) {
    if (region.range().Contains(address)) return &region;
  }
  return nullptr;
}

// Appends [address, address + bytes), which may cross from one region into the next.
bool AppendRange(const memory::GuestMemory& memory, memory::GuestAddress address, uint64_t bytes,
                 std::vector<iovec>* pieces) {
  while (bytes > 0) {
    const memory::Region* region = Find(memory, address);
    if (region == nullptr) return false;
    const uint64_t offset = *address.OffsetFrom(region->start());
    const uint64_t piece = std::min(bytes, region->size() - offset);
    // SAFETY: [offset, offset + piece) lies within the region, whose mapping is size() bytes long and lives as long as
    // a GuestMemory that has it; nobody but the kernel follows the pointer.
    pieces->push_back({region->mapping()->data() + offset, piece});
    bytes -= piece;
    const auto next = address.CheckedAdd(piece);
    if (bytes > 0 && !next.has_value()) return false;
    if (next.has_value()) address = *next;
  }
  return true;
}

}  // namespace

bool AppendPieces(const memory::GuestMemory& memory, absl::Span<const virtio::Segment> segments, uint64_t offset,
                  uint64_t bytes, std::vector<iovec>* pieces) {
  for (const virtio::Segment& segment : segments) {
    if (bytes == 0) break;
    if (offset >= segment.size) {
      offset -= segment.size;
      continue;
    }
    const uint64_t piece = std::min<uint64_t>(bytes, segment.size - offset);
    const auto address = segment.address.CheckedAdd(offset);
    if (!address.has_value() || !AppendRange(memory, *address, piece, pieces)) return false;
    bytes -= piece;
    offset = 0;
  }
  return bytes == 0;
}

}  // namespace sluice::block
