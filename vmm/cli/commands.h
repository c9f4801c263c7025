// File: commands.h
//
// The verbs of `sluice`. Each takes the arguments after its name and returns an exit code (exit_code.h).
#ifndef SLUICE_VMM_CLI_COMMANDS_H_
#define SLUICE_VMM_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "vmm/cli/args.h"

namespace sluice::cli {

const ArgSpec& RunSpec();
const ArgSpec& VmSpec();
const ArgSpec& CheckSpec();
const ArgSpec& TraceSpec();

int RunCommand(const Args& args);
int VmCommand(const Args& args);
int CheckCommand(const Args& args);
int TraceCommand(const Args& args);

// "sluice: TEXT" on standard error.
void Complain(absl::string_view text);

// `sluice 0.1.0`
std::string Version();

}  // namespace sluice::cli

#endif  // SLUICE_VMM_CLI_COMMANDS_H_
