// File: report.h
//
// What a run did: report.json for programs, a table for people.
//
//   Report report;  ...filled by the supervisor...
//   SLUICE_RETURN_IF_ERROR(WriteFile(out + "/report.json", ReportJson(report)));
//   std::cout << ReportTable(report);
#ifndef SLUICE_VMM_TOPOLOGY_REPORT_H_
#define SLUICE_VMM_TOPOLOGY_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice::topology {

struct DomainReport {
  std::string name;
  std::string os;
  std::string isolation;
  uint32_t max_frontends = 0;
  std::vector<std::string> frontends;  // placed here
  std::string state;                   // "ended", or why it ended early: "killed by signal 9"
};

struct FrontendReport {
  std::string name;
  std::string os;
  std::string domain;  // "" without GPU
  // Of the worker's counters (flatbuf/stats.h): what the domain did for this front-end.
  uint64_t commands = 0;
  uint64_t frames = 0;  // ring frames
  uint64_t bytes = 0;   // ring and reply bytes
  uint64_t fences = 0;
  uint64_t submits = 0;
  uint64_t contexts = 0;
  uint64_t contexts_lost = 0;
  uint64_t gpu_ns = 0;
  // Of the VM process's counters.
  uint64_t pictures_shown = 0;  // scanout flushes
  uint64_t gpu_commands = 0;    // virtio-gpu control commands
  uint64_t gpu_errors = 0;      // of these, answered with an error
  uint64_t vm_exits = 0;
  double first_instruction_ms = 0;  // from exec of the VM process to the guest's first mark
  double time_ms = 0;               // from start to exit of the machine
  int exit_code = -1;
  std::string exit_cause;
  bool ok = false;
  std::string picture;     // file name in OUT, "" if none
  std::string serial_log;  // file name in OUT
  std::string capture;     // file name in OUT, "" if none
};

struct Report {
  std::string topology;   // file
  std::string version;    // of sluice
  std::string selection;  // policy
  double time_ms = 0;
  bool ok = false;
  std::string interrupted;  // "SIGINT", "timeout", or ""
  // Of the first picture, log or capture that could not be written: which, and why; else "". Not in report.json.
  std::string output_error;
  std::vector<DomainReport> domains;
  std::vector<FrontendReport> frontends;
};

// Pretty-printed JSON; docs in vmm/topology/README.md.
std::string ReportJson(const Report& report);
// A table in plain text, one line per domain, then one per front-end.
std::string ReportTable(const Report& report);
// Writes `text` to `path` through a temporary file and rename, so that a reader never sees half of it.
absl::Status WriteFile(const std::string& path, absl::string_view text);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_REPORT_H_
