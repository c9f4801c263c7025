#include "icd/testing/domain.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::icd::testing {
namespace {

void SleepMs(int64_t ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

// Processes whose parent is `parent`.
std::vector<pid_t> Children(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(line.substr(end + 1));
    char state;
    pid_t ppid = 0;
    rest >> state >> ppid;
    if (ppid == parent && state != 'Z') children.push_back(static_cast<pid_t>(atoi(name.c_str())));
  }
  return children;
}

void AddDescendants(pid_t parent, std::vector<pid_t>* all) {
  for (const pid_t child : Children(parent)) {
    all->push_back(child);
    AddDescendants(child, all);
  }
}

}  // namespace

std::string DriverPath() {
  return SLUICE_BUILD_DIR "/lib/libsluice_icd.so";
}

std::string ManifestPath() {
  return SLUICE_BUILD_DIR "/share/vulkan/icd.d/sluice_icd.x86_64.json";
}

Domain::Domain() {
  char path[] = "/tmp/sluice-icd-test.XXXXXX";
  directory_ = mkdtemp(path);
}

Domain::~Domain() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

bool Domain::Start() {
  std::vector<std::string> words = {SLUICE_BUILD_DIR "/bin/sluice-domain", "--listen=" + socket(), "--log_level=2"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    unsetenv("VK_DRIVER_FILES");
    unsetenv("VK_ICD_FILENAMES");
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  for (int i = 0; i < 6000; i++) {
    struct stat info {};
    if (stat(socket().c_str(), &info) == 0) return true;
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return false;
    }
    SleepMs(10);
  }
  return false;
}

void Domain::Stop() {
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void Domain::Kill() {
  if (pid_ == 0) return;
  std::vector<pid_t> all;
  AddDescendants(pid_, &all);
  kill(pid_, SIGKILL);
  for (const pid_t pid : all) kill(pid, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
  unlink(socket().c_str());
}

bool Domain::KillWorker() {
  const std::vector<pid_t> workers = Workers();
  return !workers.empty() && kill(workers.back(), SIGKILL) == 0;
}

std::vector<pid_t> Domain::Workers() const {
  std::vector<pid_t> all;
  if (pid_ != 0) AddDescendants(pid_, &all);
  std::sort(all.begin(), all.end());
  return all;
}

void Domain::UseHere() const {
  setenv("SLUICE_SOCKET", socket().c_str(), 1);
  setenv("VK_DRIVER_FILES", ManifestPath().c_str(), 1);
  unsetenv("VK_ICD_FILENAMES");
}

}  // namespace sluice::icd::testing
