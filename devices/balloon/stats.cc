#include "devices/balloon/stats.h"

#include <cstring>

namespace sluice::balloon {
namespace {

std::optional<uint64_t>* Field(GuestStats* stats, uint16_t tag) {
  switch (static_cast<StatTag>(tag)) {
    case StatTag::kSwapIn:
      return &stats->swap_in_bytes;
    case StatTag::kSwapOut:
      return &stats->swap_out_bytes;
    case StatTag::kMajorFaults:
      return &stats->major_faults;
    case StatTag::kMinorFaults:
      return &stats->minor_faults;
    case StatTag::kFreeMemory:
      return &stats->free_bytes;
    case StatTag::kTotalMemory:
      return &stats->total_bytes;
    case StatTag::kAvailable:
      return &stats->available_bytes;
    case StatTag::kDiskCaches:
      return &stats->disk_cache_bytes;
    case StatTag::kHugeTlbAllocations:
      return &stats->huge_allocations;
    case StatTag::kHugeTlbFailures:
      return &stats->huge_failures;
  }
  return nullptr;
}

}  // namespace

GuestStats ParseStats(absl::Span<const uint8_t> bytes) {
  GuestStats stats;
  while (bytes.size() >= kStatBytes) {
    uint16_t tag;
    uint64_t value;
    std::memcpy(&tag, bytes.data(), sizeof(tag));
    std::memcpy(&value, bytes.data() + sizeof(tag), sizeof(value));
    if (std::optional<uint64_t>* field = Field(&stats, tag); field != nullptr) *field = value;
    bytes.remove_prefix(kStatBytes);
  }
  return stats;
}

}  // namespace sluice::balloon
