#include "vmm/topology/firmware.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "vmm/base/checked.h"
#include "vmm/base/unique_fd.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/start_info.h"
#include "vmm/topology/output_file.h"

namespace sluice::topology {
namespace {

namespace fs = std::filesystem;

std::string ShippedNames(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".elf") names.push_back(it->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? absl::StrCat("none in ", directory) : absl::StrJoin(names, ", ");
}

bool IsShippedName(absl::string_view name) {
  return !absl::StrContains(name, '/') && !absl::EndsWith(name, ".elf");
}

// Why a machine with `ram_bytes` of RAM cannot boot the file, or OK. What is there but no guest: INVALID_ARGUMENT.
absl::Status CheckFirmware(const std::string& path, uint64_t ram_bytes) {
  const absl::StatusOr<UniqueFd> fd = OpenInput(path);
  if (absl::IsNotFound(fd.status())) return absl::NotFoundError("there is no such file");
  if (!fd.ok()) {
    return absl::Status(fd.status().code(), absl::StripPrefix(fd.status().message(), path + ": "));
  }
  // Reads nothing of a file that is too large.
  const absl::StatusOr<std::vector<uint8_t>> bytes = boot::ReadImage(fd->get());
  if (!bytes.ok()) return absl::InvalidArgumentError(bytes.status().message());
  const absl::StatusOr<boot::ElfImage> image = boot::ParseElf(*bytes);
  if (!image.ok()) return absl::InvalidArgumentError(image.status().message());
  for (const boot::ElfSegment& segment : image->segments) {
    if (segment.address.value() < boot::kFirmwareStart) {
      return absl::InvalidArgumentError(absl::StrCat("its segment at ", segment.address.ToString(), " lies below ",
                                                     memory::Hex(boot::kFirmwareStart), ", where the boot data is"));
    }
    if (!RangeFits(segment.address.value(), segment.memory_size, ram_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("its segment at ", segment.address.ToString(), " of ",
                                                     segment.memory_size, " bytes is not all in RAM; raise mem_mib"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShippedFirmwareDirectory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / "firmware").string();
}

std::string ResolveFirmware(absl::string_view name, const FirmwareSearch& search) {
  if (IsShippedName(name)) return (fs::path(search.firmware_directory) / absl::StrCat(name, ".elf")).string();
  const fs::path path = std::string(name);
  return path.is_absolute() ? path.string() : (fs::path(search.config_directory) / path).lexically_normal().string();
}

bool ResolveFirmwareFiles(const FirmwareSearch& search, Plan* plan, Problems* problems) {
  const size_t before = problems->size();
  std::map<size_t, absl::Status> checked;  // machines of a group are equal: read once, and complained about once
  for (FrontendPlan& machine : plan->frontends) {
    const std::string path = ResolveFirmware(machine.firmware, search);
    const auto [it, first] = checked.emplace(machine.group, absl::OkStatus());
    if (first) it->second = CheckFirmware(path, uint64_t{machine.mem_mib} << 20);
    if (first && !it->second.ok()) {
      const bool missing = !absl::IsInvalidArgument(it->second);
      problems->push_back({missing ? ProblemKind::kMissingFile : ProblemKind::kConfig, machine.path + ".firmware",
                           absl::StrCat("'", machine.firmware, "': ", path, ": ", it->second.message(),
                                        "; give a path to an ELF64 file, or one of the shipped: ",
                                        ShippedNames(search.firmware_directory))});
    }
    machine.firmware = path;
  }
  return problems->size() == before;
}

}  // namespace sluice::topology
