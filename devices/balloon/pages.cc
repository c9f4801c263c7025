#include "devices/balloon/pages.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>

#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::balloon {
namespace {

using memory::GuestAddress;

// Punches [address, address + bytes), whole pages that are RAM, out of the regions' files. Returns how many bytes.
uint64_t Punch(const memory::GuestMemory& ram, uint64_t address, uint64_t bytes) {
  uint64_t done = 0;
  for (const memory::Region& region : ram.regions()) {
    if (bytes == 0) break;
    const auto offset = GuestAddress(address).OffsetFrom(region.start());
    if (!offset.has_value() || *offset >= region.size()) continue;
    const uint64_t piece = std::min(bytes, region.size() - *offset);
    int result;
    do {
      result = fallocate(region.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(region.fd_offset() + *offset), static_cast<off_t>(piece));
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
      done += piece;
    } else {
      SLUICE_LOG_GUEST(warn, "balloon: {}", ErrnoToStatus(errno, "fallocate of guest RAM").ToString());
    }
    address += piece;  // at most the end of RAM, which is below 2^64
    bytes -= piece;
  }
  return done;
}

}  // namespace

Released ReleasePages(const memory::GuestMemory& ram, std::vector<uint32_t> pfns) {
  Released released;
  std::sort(pfns.begin(), pfns.end());
  pfns.erase(std::unique(pfns.begin(), pfns.end()), pfns.end());
  for (size_t i = 0; i < pfns.size();) {
    size_t end = i + 1;
    while (end < pfns.size() && pfns[end] == pfns[end - 1] + 1) ++end;
    // A run may leave RAM on the way: page by page then. 2^32 pages of 4 KiB: no product here wraps.
    const uint64_t address = uint64_t{pfns[i]} * kPageSize;
    const uint64_t bytes = (end - i) * kPageSize;
    if (ram.Contains(GuestAddress(address), bytes)) {
      const uint64_t done = Punch(ram, address, bytes) / kPageSize;
      released.pages += done;
      released.refused += (end - i) - done;
    } else {
      for (size_t page = i; page < end; ++page) {
        const uint64_t at = uint64_t{pfns[page]} * kPageSize;
        if (ram.Contains(GuestAddress(at), kPageSize) && Punch(ram, at, kPageSize) == kPageSize) {
          ++released.pages;
        } else {
          ++released.refused;
        }
      }
    }
    i = end;
  }
  return released;
}

Released ReleaseRange(const memory::GuestMemory& ram, GuestAddress address, uint64_t bytes) {
  if (!ram.Contains(address, bytes)) return {.pages = 0, .refused = bytes / kPageSize};
  const auto first = CheckedAlignUp(address.value(), kPageSize);
  const auto last = CheckedAdd<uint64_t>(address.value(), bytes);
  // RAM that ends at 2^64 has no end address; no machine's does.
  if (!first.has_value() || !last.has_value()) return {.pages = 0, .refused = bytes / kPageSize};
  const uint64_t end = *last & ~(kPageSize - 1);
  if (*first >= end) return {};
  const uint64_t done = Punch(ram, *first, end - *first) / kPageSize;
  return {.pages = done, .refused = (end - *first) / kPageSize - done};
}

}  // namespace sluice::balloon
