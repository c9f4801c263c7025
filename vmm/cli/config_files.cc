#include "vmm/cli/config_files.h"

#include <filesystem>
#include <iostream>

#include "vmm/cli/exit_code.h"
#include "vmm/topology/config.h"
#include "vmm/topology/firmware.h"

namespace sluice::cli {
namespace {

// The first problem decides: it is the one that the user reads first.
int CodeOf(const topology::Problems& problems) {
  switch (problems.empty() ? topology::ProblemKind::kConfig : problems[0].kind) {
    case topology::ProblemKind::kConfig:
      return kConfig;
    case topology::ProblemKind::kNoDomain:
      return kNoDomain;
    case topology::ProblemKind::kMissingFile:
      return kMissingFile;
  }
  return kInternal;
}

}  // namespace

std::optional<topology::Plan> LoadPlan(const std::string& file, FileKind kind, int* exit_code) {
  topology::Document document;
  config::TopologyT topology;
  bool loaded = false;
  if (kind != FileKind::kMachine) loaded = topology::LoadTopology(file, &document, &topology);
  if (kind == FileKind::kMachine ||
      (kind == FileKind::kEither && !loaded && topology::LooksLikeMachine(document.tree))) {
    document = topology::Document();
    config::MachineT machine;
    loaded = topology::LoadMachine(file, &document, &machine);
    if (loaded) topology = topology::TopologyOfMachine(machine);
    kind = FileKind::kMachine;
  }
  std::optional<topology::Plan> plan;
  if (loaded) plan = topology::MakePlan(topology, &document.problems);
  if (plan.has_value()) {
    const topology::FirmwareSearch search{std::filesystem::path(file).parent_path().string(),
                                          topology::ShippedFirmwareDirectory()};
    if (!topology::ResolveFirmwareFiles(search, &*plan, &document.problems)) plan.reset();
  }
  if (plan.has_value()) return plan;
  // The file of `sluice vm` is a topology of one machine: paths into it start at the machine itself.
  if (kind == FileKind::kMachine) {
    for (topology::Problem& problem : document.problems) {
      if (problem.path.rfind("frontends[0]", 0) == 0) problem.path.erase(0, problem.path.size() > 12 ? 13 : 12);
    }
  }
  std::cerr << document.Report();
  *exit_code = CodeOf(document.problems);
  return std::nullopt;
}

}  // namespace sluice::cli
