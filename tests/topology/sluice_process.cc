#include "tests/topology/sluice_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "vmm/base/unique_fd.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

struct ProcessInfo {
  pid_t parent = 0;
  std::string start;
};

// Parent and start time of each process: fields 4 and 22 of /proc/PID/stat (proc(5)); the name in field 2 may hold
// spaces.
std::map<pid_t, ProcessInfo> AllProcesses() {
  std::map<pid_t, ProcessInfo> all;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &pid)) continue;
    const std::string stat = ReadText(it->path().string() + "/stat");
    const size_t close = stat.rfind(')');
    if (close == std::string::npos) continue;
    const std::vector<std::string> fields = absl::StrSplit(stat.substr(close + 1), ' ', absl::SkipEmpty());
    if (fields.size() < 20 || fields[0] == "Z") continue;
    ProcessInfo& info = all[pid];
    static_cast<void>(absl::SimpleAtoi(fields[1], &info.parent));
    info.start = fields[19];
  }
  return all;
}

}  // namespace

TempDir::TempDir() {
  char name[] = "/tmp/sluice-test-XXXXXX";
  path_ = mkdtemp(name) != nullptr ? name : "/nonexistent";
}
TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}
std::string TempDir::Write(const std::string& name, const std::string& text) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

SluiceProcess::SluiceProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& before) {
  std::vector<std::string> words = before;
  words.push_back(SLUICE_BIN_DIR "/sluice");
  words.insert(words.end(), arguments.begin(), arguments.end());
  const UniqueFd out(open((files_.path() + "/out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  const UniqueFd err(open((files_.path() + "/err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  jail::SpawnOptions options;
  options.program = words[0];
  options.arguments.assign(words.begin() + 1, words.end());
  options.environment = jail::InheritedEnvironment({"VK_ICD_FILENAMES", "VK_DRIVER_FILES", "LP_NUM_THREADS", "HOME"});
  options.fds = {{out.get(), 1}, {err.get(), 2}};
  auto child = jail::Spawn(options);
  EXPECT_TRUE(child.ok()) << child.status();
  if (child.ok()) child_ = *std::move(child);
}

int SluiceProcess::Wait(absl::Duration timeout) {
  if (!Ended(timeout)) {
    ADD_FAILURE() << "sluice did not end\n" << Err();
    child_.Kill();
    ended_ = true;
  }
  return code_;
}

bool SluiceProcess::Ended(absl::Duration timeout) {
  if (ended_) return true;
  const absl::StatusOr<jail::ExitStatus> status = child_.Wait(timeout);
  if (!status.ok()) return false;
  ended_ = true;
  code_ = status->signal != 0 ? 128 + status->signal : status->code;
  return true;
}

bool SluiceProcess::WaitForLine(const std::string& text, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!absl::StrContains(Err(), text)) {
    if (absl::Now() > deadline) return false;
    if (Ended(absl::ZeroDuration())) return absl::StrContains(Err(), text);
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

void SluiceProcess::Signal(int number) {
  EXPECT_TRUE(child_.Signal(number).ok());
}

pid_t SluiceProcess::Number(const std::string& before) const {
  const std::string text = Err();
  const size_t at = text.find(before);
  return at == std::string::npos ? 0 : static_cast<pid_t>(atoi(text.c_str() + at + before.size()));
}

std::map<pid_t, std::string> SluiceProcess::Descendants() const {
  const std::map<pid_t, ProcessInfo> all = AllProcesses();
  std::map<pid_t, std::string> found;
  for (const auto& [pid, info] : all) {
    for (pid_t up = info.parent; up > 1;) {
      if (up == child_.pid()) {
        found[pid] = info.start;
        break;
      }
      const auto parent = all.find(up);
      up = parent == all.end() ? 0 : parent->second.parent;
    }
  }
  return found;
}

std::vector<pid_t> StillThere(const std::map<pid_t, std::string>& processes, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const std::map<pid_t, ProcessInfo> all = AllProcesses();
    std::vector<pid_t> left;
    for (const auto& [pid, start] : processes) {
      const auto it = all.find(pid);
      if (it != all.end() && it->second.start == start) left.push_back(pid);
    }
    if (left.empty() || absl::Now() > deadline) return left;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace sluice::testing
