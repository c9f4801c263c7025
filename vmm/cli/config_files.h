// File: config_files.h
//
// From a file name on the command line to a plan that is ready to run, or to complaints and an exit code.
#ifndef SLUICE_VMM_CLI_CONFIG_FILES_H_
#define SLUICE_VMM_CLI_CONFIG_FILES_H_

#include <optional>
#include <string>

#include "vmm/topology/plan.h"

namespace sluice::cli {

enum class FileKind { kTopology, kMachine, kEither };

// Reads, checks, places, and finds the firmware. nullopt: everything that is wrong was printed, `*exit_code` is set.
std::optional<topology::Plan> LoadPlan(const std::string& file, FileKind kind, int* exit_code);

}  // namespace sluice::cli

#endif  // SLUICE_VMM_CLI_CONFIG_FILES_H_
