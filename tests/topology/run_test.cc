// Whole runs on /dev/kvm with real domains, workers and guests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/scenes/native.h"
#include "tests/topology/sluice_process.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/topology/json.h"
#include "vmm/topology/png.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::JsonValue;

namespace fs = std::filesystem;

JsonValue ReadReport(const std::string& directory) {
  JsonValue root;
  topology::JsonError error;
  EXPECT_TRUE(topology::ParseJson(ReadText(directory + "/report.json"), &root, &error)) << error.message;
  return root;
}

const JsonValue& Member(const JsonValue& value, const char* key) {
  static const JsonValue* const none = new JsonValue;
  const JsonValue* found = value.Find(key);
  EXPECT_NE(found, nullptr) << key;
  return found == nullptr ? *none : *found;
}

double Number(const JsonValue& value, const char* key) {
  double number = -1;
  EXPECT_TRUE(absl::SimpleAtod(Member(value, key).text, &number)) << key;
  return number;
}

const JsonValue& Frontend(const JsonValue& report, const std::string& name) {
  static const JsonValue* const none = new JsonValue;
  for (const JsonValue& frontend : Member(report, "frontends").items) {
    if (Member(frontend, "name").text == name) return frontend;
  }
  ADD_FAILURE() << "no front-end " << name;
  return *none;
}

std::string Cause(const JsonValue& frontend) {
  return Member(Member(frontend, "exit"), "cause").text;
}

std::vector<uint8_t> RgbOf(const std::vector<uint8_t>& rgba) {
  std::vector<uint8_t> rgb;
  for (size_t i = 0; i + 3 < rgba.size(); i += 4) rgb.insert(rgb.end(), {rgba[i], rgba[i + 1], rgba[i + 2]});
  return rgb;
}

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_NEEDS_KVM(); }
  std::string OutDir() const { return dir_.path() + "/out"; }

  // Two front-ends that draw until they are stopped.
  std::string LongTopology() const {
    return dir_.Write("long.json", R"({
      "gpu_domains": [{"name": "gpu-a", "os": "linux"}, {"name": "gpu-b", "os": "bare"}],
      "frontends": [
        {"name": "web", "os": "linux", "firmware": "triangle", "cmdline": "frames=1000000", "gpu": {"window_mib": 64}},
        {"name": "panel", "os": "bare", "firmware": "triangle", "cmdline": "frames=1000000", "gpu": {"window_mib": 64}}]})");
  }

  TempDir dir_;
};

TEST_F(RunTest, FirstLightDrawsWhatTheDriverDrawsNatively) {
  SluiceProcess run({"run", SLUICE_SOURCE_DIR "/examples/first-light.json", "--out", OutDir()});
  ASSERT_EQ(run.Wait(), 0) << run.Err() << run.Out();
  EXPECT_THAT(run.Out(), AllOf(HasSubstr("gpu-a"), HasSubstr("solver"), HasSubstr("web.png")));

  const JsonValue report = ReadReport(OutDir());
  ASSERT_EQ(Member(report, "domains").items.size(), 2u);
  EXPECT_EQ(Member(Member(report, "domains").items[0], "isolation").text, "process");
  EXPECT_EQ(Member(Frontend(report, "web"), "domain").text, "gpu-a");
  EXPECT_EQ(Member(Frontend(report, "solver"), "domain").text, "gpu-a");
  EXPECT_EQ(Member(Frontend(report, "panel"), "domain").text, "gpu-b");
  for (const char* name : {"web", "solver", "panel"}) {
    const JsonValue& frontend = Frontend(report, name);
    EXPECT_EQ(Number(Member(frontend, "exit"), "code"), 0) << name;
    EXPECT_GT(Number(frontend, "commands"), 10) << name;
    EXPECT_GT(Number(frontend, "frames"), 0) << name;
    EXPECT_GT(Number(frontend, "bytes"), 0) << name;
    EXPECT_GT(Number(frontend, "fences"), 0) << name;
    EXPECT_GT(Number(frontend, "time_ms"), 0) << name;
    EXPECT_EQ(Number(frontend, "contexts_lost"), 0) << name;
    EXPECT_GT(fs::file_size(OutDir() + "/" + Member(frontend, "serial_log").text), 0u) << name;
  }

  const auto triangle = scenes::RenderTriangleFrame(59);
  ASSERT_TRUE(triangle.ok()) << triangle.status();
  const auto compute = scenes::RenderComputePicture();
  ASSERT_TRUE(compute.ok()) << compute.status();
  for (const char* name : {"web", "panel", "solver"}) {
    const auto picture = topology::ReadPng(absl::StrCat(OutDir(), "/", name, ".png"));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->width, 256u);
    const bool same = picture->rgb == RgbOf(std::string(name) == "solver" ? *compute : *triangle);
    EXPECT_TRUE(same) << name << ": the picture is not the native one";
  }
}

TEST_F(RunTest, SixteenFrontendsOnTwoDomainsAllEndWell) {
  SLUICE_SLOW_IN_NESTED("16 Vulkan drivers start at once on one emulated processor, which takes minutes");
  SluiceProcess run({"run", SLUICE_SOURCE_DIR "/examples/sixteen.json", "--out", OutDir()});
  ASSERT_EQ(run.Wait(absl::Minutes(9)), 0) << run.Err() << run.Out();
  const JsonValue report = ReadReport(OutDir());
  EXPECT_EQ(Member(report, "frontends").items.size(), 16u);
  const std::string first = ReadText(OutDir() + "/web-0.png");
  EXPECT_THAT(first, Not(IsEmpty()));
  for (const JsonValue& frontend : Member(report, "frontends").items) {
    EXPECT_EQ(Member(frontend, "ok").text, "true") << Member(frontend, "name").text << ": " << Cause(frontend);
    const std::string name = Member(frontend, "name").text;
    if (name.rfind("solver", 0) != 0) {
      EXPECT_TRUE(ReadText(OutDir() + "/" + name + ".png") == first) << name;
    }
  }
}

TEST_F(RunTest, OneMachineGetsItsOwnDomainAndTalksOnStandardOutput) {
  SluiceProcess run({"vm", SLUICE_SOURCE_DIR "/examples/vm.json", "--out", OutDir()});
  ASSERT_EQ(run.Wait(), 0) << run.Err() << run.Out();
  EXPECT_EQ(Member(Frontend(ReadReport(OutDir()), "one"), "domain").text, "one-gpu");
  SluiceProcess hello({"vm", SLUICE_SOURCE_DIR "/examples/vm-hello.json", "--quiet"});
  ASSERT_EQ(hello.Wait(), 0) << hello.Err();
  EXPECT_THAT(hello.Out(), HasSubstr("hello from"));
}

TEST_F(RunTest, AGuestThatEndsWithACodeFailsTheRunWithThatCode) {
  const std::string file =
      dir_.Write("vm.json", R"({"name": "seven", "os": "bare", "firmware": "hello", "cmdline": "code=7"})");
  SluiceProcess run({"vm", file, "--out", OutDir()});
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_EQ(Number(Member(Frontend(ReadReport(OutDir()), "seven"), "exit"), "code"), 7);
}

TEST_F(RunTest, AFrontendThatRequiresHardwareIsNotServedByACpu) {
  SluiceProcess check({"check"});
  check.Wait();
  if (check.Out().find("llvmpipe") == std::string::npos) GTEST_SKIP() << "the Vulkan device here may be hardware";
  const std::string file = dir_.Write(
      "vm.json", R"({"name": "picky", "os": "bare", "firmware": "triangle", "gpu": {"require_hardware": true}})");
  SluiceProcess run({"vm", file, "--out", OutDir()});
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(Cause(Frontend(ReadReport(OutDir()), "picky")), HasSubstr("there is no Vulkan device that it may use"));
}

TEST_F(RunTest, ACapturedStreamCanBeDumpedAsJson) {
  const std::string file =
      dir_.Write("vm.json", R"({"name": "seen", "os": "bare", "firmware": "triangle", "cmdline": "frames=2",
                                                     "gpu": {"capture": true, "window_mib": 64}})");
  SluiceProcess run({"vm", file, "--out", OutDir()});
  ASSERT_EQ(run.Wait(), 0) << run.Err();
  SluiceProcess dump(
      {"trace", "dump", OutDir() + "/" + Member(Frontend(ReadReport(OutDir()), "seen"), "capture").text});
  EXPECT_EQ(dump.Wait(), 0) << dump.Err();
  EXPECT_THAT(dump.Out(), AllOf(HasSubstr("vkCreateDevice"), HasSubstr("vkQueueSubmit")));
}

TEST_F(RunTest, AKilledWorkerIsReportedAsDeviceLostAndTheOtherFrontendGoesOn) {
  const std::string file = dir_.Write("lab.json", R"({
      "gpu_domains": [{"name": "gpu-a", "os": "linux"}],
      "frontends": [
        {"name": "victim", "os": "linux", "firmware": "triangle", "cmdline": "frames=1000000", "gpu": {"window_mib": 64}},
        {"name": "web", "os": "linux", "firmware": "triangle", "cmdline": "frames=60", "gpu": {"window_mib": 64}}]})");
  SluiceProcess run({"run", file, "--out", OutDir()});
  ASSERT_TRUE(run.WaitForLine("victim: running", absl::Minutes(1))) << run.Err();
  const pid_t worker = run.Number("victim: served by gpu-a, worker pid ");
  ASSERT_GT(worker, 1);
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  EXPECT_EQ(run.Wait(), 1) << run.Err();
  const JsonValue report = ReadReport(OutDir());
  EXPECT_THAT(Cause(Frontend(report, "victim")), HasSubstr("device lost: its worker ended: killed by signal 9"));
  EXPECT_EQ(Member(Frontend(report, "web"), "ok").text, "true") << Cause(Frontend(report, "web"));
  EXPECT_EQ(Member(Member(report, "domains").items[0], "state").text, "ended");
}

TEST_F(RunTest, AKilledDomainIsReportedAsDeviceLostForItsFrontends) {
  SluiceProcess run({"run", LongTopology(), "--out", OutDir()});
  ASSERT_TRUE(run.WaitForLine("web: running", absl::Minutes(1))) << run.Err();
  ASSERT_TRUE(run.WaitForLine("panel: running", absl::Minutes(1))) << run.Err();
  const auto all = run.Descendants();
  ASSERT_EQ(kill(run.Number("gpu-a: ready, pid "), SIGKILL), 0);
  ASSERT_TRUE(run.WaitForLine("web: device lost", absl::Minutes(1))) << run.Err();
  run.Signal(SIGTERM);  // the other one would draw for ever
  EXPECT_EQ(run.Wait(), 1) << run.Err();
  const JsonValue report = ReadReport(OutDir());
  EXPECT_THAT(Cause(Frontend(report, "web")), HasSubstr("device lost: GPU Domain gpu-a ended: killed by signal 9"));
  EXPECT_THAT(Cause(Frontend(report, "panel")), Not(HasSubstr("device lost")));
  EXPECT_THAT(StillThere(all, absl::Seconds(20)), IsEmpty());
}

TEST_F(RunTest, AKilledVmProcessIsReportedAndNobodyElseNotices) {
  SluiceProcess run({"run", LongTopology(), "--out", OutDir()});
  ASSERT_TRUE(run.WaitForLine("web: running", absl::Minutes(1))) << run.Err();
  ASSERT_EQ(kill(run.Number("web: running, pid "), SIGKILL), 0);
  ASSERT_TRUE(run.WaitForLine("web: the VM process ended without a word", absl::Minutes(1))) << run.Err();
  ASSERT_TRUE(run.WaitForLine("panel: running", absl::Minutes(1))) << run.Err();
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(Cause(Frontend(ReadReport(OutDir()), "web")), HasSubstr("killed by signal 9"));
}

// How many descriptors name files or sockets below /tmp, /dev/shm and /run that a run could have forgotten.
std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().rfind("sluice-test-", 0) != 0) names.push_back(it->path().string());
  }
  return names;
}

class InterruptTest : public RunTest, public ::testing::WithParamInterface<int> {};
TEST_P(InterruptTest, ASignalEndsEverythingInOrderAndLeavesNothing) {
  const std::vector<std::string> shm = FilesIn("/dev/shm");
  SluiceProcess run({"run", LongTopology(), "--out", OutDir()});
  ASSERT_TRUE(run.WaitForLine("web: running", absl::Minutes(1))) << run.Err();
  ASSERT_TRUE(run.WaitForLine("panel: running", absl::Minutes(1))) << run.Err();
  const auto all = run.Descendants();
  EXPECT_GE(all.size(), 6u) << "2 domains, 2 workers, 2 VM processes";
  run.Signal(GetParam());
  EXPECT_EQ(run.Wait(), 1) << run.Err();
  EXPECT_THAT(StillThere(all, absl::Seconds(20)), IsEmpty());
  const JsonValue report = ReadReport(OutDir());
  EXPECT_EQ(Member(report, "interrupted").text, GetParam() == SIGINT ? "SIGINT" : "SIGTERM");
  for (const char* name : {"web", "panel"}) EXPECT_EQ(Cause(Frontend(report, name)), "stopped");
  for (const JsonValue& domain : Member(report, "domains").items) EXPECT_EQ(Member(domain, "state").text, "ended");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(OutDir())) names.push_back(entry.path().filename());
  EXPECT_THAT(names,
              ::testing::IsSubsetOf({"report.json", "web.png", "panel.png", "web.serial.log", "panel.serial.log"}));
  EXPECT_EQ(FilesIn("/dev/shm"), shm);
}
INSTANTIATE_TEST_SUITE_P(All, InterruptTest, ::testing::Values(SIGINT, SIGTERM));

TEST_F(RunTest, NothingOutlivesASupervisorThatIsKilled) {
  SluiceProcess run({"run", LongTopology(), "--out", OutDir()});
  ASSERT_TRUE(run.WaitForLine("web: running", absl::Minutes(1))) << run.Err();
  const auto all = run.Descendants();
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 128 + SIGKILL);
  EXPECT_THAT(StillThere(all, absl::Seconds(20)), IsEmpty());
}

TEST_F(RunTest, TheTimeoutEndsARun) {
  // Long enough for a machine to come up first.
  const std::string limit = std::getenv("SLUICE_NESTED") == nullptr ? "5s" : "60s";
  SluiceProcess run({"run", LongTopology(), "--out", OutDir(), "--timeout", limit});
  ASSERT_TRUE(run.WaitForLine("running, pid", absl::Seconds(60)));
  SluiceProcess second({"run", LongTopology(), "--out", OutDir()});
  EXPECT_EQ(second.Wait(), 2);
  EXPECT_THAT(second.Err(), HasSubstr("another run is writing there"));
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_EQ(Member(ReadReport(OutDir()), "interrupted").text, "timeout");
  EXPECT_THAT(run.Out(), HasSubstr("timeout: stopped"));
}

TEST_F(RunTest, CheckTriesThisHostAndSaysWhatFollows) {
  SluiceProcess check({"check"});
  EXPECT_EQ(check.Wait(), 0) << check.Out() << check.Err();
  EXPECT_THAT(check.Out(), AllOf(HasSubstr("ok      KVM: "), HasSubstr("ok      guest: "),
                                 HasSubstr("ok      Vulkan: "), HasSubstr("namespaces: ")));
}

}  // namespace
}  // namespace sluice::testing
