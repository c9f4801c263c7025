#include "devices/gpu-front/backing.h"

#include <algorithm>

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {

absl::StatusOr<Backing> Backing::Create(const memory::GuestMemory& ram, absl::Span<const MemEntry> entries) {
  Backing backing;
  for (const MemEntry& entry : entries) {
    if (entry.length == 0) continue;
    if (!ram.Contains(memory::GuestAddress(entry.addr), entry.length)) {
      return absl::InvalidArgumentError("a backing entry is not guest RAM");
    }
    // Lengths are 32 bits and entries at most 2^18: the sum cannot wrap.
    if (!backing.pieces_.empty()) {
      Piece& last = backing.pieces_.back();
      if (last.address + last.bytes == entry.addr) {
        last.bytes += entry.length;
        backing.size_ += entry.length;
        continue;
      }
    }
    backing.pieces_.push_back({backing.size_, entry.addr, entry.length});
    backing.size_ += entry.length;
  }
  backing.pieces_.shrink_to_fit();
  return backing;
}

absl::Status Backing::CopyOut(const memory::GuestMemory& ram, uint64_t offset, absl::Span<uint8_t> to) const {
  if (!RangeFits(offset, to.size(), size_)) return absl::OutOfRangeError("past the end of the backing");
  if (to.empty()) return absl::OkStatus();
  // The last piece that starts at or before `offset`.
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](uint64_t value, const Piece& p) { return value < p.start; });
  --piece;
  while (!to.empty()) {
    const uint64_t inside = offset - piece->start;
    const uint64_t bytes = std::min<uint64_t>(piece->bytes - inside, to.size());
    // A merged piece may span two RAM regions that touch; GuestMemory copies across.
    SLUICE_RETURN_IF_ERROR(ram.CopyFrom(memory::GuestAddress(piece->address + inside), to.first(bytes)));
    to.remove_prefix(bytes);
    offset += bytes;
    ++piece;
  }
  return absl::OkStatus();
}

}  // namespace sluice::gpu_front
