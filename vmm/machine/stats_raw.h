// File: stats_raw.h
//
// A VM process's page of counters, in shared memory or private.
#ifndef SLUICE_VMM_MACHINE_STATS_RAW_H_
#define SLUICE_VMM_MACHINE_STATS_RAW_H_

#include <utility>

#include "absl/status/statusor.h"
#include "flatbuf/stats.h"
#include "vmm/base/mapping.h"

namespace sluice::machine {

// Owns the page. Movable; the counters stay where they are.
class VmStatsPage {
 public:
  VmStatsPage() = default;
  // `page`: at least sizeof(wire::VmStats) bytes, or invalid for a private page.
  static absl::StatusOr<VmStatsPage> Create(Mapping page);

  wire::VmStats* operator->() const { return stats_; }
  wire::VmStats* get() const { return stats_; }

 private:
  Mapping page_;
  wire::VmStats* stats_ = nullptr;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_STATS_RAW_H_
