#include "vmm/topology/firmware.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

constexpr char kNotElf[] = "is not an ELF64 file";

// Why the file cannot be a guest, or "".
std::string WhatIsWrong(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return "there is no such file";
  if (!fs::is_regular_file(status)) return "is not a regular file";
  std::ifstream in(path, std::ios::binary);
  std::array<char, 5> magic{};
  if (!in.is_open()) return "cannot be opened for reading";
  in.read(magic.data(), magic.size());
  const std::array<char, 5> elf64 = {0x7f, 'E', 'L', 'F', 2};
  return in.gcount() == 5 && magic == elf64 ? "" : kNotElf;
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
  std::set<size_t> complained;  // a group of equal machines complains once
  for (FrontendPlan& machine : plan->frontends) {
    const std::string path = ResolveFirmware(machine.firmware, search);
    const std::string wrong = WhatIsWrong(path);
    if (!wrong.empty() && complained.insert(machine.group).second) {
      const bool missing = wrong != kNotElf;
      problems->push_back({missing ? ProblemKind::kMissingFile : ProblemKind::kConfig, machine.path + ".firmware",
                           absl::StrCat("'", machine.firmware, "': ", path, ": ", wrong,
                                        "; give a path to an ELF64 file, or one of the shipped: ",
                                        ShippedNames(search.firmware_directory))});
    }
    machine.firmware = path;
  }
  return problems->size() == before;
}

}  // namespace sluice::topology
