#include "vmm/hostcheck/host_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "vmm/base/unique_fd.h"

namespace sluice::hostcheck {
namespace {

constexpr size_t kMaxFileBytes = 64 << 10;
constexpr size_t kMaxNames = 4096;

}  // namespace

std::optional<std::string> HostFiles::Read(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < kMaxFileBytes) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

std::optional<uint64_t> HostFiles::ReadNumber(const std::string& path) {
  const std::optional<std::string> text = Read(path);
  uint64_t value = 0;
  if (!text.has_value()) return std::nullopt;
  absl::string_view digits = *text;
  const bool hexadecimal = absl::ConsumePrefix(&digits, "0x");
  if (!(hexadecimal ? absl::SimpleHexAtoi(digits, &value) : absl::SimpleAtoi(digits, &value))) return std::nullopt;
  return value;
}

std::vector<std::string> HostFiles::List(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
  if (stream == nullptr) return names;
  while (names.size() < kMaxNames) {
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string HostFiles::LinkName(const std::string& path) {
  std::array<char, 4096> target;
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return "";
  const absl::string_view text(target.data(), static_cast<size_t>(length));
  return std::string(text.substr(text.rfind('/') == absl::string_view::npos ? 0 : text.rfind('/') + 1));
}

bool HostFiles::Exists(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0;
}

int HostFiles::OpenError(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return fd.valid() ? 0 : errno;
}

std::optional<std::string> HostFiles::Field(const std::string& path, const std::string& name) {
  const std::optional<std::string> text = Read(path);
  if (!text.has_value()) return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == name) return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return std::nullopt;
}

bool HasCapability(const HostFiles& host, int capability) {
  uint64_t effective = 0;
  const std::optional<std::string> text = HostFiles::Field(host.proc + "/self/status", "CapEff");
  return text.has_value() && absl::SimpleHexAtoi(*text, &effective) && ((effective >> capability) & 1) != 0;
}

}  // namespace sluice::hostcheck
