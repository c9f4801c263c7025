#include "vmm/machine/stats_raw.h"

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::machine {

absl::StatusOr<VmStatsPage> VmStatsPage::Create(Mapping page) {
  VmStatsPage result;
  if (!page.valid()) {
    SLUICE_ASSIGN_OR_RETURN(page, Mapping::MapAnonymous(kPageSize));
  }
  if (page.size() < sizeof(wire::VmStats)) return absl::InvalidArgumentError("the counter page is too small");
  result.page_ = std::move(page);
  // SAFETY: the mapping is page-aligned, at least sizeof(VmStats) long (checked), and owned by this object for as long
  // as the pointer. VmStats is lock-free atomics only: any bytes are valid values and concurrent access is defined.
  result.stats_ = reinterpret_cast<wire::VmStats*>(result.page_.data());
  return result;
}

}  // namespace sluice::machine
