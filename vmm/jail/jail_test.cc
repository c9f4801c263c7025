// The jail seen from outside: each test starts testing_child.cc and looks at what it could do.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/jail/seccomp.h"
#include "vmm/jail/spawn.h"

namespace sluice::jail {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(30);

struct Outcome {
  ExitStatus exit;
  std::string said;    // what the child wrote to descriptor 3
  std::string errors;  // its standard error
};

std::string Drain(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::pair<UniqueFd, UniqueFd> Pipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

SpawnOptions Child(const std::string& what) {
  SpawnOptions options;
  options.program = SiblingBinary("jail_testing_child");
  options.arguments = {what};
  options.environment = InheritedEnvironment();
  return options;
}

Outcome RunChild(SpawnOptions options) {
  auto said = Pipe();
  auto errors = Pipe();
  options.fds.push_back({said.second.get(), 3});
  options.fds.push_back({errors.second.get(), 2});
  auto child = Spawn(options);
  EXPECT_TRUE(child.ok()) << child.status();
  said.second.Reset();
  errors.second.Reset();
  Outcome outcome;
  if (!child.ok()) return outcome;
  outcome.said = Drain(said.first.get());
  outcome.errors = Drain(errors.first.get());
  auto exit = child->Wait(kPatience);
  EXPECT_TRUE(exit.ok()) << exit.status();
  if (exit.ok()) outcome.exit = *exit;
  return outcome;
}

int OpenFds() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

TEST(Spawn, ReportsTheExitCode) {
  const Outcome outcome = RunChild(Child("exit7"));
  EXPECT_EQ(outcome.exit.code, 7);
  EXPECT_EQ(outcome.exit.ToString(), "exit code 7");
}

TEST(Spawn, TheChildHasTheGivenDescriptorsAndNoOthers) {
  auto extra = Pipe();
  // Not close-on-exec: a careless descriptor of the parent still does not reach the child.
  const UniqueFd careless(open("/dev/null", O_RDONLY));
  SpawnOptions options = Child("describe");
  options.fds = {{extra.first.get(), 9}};
  const Outcome outcome = RunChild(options);
  EXPECT_THAT(outcome.said, HasSubstr("fds 0 1 2 3 9 \n"));
}

TEST(Spawn, DescriptorsMayTradeNumbers) {
  auto a = Pipe();
  auto b = Pipe();
  // Each source sits where the other one is to go.
  SpawnOptions options = Child("describe");
  const UniqueFd low_a(fcntl(a.first.get(), F_DUPFD_CLOEXEC, 20));
  const UniqueFd low_b(fcntl(b.first.get(), F_DUPFD_CLOEXEC, 21));
  options.fds = {{low_a.get(), low_b.get()}, {low_b.get(), low_a.get()}};
  EXPECT_THAT(RunChild(options).said, HasSubstr("fds 0 1 2 3 20 21 \n"));
}

TEST(Spawn, TheEnvironmentAndLimitsAreTheOnesGiven) {
  SpawnOptions options = Child("describe");
  options.environment.push_back("HELLO=there");
  options.max_open_files = 50;
  const Outcome outcome = RunChild(options);
  EXPECT_THAT(outcome.said, HasSubstr("env there,-\n"));
  EXPECT_THAT(outcome.said, HasSubstr("nofile 50\n"));
  EXPECT_THAT(outcome.said, HasSubstr("NoNewPrivs:\t1"));
}

TEST(Spawn, AMissingProgramIsNotFoundAndNamed) {
  SpawnOptions options = Child("");
  options.program = "/nowhere/sluice-worker";
  const auto child = Spawn(options);
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound) << child.status();
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("/nowhere/sluice-worker"));
}

TEST(Spawn, BadOptionsAreRefused) {
  SpawnOptions options = Child("exit7");
  options.program = "relative";
  EXPECT_EQ(Spawn(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = Child("exit7");
  options.fds = {{0, 5}, {1, 5}};
  EXPECT_EQ(Spawn(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Spawn, KillAndWaitEndAChild) {
  auto child = Spawn(Child("sleep"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(absl::ZeroDuration()).status().code(), absl::StatusCode::kDeadlineExceeded);
  child->Kill();
  const auto exit = child->Wait(kPatience);
  ASSERT_TRUE(exit.ok());
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_FALSE(child->running());
}

TEST(Spawn, AnAbandonedChildIsKilledAndReaped) {
  pid_t pid = -1;
  {
    auto child = Spawn(Child("sleep"));
    ASSERT_TRUE(child.ok());
    pid = child->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Spawn, TheChildDiesWithTheThreadThatStartedIt) {
  ChildProcess child;
  std::thread starter([&child] {
    auto spawned = Spawn(Child("sleep"));
    ASSERT_TRUE(spawned.ok());
    child = *std::move(spawned);
  });
  starter.join();
  const auto exit = child.Wait(kPatience);
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->signal, SIGKILL);
}

TEST(Spawn, NamespacesAreObtainedWherePermitted) {
  const Namespaces permitted = ProbeNamespaces();
  SpawnOptions options = Child("describe");
  options.namespaces = Namespaces::All();
  auto said = Pipe();
  options.fds = {{said.second.get(), 3}};
  auto child = Spawn(options);
  ASSERT_TRUE(child.ok()) << child.status();
  said.second.Reset();
  const std::string text = Drain(said.first.get());
  EXPECT_EQ(child->namespaces(), permitted) << child->namespaces().ToString();
  if (permitted.pid) {
    EXPECT_THAT(text, HasSubstr("pid 1\n"));
  }
}

TEST(Spawn, ManyChildrenLeaveNoDescriptorBehind) {
  (void)ProbeNamespaces();
  const int before = OpenFds();
  for (int i = 0; i < 50; ++i) {
    SpawnOptions options = Child("exit7");
    options.namespaces = Namespaces::All();
    auto child = Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    ASSERT_TRUE(child->Wait(kPatience).ok());
  }
  EXPECT_EQ(OpenFds(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

class InNamespaces : public ::testing::TestWithParam<bool> {
 protected:
  SpawnOptions Confined(const std::string& what) {
    SpawnOptions options = Child(what);
    if (GetParam()) options.namespaces = Namespaces::All();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Namespaces, InNamespaces, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "all" : "none"; });

TEST_P(InNamespaces, DropPrivilegesLeavesNoCapability) {
  const Outcome outcome = RunChild(Confined("drop"));
  EXPECT_EQ(outcome.exit.code, 0);
  EXPECT_THAT(outcome.said, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(outcome.said, HasSubstr("CapEff:\t0000000000000000"));
  if (geteuid() == 0 || (GetParam() && ProbeNamespaces().user)) {
    EXPECT_THAT(outcome.said, HasSubstr("CapBnd:\t0000000000000000"));
  }
  EXPECT_THAT(outcome.said, HasSubstr("pdeathsig 9\n")) << "still dies with its parent";
  if (geteuid() == 0) {
    EXPECT_THAT(outcome.said, Not(HasSubstr("uid 0\n"))) << "root's child does not stay root's";
  }
}

TEST_P(InNamespaces, EmptyRootHidesTheFileSystemFromEveryThread) {
  const Outcome outcome = RunChild(Confined("root"));
  EXPECT_EQ(outcome.exit.code, 0) << outcome.errors;
  if (geteuid() != 0 && !(GetParam() && ProbeNamespaces().user)) {
    EXPECT_THAT(outcome.said, HasSubstr("unchanged"));
    GTEST_SKIP() << "neither root nor user namespaces";
  }
  EXPECT_THAT(outcome.said, ::testing::AnyOf(HasSubstr("empty tmpfs\n"), HasSubstr("empty chroot\n")));
  EXPECT_THAT(outcome.said, HasSubstr("entries 0\n"));
  EXPECT_THAT(outcome.said, HasSubstr("created no\n"));
  EXPECT_THAT(outcome.said, HasSubstr("thread nothing\n"));
  EXPECT_THAT(outcome.said, HasSubstr("up stays\n"));
}

TEST_P(InNamespaces, TheEmptyRootCanBeEnteredAtOnce) {
  const Outcome outcome = RunChild(Confined("root-now"));
  EXPECT_EQ(outcome.exit.code, 0) << outcome.errors;
  if (geteuid() != 0 && !(GetParam() && ProbeNamespaces().user)) GTEST_SKIP() << "neither root nor user namespaces";
  EXPECT_THAT(outcome.said, ::testing::AnyOf(HasSubstr("empty tmpfs\n"), HasSubstr("empty chroot\n")));
  EXPECT_THAT(outcome.said, HasSubstr("seen nothing\n"));
  if (geteuid() == 0) {
    EXPECT_THAT(outcome.said, Not(HasSubstr("uid 0\n"))) << "privileges are dropped without /proc too";
  }
}

TEST_P(InNamespaces, AForbiddenCallKillsTheProcess) {
  const Outcome outcome = RunChild(Confined("seccomp-forbidden"));
  EXPECT_EQ(outcome.exit.signal, SIGSYS) << outcome.errors;
  EXPECT_THAT(outcome.exit.ToString(), HasSubstr("outside its seccomp policy"));
}

TEST(Seccomp, AllowedCallsPassAndFailRulesAnswerWithTheirErrno) {
  const Outcome outcome = RunChild(Child("seccomp-allowed"));
  EXPECT_EQ(outcome.exit.ToString(), "exit code 0") << outcome.errors;
  EXPECT_EQ(outcome.said, "init run");
}

TEST(Seccomp, AnArgumentFilterLetsOnlyItsValuePass) {
  const Outcome outcome = RunChild(Child("seccomp-argument"));
  EXPECT_EQ(outcome.exit.signal, SIGSYS) << outcome.exit.ToString() << outcome.errors;
}

TEST(Seccomp, TheRunPhaseNarrowsTheInitPhase) {
  const Outcome outcome = RunChild(Child("seccomp-narrows"));
  EXPECT_EQ(outcome.said, "run");
  EXPECT_EQ(outcome.exit.signal, SIGSYS) << outcome.exit.ToString() << outcome.errors;
}

TEST(Seccomp, ThreadsThatRanBeforeAreConfinedToo) {
  const Outcome outcome = RunChild(Child("seccomp-thread"));
  EXPECT_EQ(outcome.exit.signal, SIGSYS) << outcome.exit.ToString() << outcome.errors;
}

TEST(Seccomp, TrapModeNamesTheCall) {
#ifdef SLUICE_TSAN
  GTEST_SKIP() << "ThreadSanitizer delays signal handlers, so the one that names the call does not run in time";
#endif
  SpawnOptions options = Child("seccomp-forbidden");
  options.environment.push_back("SLUICE_SECCOMP=trap");
  const Outcome outcome = RunChild(options);
  EXPECT_THAT(outcome.errors, HasSubstr("system call socket (41) is outside the policy"));
  EXPECT_THAT(outcome.exit.ToString(), HasSubstr("outside its seccomp policy"));
}

TEST(Seccomp, LogModeLetsTheCallPass) {
  SpawnOptions options = Child("seccomp-forbidden");
  options.environment.push_back("SLUICE_SECCOMP=log");
  const Outcome outcome = RunChild(options);
  EXPECT_EQ(outcome.exit.ToString(), "exit code 0") << outcome.errors;
}

TEST(Seccomp, AnUnknownCallIsAnErrorThatNamesPolicyAndCall) {
  SeccompPolicy policy("typo");
  policy.Allow({"raed"});
  const absl::Status status = policy.Install(SeccompPhase::kRun, SeccompMode::kKill);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr("typo (run)"), HasSubstr("'raed'")));
}

TEST(Seccomp, DescribeIsReadable) {
  SeccompPolicy policy("p");
  policy.Allow({"read"}).AllowInit({"openat"}).AllowIf("ioctl", {ArgEquals32(1, 0xae80)}).FailInRun(EPERM, {"openat"});
  EXPECT_EQ(policy.Describe(SeccompPhase::kInit), "ioctl(arg1 & 0xffffffff == 0xae80)\nopenat\nread");
  EXPECT_EQ(policy.Describe(SeccompPhase::kRun), "ioctl(arg1 & 0xffffffff == 0xae80)\nopenat -> EPERM\nread");
}

}  // namespace
}  // namespace sluice::jail
