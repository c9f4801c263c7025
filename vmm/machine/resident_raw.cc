#include "vmm/machine/resident_raw.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "vmm/base/checked.h"

namespace sluice::machine {

uint64_t ResidentBytes(const Mapping& mapping) {
  constexpr uint64_t kChunk = uint64_t{64} << 20;
  std::vector<unsigned char> pages(kChunk / kPageSize);
  uint64_t resident = 0;
  for (uint64_t at = 0; at < mapping.size(); at += kChunk) {
    const uint64_t bytes = std::min(kChunk, mapping.size() - at);
    if (mincore(mapping.data() + at, bytes, pages.data()) != 0) return 0;
    for (uint64_t page = 0; page * kPageSize < bytes; ++page) resident += (pages[page] & 1) != 0 ? kPageSize : 0;
  }
  return resident;
}

}  // namespace sluice::machine
