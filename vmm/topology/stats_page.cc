#include "vmm/topology/stats_page.h"

#include <unistd.h>

#include <string>

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::topology {

static_assert(sizeof(wire::WorkerStats) <= kPageSize && sizeof(wire::VmStats) <= kPageSize);

absl::StatusOr<StatsPage> StatsPage::Create(absl::string_view name) {
  SLUICE_ASSIGN_OR_RETURN(UniqueFd fd, CreateMemFd(name, kPageSize));
  return StatsPage(std::move(fd));
}

uint64_t StatsPage::Read(size_t offset) const {
  uint64_t value = 0;
  if (pread(fd_.get(), &value, sizeof(value), static_cast<off_t>(offset)) != sizeof(value)) return 0;
  return value;
}

}  // namespace sluice::topology
