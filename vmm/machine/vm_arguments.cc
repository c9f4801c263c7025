// The command line of a VM process: written by StartVmProcess, read by VmProcessMain. Not for people, but strict all
// the same.
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "vmm/machine/vm_process.h"

namespace sluice::machine {
namespace {

absl::Status BadArgument(absl::string_view argument) {
  return absl::InvalidArgumentError(absl::StrCat("vm-process: bad argument '", argument, "'"));
}

template <typename T>
bool ParseNumber(absl::string_view text, T* value) {
  uint64_t wide = 0;
  if (!absl::SimpleAtoi(text, &wide) || wide > std::numeric_limits<T>::max()) return false;
  *value = static_cast<T>(wide);
  return true;
}

}  // namespace

std::vector<std::string> EncodeVmProcessArguments(const VmProcessConfig& config, uint64_t start_time_ns) {
  return {absl::StrCat("--name=", config.name),
          absl::StrCat("--mem-mib=", config.mem_mib),
          absl::StrCat("--vcpus=", config.vcpus),
          absl::StrCat("--cmdline=", config.cmdline),
          absl::StrCat("--gpu=", config.gpu ? 1 : 0),
          absl::StrCat("--os=", config.os),
          absl::StrCat("--display-width=", config.display_width),
          absl::StrCat("--display-height=", config.display_height),
          absl::StrCat("--window-bytes=", config.window_bytes),
          absl::StrCat("--kernel=", config.kernel ? 1 : 0),
          absl::StrCat("--restart=", config.restart ? 1 : 0),
          absl::StrCat("--log-level=", static_cast<int>(config.log_level)),
          absl::StrCat("--start-time-ns=", start_time_ns)};
}

absl::StatusOr<VmProcessArguments> DecodeVmProcessArguments(const std::vector<absl::string_view>& arguments) {
  VmProcessArguments result;
  VmProcessConfig& config = result.config;
  for (const absl::string_view argument : arguments) {
    const size_t equals = argument.find('=');
    if (!absl::StartsWith(argument, "--") || equals == absl::string_view::npos) return BadArgument(argument);
    const absl::string_view key = argument.substr(2, equals - 2);
    const absl::string_view value = argument.substr(equals + 1);
    uint8_t small = 0;
    bool good = true;
    if (key == "name") {
      config.name = std::string(value);
    } else if (key == "mem-mib") {
      good = ParseNumber(value, &config.mem_mib);
    } else if (key == "vcpus") {
      good = ParseNumber(value, &config.vcpus);
    } else if (key == "cmdline") {
      config.cmdline = std::string(value);
    } else if (key == "gpu") {
      good = ParseNumber(value, &small) && small <= 1;
      config.gpu = small == 1;
    } else if (key == "os") {
      config.os = std::string(value);
    } else if (key == "display-width") {
      good = ParseNumber(value, &config.display_width);
    } else if (key == "display-height") {
      good = ParseNumber(value, &config.display_height);
    } else if (key == "window-bytes") {
      good = ParseNumber(value, &config.window_bytes);
    } else if (key == "kernel") {
      good = ParseNumber(value, &small) && small <= 1;
      config.kernel = small == 1;
    } else if (key == "restart") {
      good = ParseNumber(value, &small) && small <= 1;
      config.restart = small == 1;
    } else if (key == "log-level") {
      good = ParseNumber(value, &small) && small <= static_cast<uint8_t>(LogLevel::kError);
      config.log_level = static_cast<LogLevel>(small);
    } else if (key == "start-time-ns") {
      good = ParseNumber(value, &result.start_time_ns);
    } else {
      good = false;
    }
    if (!good) return BadArgument(argument);
  }
  return result;
}

}  // namespace sluice::machine
