// VM processes seen from their supervisor: started, jailed, spoken to, stopped, killed.
#include "vmm/machine/vm_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "flatbuf/control_generated.h"
#include "flatbuf/stats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/base/abort.h"
#include "vmm/base/seqpacket.h"
#include "vmm/boot/testing/tiny_kernel.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/machine/seccomp_vm.h"
#include "vmm/machine/testing/harness.h"

namespace sluice::machine {
namespace {

using ::testing::HasSubstr;
using testing::TinyCode;
using testing::TinyElf;

constexpr absl::Duration kWait = absl::Seconds(60);

std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(dir);
  return names;
}

// "Key:\tvalue" of a process's (or one of its threads') status, trimmed.
std::string StatusField(pid_t pid, absl::string_view key, absl::string_view task = "") {
  const std::string thread = task.empty() ? "" : absl::StrCat("/task/", task);
  for (absl::string_view line : absl::StrSplit(Slurp(absl::StrCat("/proc/", pid, thread, "/status")), '\n')) {
    if (absl::ConsumePrefix(&line, absl::StrCat(key, ":"))) return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

uint64_t StatusKib(pid_t pid, absl::string_view key) {
  uint64_t kib = 0;
  EXPECT_TRUE(absl::SimpleAtoi(std::string(absl::StripSuffix(StatusField(pid, key), " kB")), &kib)) << key;
  return kib;
}

UniqueFd MemFile(const std::vector<uint8_t>& bytes) {
  auto fd = CreateMemFd("firmware", std::max<size_t>(bytes.size(), 1));
  EXPECT_TRUE(fd.ok());
  EXPECT_EQ(write(fd->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return *std::move(fd);
}

// The supervisor's side of one VM process.
class Vm {
 public:
  explicit Vm(const std::vector<uint8_t>& firmware, VmProcessConfig config = {.name = "test", .mem_mib = 16}) {
    auto sockets = CreateSeqPacketPair();
    auto stats = CreateMemFd("stats", kPageSize);
    EXPECT_TRUE(sockets.ok() && stats.ok());
    control_ = std::move(sockets->first);
    stats_ = *std::move(stats);
    auto serial = CreateMemFd("serial", 64 * 1024);
    serial_ = *std::move(serial);
    const UniqueFd kvm = testing::OpenKvm();
    const UniqueFd elf = MemFile(firmware);
    VmProcessFds fds;
    fds.control = sockets->second.get();
    fds.kvm = kvm.get();
    fds.firmware = elf.get();
    fds.stats = stats_.get();
    fds.serial = serial_.get();
    auto child = StartVmProcess(jail::SiblingBinary("vm_testing_main"), config, fds);
    EXPECT_TRUE(child.ok()) << child.status();
    if (child.ok()) child_ = *std::move(child);
  }

  // The next event; nullopt when the process has closed its end. `*fd`: what came beside it.
  std::optional<wire::VmEventT> Next(UniqueFd* fd = nullptr) {
    pollfd readable = {control_.get(), POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(kWait))) != 1) {
      ADD_FAILURE() << "no event";
      return std::nullopt;
    }
    auto packet = ReceivePacket(control_.get());
    if (!packet.ok() || !packet->has_value()) return std::nullopt;
    flatbuffers::Verifier verifier((*packet)->bytes.data(), (*packet)->bytes.size());
    EXPECT_TRUE(verifier.VerifyBuffer<wire::VmEvent>(nullptr));
    wire::VmEventT event;
    flatbuffers::GetRoot<wire::VmEvent>((*packet)->bytes.data())->UnPackTo(&event);
    if (fd != nullptr && !(*packet)->fds.empty()) *fd = std::move((*packet)->fds[0]);
    return event;
  }

  template <typename Table>
  void Send(wire::ToVm type, Table table) {
    wire::VmMessageT message;
    message.body.type = type;
    message.body.value = new Table(std::move(table));
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::VmMessage::Pack(builder, &message));
    EXPECT_TRUE(SendPacket(control_.get(), {builder.GetBufferPointer(), builder.GetSize()}, {}).ok());
  }

  void WaitForFirstInstruction() {
    const auto event = Next();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->body.type, wire::FromVm::VmRunning);
    first_instruction_ns = event->body.AsVmRunning()->first_instruction_ns;
  }
  // Reads events up to VmExited.
  wire::VmExitedT WaitForExit() {
    while (auto event = Next()) {
      if (event->body.type == wire::FromVm::VmExited) return *event->body.AsVmExited();
    }
    ADD_FAILURE() << "ended without VmExited";
    return {};
  }
  std::string Serial() {
    const off_t size = lseek(serial_.get(), 0, SEEK_CUR);
    std::string text(static_cast<size_t>(std::max<off_t>(size, 0)), '\0');
    EXPECT_EQ(pread(serial_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }
  void CloseControl() { control_.Reset(); }
  jail::ChildProcess& child() { return child_; }
  pid_t pid() const { return child_.pid(); }

  uint64_t first_instruction_ns = 0;

 private:
  UniqueFd control_;
  UniqueFd stats_;
  UniqueFd serial_;
  jail::ChildProcess child_;
};

class VmProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_NEEDS_KVM(); }
};

TEST_F(VmProcessTest, RunsAGuestAndReportsInOrder) {
  Vm vm(TinyElf(TinyCode().Mark().Print("hello\n").Exit(7).bytes()));
  auto event = vm.Next();
  ASSERT_TRUE(event.has_value());
  ASSERT_EQ(event->body.type, wire::FromVm::VmRunning);
  EXPECT_GT(event->body.AsVmRunning()->first_instruction_ns, 0u);
  event = vm.Next();
  ASSERT_TRUE(event.has_value());
  ASSERT_EQ(event->body.type, wire::FromVm::VmScanout);
  EXPECT_EQ(event->body.AsVmScanout()->width, 0u) << "this guest shows nothing";
  event = vm.Next();
  ASSERT_TRUE(event.has_value());
  ASSERT_EQ(event->body.type, wire::FromVm::VmExited);
  EXPECT_EQ(event->body.AsVmExited()->code, 7);
  EXPECT_EQ(event->body.AsVmExited()->cause, "guest exit");
  EXPECT_FALSE(vm.Next().has_value()) << "nothing after VmExited";
  EXPECT_EQ(vm.child().Wait(kWait)->ToString(), "exit code 0");
  EXPECT_EQ(vm.Serial(), "hello\n");
}

TEST_F(VmProcessTest, ATripleFaultIsReportedAsSuch) {
  Vm vm(TinyElf(TinyCode().TripleFault().bytes()));
  const wire::VmExitedT exited = vm.WaitForExit();
  EXPECT_EQ(exited.code, -1);
  EXPECT_EQ(exited.cause, "triple fault");
}

TEST_F(VmProcessTest, StopEndsAGuestThatSpins) {
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  vm.Send(wire::ToVm::VmStop, wire::VmStopT());
  EXPECT_EQ(vm.WaitForExit().cause, "stopped");
  EXPECT_EQ(vm.child().Wait(kWait)->code, kVmProcessOk);
}

TEST_F(VmProcessTest, AScreenshotIsAnsweredWhileTheGuestRuns) {
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  vm.Send(wire::ToVm::VmScreenshot, wire::VmScreenshotT());
  const auto event = vm.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->body.type, wire::FromVm::VmScanout);
}

TEST_F(VmProcessTest, AKilledProcessIsGoneWithoutAWord) {
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  vm.child().Kill();
  EXPECT_FALSE(vm.Next().has_value());
  EXPECT_EQ(vm.child().Wait(kWait)->signal, SIGKILL);
}

TEST_F(VmProcessTest, EndsWhenItsSupervisorIsGone) {
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  vm.CloseControl();
  EXPECT_EQ(vm.child().Wait(kWait)->code, kVmProcessOrphaned);
}

TEST_F(VmProcessTest, ABadImageIsAHostErrorWithItsReason) {
  Vm vm({1, 2, 3, 4});
  const wire::VmExitedT exited = vm.WaitForExit();
  EXPECT_THAT(exited.cause, HasSubstr("host error"));
  EXPECT_THAT(exited.cause, HasSubstr("firmware image"));
  EXPECT_EQ(vm.child().Wait(kWait)->code, kVmProcessHost);
}

TEST_F(VmProcessTest, IsJailedWhileTheGuestRuns) {
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  EXPECT_EQ(StatusField(vm.pid(), "Seccomp"), "2");
  EXPECT_EQ(StatusField(vm.pid(), "Seccomp_filters"), "2");
  EXPECT_EQ(StatusField(vm.pid(), "NoNewPrivs"), "1");
  EXPECT_EQ(StatusField(vm.pid(), "CapEff"), "0000000000000000");
  EXPECT_EQ(StatusField(vm.pid(), "CapPrm"), "0000000000000000");
  EXPECT_EQ(vm.child().namespaces(), jail::ProbeNamespaces());
  if (geteuid() == 0) {
    EXPECT_NE(StatusField(vm.pid(), "Uid").substr(0, 2), "0\t") << "does not stay root";
    EXPECT_NE(access(absl::StrCat("/proc/", vm.pid(), "/root/etc").c_str(), F_OK), 0) << "its root directory is empty";
  }
  // Every thread is confined, vCPUs too.
  int threads = 0;
  for (const std::string& task : ListDirectory(absl::StrCat("/proc/", vm.pid(), "/task"))) {
    EXPECT_EQ(StatusField(vm.pid(), "Seccomp", task), "2") << task;
    ++threads;
  }
  EXPECT_GE(threads, 2);
}

TEST_F(VmProcessTest, ResidentMemoryWithoutGuestRamIsBelowEightMebibytes) {
#if defined(SLUICE_ASAN) || defined(SLUICE_TSAN)
  GTEST_SKIP() << "a sanitizer's shadow memory counts";
#endif
  Vm vm(TinyElf(TinyCode().Mark().Spin().bytes()));
  vm.WaitForFirstInstruction();
  const uint64_t anon = StatusKib(vm.pid(), "RssAnon");
  const uint64_t file = StatusKib(vm.pid(), "RssFile");
  RecordProperty("rss_anon_kib", static_cast<int>(anon));
  RecordProperty("rss_file_kib", static_cast<int>(file));
  std::printf("resident: %llu KiB private, %llu KiB of files; first instruction after %.1f ms\n",
              static_cast<unsigned long long>(anon), static_cast<unsigned long long>(file),
              static_cast<double>(vm.first_instruction_ns) / 1e6);
  EXPECT_LT(anon + file, 8u * 1024);
}

TEST_F(VmProcessTest, ManyLifecyclesLeaveNothingBehind) {
  { Vm(TinyElf(TinyCode().Exit(0).bytes())).WaitForExit(); }
  const int before = testing::CountOpenFds();
  for (int i = 0; i < 20; ++i) {
    Vm vm(TinyElf(TinyCode().Mark().Exit(0).bytes()));
    EXPECT_EQ(vm.WaitForExit().code, 0);
    EXPECT_EQ(vm.child().Wait(kWait)->ToString(), "exit code 0");
  }
  EXPECT_EQ(testing::CountOpenFds(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(VmSeccomp, ForbiddenCallsAreFatal) {
  for (const char* what : {"forbidden-socket", "forbidden-exec", "forbidden-kill"}) {
    jail::SpawnOptions options;
    options.program = jail::SiblingBinary("vm_testing_main");
    options.arguments = {what};
    options.environment = jail::InheritedEnvironment();
    auto child = jail::Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(child->Wait(kWait)->signal, SIGSYS) << what;
  }
}

TEST(VmSeccomp, AbortIsToldFromOtherEnds) {
  for (const bool namespaces : {false, true}) {
    jail::SpawnOptions options;
    options.program = jail::SiblingBinary("vm_testing_main");
    options.arguments = {"abort"};
    options.environment = jail::InheritedEnvironment();
    if (namespaces) options.namespaces = jail::Namespaces::All();
    auto child = jail::Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    const bool first = child->namespaces().pid;  // what the kernel granted
    const auto exit = child->Wait(kWait);
    ASSERT_TRUE(exit.ok()) << exit.status();
    EXPECT_EQ(exit->signal, first ? 0 : SIGABRT) << exit->ToString();
    if (first) {
      EXPECT_EQ(exit->code, kAbortExitCode) << exit->ToString();
    }
  }
}

TEST(VmSeccomp, TheRunPhaseNamesEachKvmRequestAndAllowsNoNewProcess) {
  const std::string run = VmSeccompPolicy(1).Describe(jail::SeccompPhase::kRun);
  EXPECT_THAT(run, HasSubstr("ioctl(arg1 & 0xffffffff == 0xae80)")) << "KVM_RUN";
  for (const char* call : {"clone", "execve", "socket", "ptrace", "openat\n", "kill\n", "ioctl\n", "mmap\n"}) {
    EXPECT_THAT(absl::StrCat("\n", run, "\n"), ::testing::Not(HasSubstr(absl::StrCat("\n", call)))) << call;
  }
}

TEST_F(VmProcessTest, AKernelRestartsInsideTheJail) {
  const TinyCode code = testing::ExitsOnSecondBoot(TinyCode().Out8(kPowerPorts + 2, 1).Spin());
  Vm vm(boot::testing::TinyBzImage(code.bytes()).Build(),
        {.name = "test", .mem_mib = 16, .vcpus = 2, .kernel = true, .restart = true});
  const wire::VmExitedT exited = vm.WaitForExit();
  EXPECT_EQ(exited.cause, "guest exit");
  EXPECT_EQ(exited.code, 0);
}

TEST(VmArguments, SurviveTheCommandLine) {
  VmProcessConfig config;
  config.name = "web-0";
  config.mem_mib = 123;
  config.vcpus = 2;
  config.cmdline = "seed=1 text=a=b --name=x";
  config.gpu = false;
  config.os = "bare";
  config.display_width = 640;
  config.display_height = 480;
  config.window_bytes = 64 * kMiB;
  config.kernel = true;
  config.restart = true;
  config.log_level = LogLevel::kDebug;
  const std::vector<std::string> encoded = EncodeVmProcessArguments(config, 99);
  const auto decoded = DecodeVmProcessArguments({encoded.begin(), encoded.end()});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->config, config);
  EXPECT_EQ(decoded->start_time_ns, 99u);
}

TEST(VmArguments, NonsenseIsRefusedAndNamed) {
  for (const char* bad : {"--mem-mib=x", "--mem-mib=-1", "--vcpus=5000000000", "--gpu=2", "--log-level=9",
                          "--unknown=1", "name=x", "--name"}) {
    const auto decoded = DecodeVmProcessArguments({bad});
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(bad));
  }
}

}  // namespace
}  // namespace sluice::machine
