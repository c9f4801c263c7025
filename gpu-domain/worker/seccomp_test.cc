// The worker's system call filter, in child processes of this test: what it forbids ends the process, what it answers
// is answered.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "gpu-domain/worker/seccomp_worker.h"

namespace sluice::worker {
namespace {

// Runs `body` in a child under the Run filter; its wait status. The body's value is the exit code.
int InFilteredChild(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    const jail::SeccompPolicy policy = WorkerSeccompPolicy(getpid());
    if (!policy.Install(jail::SeccompPhase::kInit, jail::SeccompMode::kKill).ok()) _exit(101);
    if (!policy.Install(jail::SeccompPhase::kRun, jail::SeccompMode::kKill).ok()) _exit(102);
    _exit(body());
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

bool KilledByFilter(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

TEST(WorkerSeccompTest, SocketsProcessesAndNamespacesAreDeath) {
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; })));
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return execl("/bin/true", "true", nullptr); })));
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return fork() >= 0; })));
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return unshare(CLONE_NEWUSER); })));
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return kill(getppid(), 0); })));
  EXPECT_TRUE(KilledByFilter(InFilteredChild([] { return chdir("/"); })));
}

TEST(WorkerSeccompTest, WhatAWorkerDoesGoesOn) {
  const int status = InFilteredChild([] {
    const int fd = memfd_create("blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, 4096) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return 1;
    void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) return 2;
    // A compiler's output.
    void* code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED || mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0) return 3;
    int ran = 0;
    std::thread thread([&] { ran = 1; });
    thread.join();
    return ran == 1 ? 0 : 4;
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(WorkerSeccompTest, FilesAreNotThere) {
#if defined(SLUICE_ASAN) || defined(SLUICE_TSAN)
  GTEST_SKIP() << "sanitizers open files to symbolise their reports";
#endif
  const int status = InFilteredChild([] {
    if (open("/etc/passwd", O_RDONLY) >= 0 || errno != ENOENT) return 1;
    return access("/", F_OK) == 0 ? 2 : 0;
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(WorkerSeccompTest, TheRunPhaseAllowsNothingThatInitDoesNot) {
  const std::string run = WorkerSeccompPolicy(1).Describe(jail::SeccompPhase::kRun);
  for (const char* call : {"socket", "connect", "execve", "ptrace", "process_vm_writev", "mount", "fork", "vfork"}) {
    EXPECT_EQ(run.find(std::string("\n") + call + "\n"), std::string::npos) << call;
  }
}

}  // namespace
}  // namespace sluice::worker
