// What jail_test.cc starts: does one thing named on the command line inside the jail and answers with its exit code.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "vmm/jail/privileges.h"
#include "vmm/jail/seccomp.h"

using sluice::jail::ArgEquals32;
using sluice::jail::DropPrivileges;
using sluice::jail::EmptyRoot;
using sluice::jail::SeccompModeFromEnvironment;
using sluice::jail::SeccompPhase;
using sluice::jail::SeccompPolicy;

namespace {

void Say(const std::string& text) {
  (void)!write(3, text.data(), text.size());
}

std::string StatusLine(const char* key) {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return "?";
  char line[256];
  std::string found = "?";
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, key, std::strlen(key)) == 0) found = line;
  }
  std::fclose(file);
  return found;
}

std::string OpenFds() {
  std::string fds;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) fds += std::to_string(fd) + " ";
  }
  return fds;
}

SeccompPolicy TestPolicy() {
  SeccompPolicy policy("test");
  policy
      .Allow({"read", "write", "close", "futex", "munmap", "madvise", "mmap", "mprotect", "brk", "rt_sigprocmask",
              "set_robust_list", "rseq", "clock_nanosleep", "fstat", "newfstatat", "gettid", "getpid", "tgkill"})
      .AllowIf("fcntl", {ArgEquals32(1, F_GETFD)})
      .AllowInit({"rt_sigaction", "wait4", "clone3", "clone"})
      .FailInRun(EACCES, {"mkdir", "getuid"});
  return policy;
}

int Phase(SeccompPhase phase) {
  const absl::Status status = TestPolicy().Install(phase, SeccompModeFromEnvironment());
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 70;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "exit7") _exit(7);
  if (what == "sleep") {
    for (;;) pause();
  }
  if (what == "describe") {
    Say("fds " + OpenFds() + "\nargs " + std::to_string(argc) + "\nenv " + (getenv("HELLO") ? getenv("HELLO") : "-") +
        "," + (getenv("HOME") ? "home" : "-") + "\npid " + std::to_string(getpid()) + "\n" + StatusLine("NoNewPrivs"));
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    Say("nofile " + std::to_string(limit.rlim_cur) + "\n");
    _exit(0);
  }
  if (what == "drop") {
    if (const absl::Status status = DropPrivileges(); !status.ok()) Say(status.ToString());
    int death = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    Say(StatusLine("CapPrm") + StatusLine("CapEff") + StatusLine("CapBnd") + "pdeathsig " + std::to_string(death) +
        "\nuid " + std::to_string(getuid()) + "\n");
    _exit(0);
  }
  if (what == "root") {
    auto root = EmptyRoot::Prepare();
    if (!root.ok() || !DropPrivileges().ok()) _exit(71);
    // Threads that ran before share the new root.
    std::string seen_by_thread = "?";
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) _exit(72);
    std::thread other([&] {
      char byte;
      (void)!read(pipe_fds[0], &byte, 1);
      seen_by_thread = access("/proc/self", F_OK) == 0 || access("/etc", F_OK) == 0 ? "old tree" : "nothing";
    });
    auto kind = root->Enter();
    (void)!write(pipe_fds[1], "x", 1);
    other.join();
    if (!kind.ok()) _exit(73);
    int entries = 0;
    if (DIR* dir = opendir("/")) {
      while (const dirent* entry = readdir(dir))
        entries += std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0;
      closedir(dir);
    }
    const bool created = open("/file", O_CREAT | O_WRONLY, 0600) >= 0 || mkdir("/dir", 0700) == 0;
    Say(std::string(EmptyRoot::KindName(*kind)) + "\nentries " + std::to_string(entries) + "\ncreated " +
        (created ? "yes" : "no") + "\nthread " + seen_by_thread + "\nup " +
        (access("/../../etc/passwd", F_OK) == 0 ? "escapes" : "stays") + "\n");
    _exit(0);
  }
  if (what == "root-now") {
    auto kind = EmptyRoot::EnterNow();
    if (!kind.ok() || !DropPrivileges().ok()) _exit(71);
    Say(std::string(EmptyRoot::KindName(*kind)) + "\nseen " +
        (access("/proc/self", F_OK) == 0 || access("/etc", F_OK) == 0 ? "old tree" : "nothing") + "\nuid " +
        std::to_string(getuid()) + "\n");
    _exit(0);
  }
  if (what == "seccomp-allowed") {
    if (int rc = Phase(SeccompPhase::kInit)) _exit(rc);
    Say("init");
    (void)getuid();
    if (int rc = Phase(SeccompPhase::kRun)) _exit(rc);
    Say(" run");
    if (fcntl(3, F_GETFD) < 0) _exit(80);
    errno = 0;
    if (mkdir("/tmp/never", 0700) != -1 || errno != EACCES) _exit(81);
    _exit(0);
  }
  if (what == "seccomp-forbidden") {
    if (int rc = Phase(SeccompPhase::kInit)) _exit(rc);
    (void)socket(AF_INET, SOCK_STREAM, 0);
    _exit(0);
  }
  if (what == "seccomp-argument") {
    if (int rc = Phase(SeccompPhase::kInit)) _exit(rc);
    if (fcntl(3, F_GETFD) < 0) _exit(82);
    (void)fcntl(3, F_GETFL);
    _exit(0);
  }
  if (what == "seccomp-narrows") {  // wait4 is allowed in Init, not in Run
    if (int rc = Phase(SeccompPhase::kInit)) _exit(rc);
    (void)syscall(61 /* wait4 */, -1, nullptr, 1 /* WNOHANG */, nullptr);
    if (int rc = Phase(SeccompPhase::kRun)) _exit(rc);
    Say("run");
    (void)syscall(61, -1, nullptr, 1, nullptr);
    _exit(0);
  }
  if (what == "seccomp-thread") {  // a thread that runs already is confined too
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) _exit(72);
    std::thread other([&] {
      char byte;
      (void)!read(pipe_fds[0], &byte, 1);
      (void)socket(AF_INET, SOCK_STREAM, 0);
      _exit(0);
    });
    if (int rc = Phase(SeccompPhase::kInit)) _exit(rc);
    (void)!write(pipe_fds[1], "x", 1);
    other.join();
  }
  _exit(64);
}
