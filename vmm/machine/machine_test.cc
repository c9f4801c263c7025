// Machines on a real /dev/kvm, in this process. Without KVM every test here is skipped, visibly.
#include "vmm/machine/machine.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "flatbuf/stats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/machine/stats_raw.h"
#include "vmm/machine/testing/harness.h"
#include "vmm/virtio/testing/echo_device.h"

namespace sluice::machine {
namespace {

using ::testing::HasSubstr;
using testing::RunGuest;
using testing::Runner;
using testing::RunResult;
using testing::TinyCode;
using testing::TinyOptions;

class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_NEEDS_KVM(); }
};

MachineOptions WithGpu(MachineOptions options) {
  options.gpu.emplace();
  return options;
}

MachineOptions FirmwareOptions(const std::string& name, const std::string& cmdline) {
  MachineOptions options;
  options.kvm = testing::OpenKvm();
  std::ifstream file(absl::StrCat(SLUICE_FIRMWARE_DIR "/", name, ".elf"), std::ios::binary);
  options.firmware.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  options.mem_mib = 16;
  options.cmdline = cmdline;
  return options;
}

TEST_F(MachineTest, TheGuestsExitCodeIsReported) {
  for (const int code : {0, 3, 255}) {
    const RunResult result = RunGuest(TinyOptions(TinyCode().Exit(static_cast<uint8_t>(code))));
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.end.cause, EndCause::kGuestExit) << result.end.ToString();
    EXPECT_EQ(result.end.code, code);
    EXPECT_EQ(result.end.ok(), code == 0);
  }
}

TEST_F(MachineTest, SerialOutputReachesTheSink) {
  EXPECT_EQ(RunGuest(TinyOptions(TinyCode().Print("hello\nno newline").Exit(0))).serial, "hello\nno newline");
}

TEST_F(MachineTest, OnlyTheFirstMarkIsReported) {
  const RunResult result = RunGuest(TinyOptions(TinyCode().Mark().Mark().Exit(0)));
  ASSERT_EQ(result.marks.size(), 1u);
  EXPECT_GT(result.marks[0], 0u);
}

TEST_F(MachineTest, ATripleFaultEndsTheMachine) {
  const RunResult result = RunGuest(TinyOptions(TinyCode().TripleFault()));
  EXPECT_EQ(result.end.cause, EndCause::kTripleFault) << result.end.ToString();
  EXPECT_EQ(result.end.code, -1);
}

TEST_F(MachineTest, AnInstructionThatKvmCannotEmulateIsNamedByItsBytes) {
  // popcnt %eax, %eax: native on hardware KVM, beyond the emulator elsewhere.
  const RunResult result = RunGuest(TinyOptions(TinyCode().Raw({0xf3, 0x0f, 0xb8, 0xc0}).Exit(0)));
  if (result.end.cause == EndCause::kGuestExit) GTEST_SKIP() << "this KVM runs kernel-mode code natively";
  EXPECT_EQ(result.end.cause, EndCause::kInternalError) << result.end.ToString();
  EXPECT_THAT(result.end.detail, HasSubstr("f3 0f b8 c0"));
}

TEST_F(MachineTest, AGuestThatSpinsOrHaltsIsStoppedFromOutside) {
  for (const TinyCode& code : {TinyCode().Mark().Spin(), TinyCode().Mark().HaltForEver()}) {
    Runner runner(TinyOptions(code));
    runner.StopAfterMark(std::chrono::milliseconds(50));
    const RunResult result = runner.Run();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.end.cause, EndCause::kStopped) << result.end.ToString();
  }
}

TEST_F(MachineTest, AMachineThatRunsCanBeDestroyed) {
  std::atomic<bool> ended{false};
  {
    asio::io_context loop;
    auto machine = Machine::Create(loop, TinyOptions(TinyCode().Spin()));
    ASSERT_TRUE(machine.ok()) << machine.status();
    ASSERT_TRUE((*machine)->Start([&](const MachineEnd&) { ended = true; }).ok());
  }
  EXPECT_FALSE(ended) << "nobody is told about a machine that was destroyed";
}

TEST_F(MachineTest, AHostThatGivesTooFewThreadsMakesStartFail) {
  constexpr int kNotSettable = 2;
  constexpr uid_t kSomebody = 54321;  // root is exempt from the limit
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    {
      asio::io_context loop;
      MachineOptions options = TinyOptions(TinyCode().Spin());
      options.vcpus = 2;
      auto machine = Machine::Create(loop, std::move(options));
      const rlimit one_more = {2, 2};
      if (setrlimit(RLIMIT_NPROC, &one_more) != 0 || setresuid(kSomebody, kSomebody, kSomebody) != 0) {
        _exit(kNotSettable);
      }
      const bool failed = machine.ok() && !(*machine)->Start([](const MachineEnd&) {}).ok();
      code = failed ? 0 : 1;
    }  // the thread that did start is joined
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kNotSettable) GTEST_SKIP() << "the limit cannot be set here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(MachineTest, AMachineThatWasNeverStartedCanBeDestroyed) {
  asio::io_context loop;
  EXPECT_TRUE(Machine::Create(loop, WithGpu(TinyOptions(TinyCode().Spin()))).ok());
}

TEST_F(MachineTest, StopFromAnotherThreadIsNeverLost) {
  for (int i = 0; i < 20; ++i) {
    Runner runner(TinyOptions(TinyCode().Spin()));
    ASSERT_NE(runner.machine(), nullptr);
    std::thread stopper([&] { runner.machine()->Stop(); });
    const RunResult result = runner.Run();
    stopper.join();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.end.cause, EndCause::kStopped) << result.end.ToString();
  }
}

TEST_F(MachineTest, TheFirstCauseOfAnEndStays) {
  Runner runner(TinyOptions(TinyCode().Mark().Exit(9)));
  const RunResult result = runner.Run();
  runner.machine()->Stop();
  EXPECT_EQ(result.end.code, 9);
}

TEST_F(MachineTest, WhatIsNotThereReadsAsOnes) {
  EXPECT_EQ(RunGuest(TinyOptions(TinyCode().In32(0x80).ExitIfEax(0xffffffff))).end.code, 0) << "port";
  EXPECT_EQ(RunGuest(TinyOptions(TinyCode().MovRax(0xefff'f000).LoadEaxFromRax().ExitIfEax(0xffffffff))).end.code, 0)
      << "32-bit BAR hole";
  EXPECT_EQ(
      RunGuest(WithGpu(TinyOptions(TinyCode().MovRax(kBar64Start.value()).LoadEaxFromRax().ExitIfEax(0xffffffff))))
          .end.code,
      0)
      << "window without a blob";
}

TEST_F(MachineTest, TheBusHasAHostBridgeAndTheGpu) {
  auto read = [](uint32_t address) { return TinyCode().Out32(0xcf8, address).In32(0xcfc); };
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(read(0x8000'0000).ExitIfEax(0x0008'1b36)))).end.code, 0) << "00.0";
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(read(0x8000'0800).ExitIfEax(0x1050'1af4)))).end.code, 0) << "01.0";
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(read(0x8000'1000).ExitIfEax(0xffff'ffff)))).end.code, 0) << "02.0 is empty";
  EXPECT_EQ(RunGuest(TinyOptions(read(0x8000'0800).ExitIfEax(0xffff'ffff))).end.code, 0) << "01.0 without gpu";
}

VirtioDeviceOptions Echo(std::string name) {
  return {.name = std::move(name),
          .create = [](const DeviceContext&) -> absl::StatusOr<std::unique_ptr<virtio::Device>> {
            return std::make_unique<virtio::testing::EchoDevice>();
          }};
}

TEST_F(MachineTest, EachFurtherDeviceHasASlotOfItsOwn) {
  for (const uint32_t slot : {2u, 3u}) {
    MachineOptions options =
        TinyOptions(TinyCode().Out32(0xcf8, 0x8000'0000 | slot << 11).In32(0xcfc).ExitIfEax(0x106a'1af4));
    options.devices = {Echo("one"), Echo("two")};
    EXPECT_EQ(RunGuest(std::move(options)).end.code, 0) << slot;
  }
}

TEST_F(MachineTest, ADeviceThatCannotBeMadeIsNamed) {
  MachineOptions options = TinyOptions(TinyCode().Exit(0));
  options.devices = {Echo("good"),
                     {.name = "disk7", .create = [](const DeviceContext&) {
                        return absl::StatusOr<std::unique_ptr<virtio::Device>>(absl::NotFoundError("no such file"));
                      }}};
  const absl::Status status = RunGuest(std::move(options)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("disk7"));
  options = TinyOptions(TinyCode().Exit(0));
  options.devices.assign(kMaxDevices + 1, Echo("many"));
  EXPECT_EQ(RunGuest(std::move(options)).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MachineTest, ConfigurationSpaceIsReachedByEcamToo) {
  const uint64_t gpu = kEcamStart.value() + pci::EcamOffset(kGpuSlot, 0, pci::kRegVendorId);
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(TinyCode().MovRax(gpu).LoadEaxFromRax().ExitIfEax(0x1050'1af4)))).end.code, 0);
}

TEST_F(MachineTest, BarsAreAssignedInsideTheirWindows) {
  const uint64_t bar4 =
      kEcamStart.value() + pci::EcamOffset(kGpuSlot, 0, pci::kRegBar0 + 4 * 5);  // upper half of BAR 4
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(TinyCode().MovRax(bar4).LoadEaxFromRax().ExitIfEax(0x40)))).end.code, 0);
  const uint64_t bar0 = kEcamStart.value() + pci::EcamOffset(kGpuSlot, 0, pci::kRegBar0);
  EXPECT_EQ(RunGuest(WithGpu(TinyOptions(TinyCode().MovRax(bar0).LoadEaxFromRax().ExitIfEax(0xe100'0000)))).end.code,
            0);
}

TEST_F(MachineTest, RamEndsWhereItShould) {
  const uint64_t top = 8 * kMiB;
  EXPECT_EQ(
      RunGuest(TinyOptions(TinyCode().MovRax(top - 4).StoreToRax(0x1234).LoadEaxFromRax().ExitIfEax(0x1234))).end.code,
      0);
}

TEST_F(MachineTest, TheStartInfoIsInRbx) {
  // mov (%rbx), %eax
  EXPECT_EQ(RunGuest(TinyOptions(TinyCode().Raw({0x8b, 0x03}).ExitIfEax(boot::kStartInfoMagic))).end.code, 0);
}

TEST_F(MachineTest, CountersCountExits) {
  auto fd = CreateMemFd("stats", kPageSize);
  ASSERT_TRUE(fd.ok());
  auto ours = VmStatsPage::Create(*Mapping::MapShared(fd->get(), 0, kPageSize, Mapping::kReadWrite));
  ASSERT_TRUE(ours.ok());
  MachineOptions options = TinyOptions(TinyCode().Mark().Print("abc").MovRax(0xefff'f000).LoadEaxFromRax().Exit(0));
  options.stats = *Mapping::MapShared(fd->get(), 0, kPageSize, Mapping::kReadWrite);
  ASSERT_TRUE(RunGuest(std::move(options)).end.ok());
  EXPECT_EQ((*ours)->exits_io.load(), 5u);
  EXPECT_EQ((*ours)->exits_mmio.load(), 1u);
  EXPECT_GT((*ours)->first_instruction_ns.load(), 0u);
}

TEST_F(MachineTest, SeveralVcpusStartAndStop) {
  MachineOptions options = TinyOptions(TinyCode().Mark().Spin());
  options.vcpus = 4;
  Runner runner(std::move(options));
  runner.StopAfterMark(std::chrono::milliseconds(20));
  EXPECT_EQ(runner.Run().end.cause, EndCause::kStopped) << "three of them still wait for INIT";
}

TEST_F(MachineTest, ImpossibleOptionsAreRefusedWithTheirRange) {
  MachineOptions options = TinyOptions(TinyCode().Exit(0));
  options.mem_mib = 4096;
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()),
              HasSubstr("mem_mib is 4096; it may be 2..3072"));
  options = TinyOptions(TinyCode().Exit(0));
  options.vcpus = 0;
  EXPECT_EQ(RunGuest(std::move(options)).status.code(), absl::StatusCode::kInvalidArgument);
  options = WithGpu(TinyOptions(TinyCode().Exit(0)));
  options.gpu->window_bytes = 3 * kMiB;
  EXPECT_EQ(RunGuest(std::move(options)).status.code(), absl::StatusCode::kInvalidArgument);
  options = TinyOptions(TinyCode().Exit(0));
  options.firmware = {1, 2, 3};
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()), HasSubstr("firmware image"));
}

TEST_F(MachineTest, AConfinementThatFailsKeepsTheGuestFromRunning) {
  MachineOptions options = TinyOptions(TinyCode().Print("ran").Exit(0));
  options.confine = [] { return absl::PermissionDeniedError("no"); };
  const RunResult result = RunGuest(std::move(options));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(result.serial, "");
}

TEST_F(MachineTest, FiftyLifecyclesLeaveNoDescriptorBehind) {
  ASSERT_TRUE(RunGuest(WithGpu(TinyOptions(TinyCode().Exit(0)))).end.ok());
  const int before = testing::CountOpenFds();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(RunGuest(WithGpu(TinyOptions(TinyCode().Print("x").Exit(0)))).end.ok()) << i;
  }
  EXPECT_EQ(testing::CountOpenFds(), before);
}

TEST_F(MachineTest, HelloBootsAtUserLevel) {
  const RunResult result = RunGuest(WithGpu(FirmwareOptions("hello", "name=tests code=5")));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.serial, HasSubstr("hello from tests"));
  EXPECT_EQ(result.end.ToString(), "guest exit 5");
  EXPECT_EQ(result.marks.size(), 1u);
}

TEST_F(MachineTest, FaultingGuestsEndAsTheyShould) {
  EXPECT_EQ(RunGuest(FirmwareOptions("fault", "kind=triple")).end.cause, EndCause::kTripleFault);
  EXPECT_EQ(RunGuest(FirmwareOptions("fault", "kind=opcode")).end.ToString(), "guest exit 134");
  EXPECT_EQ(RunGuest(FirmwareOptions("fault", "kind=mmio")).end.ToString(), "guest exit 0");
  EXPECT_EQ(RunGuest(FirmwareOptions("fault", "kind=exit code=77")).end.ToString(), "guest exit 77");
}

TEST_F(MachineTest, ABusyAndASleepingGuestAreStopped) {
  for (const char* mode : {"mode=busy", "mode=sleep"}) {
    Runner runner(FirmwareOptions("spin", mode));
    runner.StopAfterMark(std::chrono::milliseconds(100));
    const RunResult result = runner.Run();
    EXPECT_EQ(result.end.cause, EndCause::kStopped) << mode << ": " << result.end.ToString();
    EXPECT_FALSE(result.timed_out);
  }
}

}  // namespace
}  // namespace sluice::machine
