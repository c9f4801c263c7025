// File: stats_page.h
//
// A page of counters (flatbuf/stats.h) that a child process writes and the supervisor reads. Internal to this library.
//
//   SLUICE_ASSIGN_OR_RETURN(StatsPage page, StatsPage::Create("worker-stats"));
//   ... hand page.fd() to the child ...
//   uint64_t n = page.Read(SLUICE_STAT(WorkerStats, commands));
#ifndef SLUICE_VMM_TOPOLOGY_STATS_PAGE_H_
#define SLUICE_VMM_TOPOLOGY_STATS_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "flatbuf/stats.h"
#include "vmm/base/unique_fd.h"

// Byte offset of a counter in its page.
#define SLUICE_STAT(type, member) offsetof(::sluice::wire::type, member)

namespace sluice::topology {

class StatsPage {
 public:
  static absl::StatusOr<StatsPage> Create(absl::string_view name);
  int fd() const { return fd_.get(); }
  // The counter's value now. Counters are aligned words: read(2) of a memfd does not tear them.
  uint64_t Read(size_t offset) const;

 private:
  explicit StatsPage(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_STATS_PAGE_H_
