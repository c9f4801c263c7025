// File: stats.h
//
// What a guest says about its memory (virtio 1.2 section 5.5.6.3): its word, not more.
#ifndef SLUICE_DEVICES_BALLOON_STATS_H_
#define SLUICE_DEVICES_BALLOON_STATS_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "devices/balloon/protocol.h"

namespace sluice::balloon {

// A field that the guest did not send is empty.
struct GuestStats {
  std::optional<uint64_t> swap_in_bytes;
  std::optional<uint64_t> swap_out_bytes;
  std::optional<uint64_t> major_faults;
  std::optional<uint64_t> minor_faults;
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> total_bytes;
  std::optional<uint64_t> available_bytes;
  std::optional<uint64_t> disk_cache_bytes;
  std::optional<uint64_t> huge_allocations;
  std::optional<uint64_t> huge_failures;
};

// Any bytes: unknown tags and a cut-off end are skipped; of a tag that comes twice the last counts.
GuestStats ParseStats(absl::Span<const uint8_t> bytes);

}  // namespace sluice::balloon

#endif  // SLUICE_DEVICES_BALLOON_STATS_H_
