// The supervisor against children that misbehave (testing/fake_child.cc): whatever they do, the run ends, the report
// says what happened, and nothing is left behind.
#include "vmm/topology/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vmm/base/unique_fd.h"
#include "vmm/jail/spawn.h"
#include "vmm/topology/png.h"

namespace sluice::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

size_t OpenFiles() {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) count += entry.exists() ? 1 : 0;
  return count;
}

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/sluice-supervisor-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    out_ = directory;
    auto firmware = out_ + "/guest.elf";
    std::ofstream(firmware) << "\x7f"
                            << "ELF";
    firmware_ = firmware;
    auto event = CreateEventFd(false);  // stands in for /dev/kvm: it is only handed on
    ASSERT_TRUE(event.ok());
    kvm_ = *std::move(event);
    options_.kvm = kvm_.get();
    options_.domain_program = options_.vm_program = jail::SiblingBinary("fake_child");
    options_.out_directory = out_;
    options_.handle_signals = false;
    options_.progress = [this](const std::string& line) { absl::StrAppend(&progress_, line, "\n"); };
    files_before_ = OpenFiles();
  }
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(OpenFiles(), files_before_) << "a descriptor was left behind";
    fs::remove_all(out_);
  }

  // A domain called `domain` ("" for none) and front-ends of these names on it.
  Plan PlanOf(const std::string& domain, const std::vector<std::string>& frontends) {
    Plan plan;
    if (!domain.empty()) plan.domains.push_back({.name = domain, .os = "bare", .isolation = "process"});
    for (const std::string& name : frontends) {
      FrontendPlan frontend;
      frontend.name = name;
      frontend.os = "bare";
      frontend.firmware = firmware_;
      if (!domain.empty()) {
        frontend.gpu = GpuPlan{.memory_bytes = 1 << 20, .window_bytes = 16 << 20};
        frontend.domain = 0;
      }
      plan.frontends.push_back(frontend);
    }
    return plan;
  }

  Report Run(const Plan& plan) {
    absl::StatusOr<Report> report = RunPlan(plan, options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : Report();
  }

  std::string out_;
  std::string firmware_;
  UniqueFd kvm_;
  RunOptions options_;
  std::string progress_;
  size_t files_before_ = 0;
};

TEST_F(SupervisorTest, AGoodRunIsReportedWithPictureAndLog) {
  const Report report = Run(PlanOf("good", {"web-0", "web-1"}));
  EXPECT_TRUE(report.ok);
  ASSERT_EQ(report.frontends.size(), 2u);
  for (const FrontendReport& frontend : report.frontends) {
    EXPECT_TRUE(frontend.ok) << frontend.exit_cause;
    EXPECT_EQ(frontend.exit_code, 0);
    EXPECT_EQ(frontend.exit_cause, "guest exit 0");
    EXPECT_EQ(frontend.domain, "good");
    EXPECT_EQ(frontend.first_instruction_ms, 5);
    const auto picture = ReadPng(out_ + "/" + frontend.picture);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->width, 4u) << "the last picture counts";
    std::ifstream log(out_ + "/" + frontend.serial_log);
    std::string line;
    EXPECT_TRUE(std::getline(log, line));
    EXPECT_EQ(line, "hello");
  }
  EXPECT_EQ(report.domains[0].state, "ended");
  EXPECT_THAT(report.domains[0].frontends, testing::ElementsAre("web-0", "web-1"));
}

TEST_F(SupervisorTest, WithoutAnOutDirectoryNothingIsWritten) {
  options_.out_directory = "";
  std::string heard;
  options_.serial = [&](const std::string& machine, absl::string_view bytes) {
    absl::StrAppend(&heard, machine, ":", bytes);
  };
  const Report report = Run(PlanOf("good", {"web"}));
  EXPECT_TRUE(report.ok);
  EXPECT_EQ(report.frontends[0].picture, "");
  EXPECT_EQ(heard, "web:hello\n");
}

TEST_F(SupervisorTest, AMachineWithoutGpuRunsWithoutADomain) {
  EXPECT_TRUE(Run(PlanOf("", {"web"})).ok);
}

TEST_F(SupervisorTest, OneMachineThatFailsDoesNotDisturbTheOthers) {
  const Report report = Run(PlanOf("good", {"code-3", "crash", "web"}));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.frontends[0].exit_code, 3);
  EXPECT_EQ(report.frontends[0].exit_cause, "guest exit 3");
  EXPECT_EQ(report.frontends[1].exit_code, -1);
  EXPECT_THAT(report.frontends[1].exit_cause, AllOf(HasSubstr("ended without a word"), HasSubstr("killed by signal")));
  EXPECT_TRUE(report.frontends[2].ok);
}

struct Nonsense {
  const char* name;
  const char* cause;
};
void PrintTo(const Nonsense& c, std::ostream* out) {
  *out << c.name;
}
class SupervisorNonsense : public SupervisorTest, public ::testing::WithParamInterface<Nonsense> {};
TEST_P(SupervisorNonsense, FromAVmProcessEndsThatMachineOnly) {
  const Report report = Run(PlanOf("good", {GetParam().name, "web"}));
  EXPECT_FALSE(report.ok);
  EXPECT_FALSE(report.frontends[0].ok);
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr(GetParam().cause));
  EXPECT_TRUE(report.frontends[1].ok);
}
INSTANTIATE_TEST_SUITE_P(All, SupervisorNonsense,
                         ::testing::ValuesIn(std::vector<Nonsense>{{"garbage", "does not verify"},
                                                                   {"chatter", "too many messages"},
                                                                   {"mute", "ended without a word"},
                                                                   {"after-the-end", "after its last message"},
                                                                   {"huge-picture", "picture could not be written"}}),
                         [](const auto& info) { return absl::StrCat("Case", info.index); });

TEST_F(SupervisorTest, AGuestThatFloodsItsSerialPortFillsNoDisk) {
  const Report report = Run(PlanOf("", {"flood"}));
  EXPECT_TRUE(report.ok);
  const uint64_t size = fs::file_size(out_ + "/flood.serial.log");
  EXPECT_GE(size, 4u << 20);
  EXPECT_LT(size, (4u << 20) + 200);
}

TEST_F(SupervisorTest, AKilledWorkerIsDeviceLostAndTheRunFails) {
  const Report report = Run(PlanOf("worker-dies", {"slow"}));
  EXPECT_FALSE(report.ok);
  EXPECT_THAT(report.frontends[0].exit_cause,
              AllOf(HasSubstr("device lost: its worker ended: killed by signal 9"), HasSubstr("guest exit 0")));
}

TEST_F(SupervisorTest, AKilledDomainIsDeviceLostForItsFrontends) {
  const Report report = Run(PlanOf("dies-later", {"slow"}));
  EXPECT_FALSE(report.ok);
  EXPECT_THAT(report.frontends[0].exit_cause,
              HasSubstr("device lost: GPU Domain dies-later ended: killed by signal 9"));
  EXPECT_THAT(report.domains[0].state, HasSubstr("killed by signal 9"));
}

TEST_F(SupervisorTest, ADomainThatDoesNotGetReadyKeepsEverythingFromStarting) {
  options_.patience = absl::Seconds(1);
  for (const char* name : {"dies", "never-ready", "garbage"}) {
    const Report report = Run(PlanOf(name, {"web"}));
    EXPECT_FALSE(report.ok) << name;
    EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("not started")) << name;
  }
}

TEST_F(SupervisorTest, AMissingDomainProgramIsReported) {
  options_.domain_program = "/nonexistent/sluice-domain";
  const Report report = Run(PlanOf("good", {"web"}));
  EXPECT_FALSE(report.ok);
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("/nonexistent/sluice-domain"));
}

TEST_F(SupervisorTest, ADomainThatRefusesAFrontendSaysWhy) {
  const Report report = Run(PlanOf("refuses", {"web"}));
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("not started: GPU Domain refuses: no Vulkan here"));
}

TEST_F(SupervisorTest, ADomainThatNeverAttachesIsNotWaitedForForEver) {
  options_.patience = absl::Seconds(1);
  for (const char* name : {"never-attaches", "wrong-id", "dies-on-attach"}) {
    const Report report = Run(PlanOf(name, {"web"}));
    EXPECT_FALSE(report.ok) << name;
    EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("not started")) << name;
  }
}

TEST_F(SupervisorTest, ADomainThatDoesNotStopIsKilled) {
  options_.patience = absl::Seconds(4);
  const Report report = Run(PlanOf("never-stops", {"web"}));
  EXPECT_THAT(report.domains[0].state, HasSubstr("killed by signal 9"));
  EXPECT_TRUE(report.frontends[0].ok) << report.frontends[0].exit_cause;
}

TEST_F(SupervisorTest, AfterTheTimeoutMachinesAreStoppedInOrder) {
  options_.timeout = absl::Seconds(4);
  const Report report = Run(PlanOf("good", {"wait-0", "wait-1"}));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.interrupted, "timeout");
  for (const FrontendReport& frontend : report.frontends) EXPECT_EQ(frontend.exit_cause, "timeout: stopped");
  EXPECT_EQ(report.domains[0].state, "ended");
}

TEST_F(SupervisorTest, AMachineThatDoesNotStopIsKilledAfterAWhile) {
  options_.timeout = absl::Seconds(4);
  options_.patience = absl::Seconds(1);
  const Report report = Run(PlanOf("good", {"hang"}));
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("killed by signal 9"));
  EXPECT_EQ(report.domains[0].state, "ended");
}

TEST_F(SupervisorTest, AfterTheTimeoutAFrozenDomainIsKilledSoonAndItsFrontendIsNotCalledLost) {
  options_.timeout = absl::Seconds(3);
  const absl::Time start = absl::Now();
  const Report report = Run(PlanOf("freezes", {"wait"}));
  EXPECT_LT(absl::Now() - start, absl::Seconds(25));
  EXPECT_EQ(report.frontends[0].exit_cause, "timeout: stopped");
  EXPECT_THAT(report.domains[0].state, HasSubstr("killed by signal 9"));
  EXPECT_THAT(progress_, HasSubstr("waiting for wait's worker; interrupt again to kill"));
}

TEST_F(SupervisorTest, AWorkerThatDoesNotEndIsNamedAndItsDomainEndsInOrder) {
  options_.patience = absl::Seconds(1);
  const Report report = Run(PlanOf("worker-hangs", {"web"}));
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("device lost: its worker did not end in time"));
  EXPECT_EQ(report.domains[0].state, "ended");
}

// Sends itself a signal each time the progress says `line`.
void SignalOn(RunOptions* options, const std::string& line, std::vector<int> signals) {
  options->handle_signals = true;
  options->progress = [line, signals, next = size_t{0}](const std::string& told) mutable {
    if (next < signals.size() && absl::StrContains(told, next == 0 ? line : "stopping"))
      kill(getpid(), signals[next++]);
  };
}

TEST_F(SupervisorTest, ASignalEndsEverythingInOrder) {
  const std::vector<std::pair<int, std::string>> signals = {
      {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGQUIT, "SIGQUIT"}, {SIGHUP, "SIGHUP"}};
  for (const auto& [number, name] : signals) {
    if (number == SIGHUP) signal(SIGHUP, SIG_DFL);  // a test under nohup
    SignalOn(&options_, "wait: running", {number});
    const Report report = Run(PlanOf("good", {"wait"}));
    EXPECT_EQ(report.interrupted, name);
    EXPECT_EQ(report.frontends[0].exit_cause, "stopped");
    EXPECT_EQ(report.domains[0].state, "ended");
  }
}

TEST_F(SupervisorTest, ASecondSignalKillsAtOnce) {
  SignalOn(&options_, "web: guest exit 0", {SIGINT, SIGINT});
  const absl::Time start = absl::Now();
  const Report report = Run(PlanOf("good", {"hang", "web"}));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  EXPECT_EQ(report.interrupted, "SIGINT");
  EXPECT_THAT(report.frontends[0].exit_cause, HasSubstr("killed by signal 9"));
}

TEST_F(SupervisorTest, AHundredRunsInOneProcessLeakNoDescriptorAndNoChild) {
  const Plan plan = PlanOf("good", {"web", "code-3", "crash"});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Run(plan).frontends[0].exit_code, 0);
    ASSERT_EQ(OpenFiles(), files_before_) << "after run " << i;
  }
}

TEST_F(SupervisorTest, AFirmwareFileThatWentAwayStopsTheRunBeforeItStarts) {
  firmware_ = "/nonexistent.elf";
  EXPECT_TRUE(absl::IsNotFound(RunPlan(PlanOf("good", {"web"}), options_).status()));
}

}  // namespace
}  // namespace sluice::topology
