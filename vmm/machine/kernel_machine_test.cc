// Machines that boot kernels, on a real /dev/kvm: tiny ones that run anywhere. Whole Linux kernels: tests/linux.
#include <sys/mman.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/boot/linux_boot.h"
#include "vmm/boot/testing/tiny_kernel.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/machine/machine.h"
#include "vmm/machine/testing/harness.h"
#include "vmm/virtio/testing/echo_device.h"

namespace sluice::machine {
namespace {

using boot::testing::TinyBzImage;
using boot::testing::TinyPvh;
using ::testing::HasSubstr;
using testing::Runner;
using testing::RunResult;
using testing::TinyCode;

class KernelMachineTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_NEEDS_KVM(); }
};

UniqueFd MemFile(const std::vector<uint8_t>& bytes) {
  UniqueFd fd(memfd_create("kernel", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

MachineOptions Kernel(const TinyCode& code) {
  MachineOptions options;
  options.kvm = testing::OpenKvm();
  options.mem_mib = 8;
  options.kernel.emplace();
  options.kernel->image = MemFile(TinyBzImage(code.bytes()).Build());
  return options;
}

RunResult RunGuest(MachineOptions options) {
  return Runner(std::move(options)).Run();
}

TinyCode Reset() {
  return TinyCode().Out8(kPowerPorts + 2, 1).Spin();
}

TEST_F(KernelMachineTest, PowerOffEndsWell) {
  const RunResult result = RunGuest(Kernel(TinyCode().Print("up").Out8(kPowerPorts, 0x34).Spin()));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.end.cause, EndCause::kPowerOff) << result.end.ToString();
  EXPECT_TRUE(result.end.ok());
  EXPECT_EQ(result.end.code, 0);
  EXPECT_EQ(result.serial, "up");
}

TEST_F(KernelMachineTest, OtherSleepTypesAndHalfRequestsDoNothing) {
  const RunResult result =
      RunGuest(Kernel(TinyCode().Out8(kPowerPorts, 0x14).Out8(kPowerPorts, 0x20).Out8(kPowerPorts + 2, 2).Exit(7)));
  EXPECT_EQ(result.end.ToString(), "guest exit 7");
}

TEST_F(KernelMachineTest, AResetEndsTheMachineUnlessItMayRestart) {
  EXPECT_EQ(RunGuest(Kernel(Reset())).end.cause, EndCause::kGuestReset);
}

TEST_F(KernelMachineTest, ARestartedGuestBootsAgainInPlace) {
  for (const uint32_t vcpus : {1u, 3u}) {
    MachineOptions options = Kernel(testing::ExitsOnSecondBoot(Reset()));
    options.on_reset = ResetAction::kRestart;
    options.vcpus = vcpus;
    options.devices = {
        {.name = "echo", .create = [](const DeviceContext&) -> absl::StatusOr<std::unique_ptr<virtio::Device>> {
           return std::make_unique<virtio::testing::EchoDevice>();
         }}};
    Runner runner(std::move(options));
    ASSERT_NE(runner.machine(), nullptr);
    std::vector<uint64_t> restarts;
    std::vector<Mark> marks;
    runner.machine()->OnRestart([&](uint64_t count) { restarts.push_back(count); });
    runner.machine()->OnMark([&](const Mark& mark) { marks.push_back(mark); });
    const RunResult result = runner.Run();
    EXPECT_EQ(result.end.ToString(), "guest exit 0");
    EXPECT_THAT(restarts, ::testing::ElementsAre(1));
    ASSERT_EQ(marks.size(), 2u);
    EXPECT_LT(marks[0].nanoseconds, marks[1].nanoseconds);
    EXPECT_EQ(result.marks.size(), 1u) << "the first mark is the first";
  }
}

TEST_F(KernelMachineTest, AGuestThatRestartsForEverIsStopped) {
  MachineOptions options = Kernel(TinyCode().Mark().Out8(kPowerPorts + 2, 1).Spin());
  options.on_reset = ResetAction::kRestart;
  options.vcpus = 2;
  Runner runner(std::move(options));
  runner.StopAfterMark(std::chrono::milliseconds(50));
  const RunResult result = runner.Run();
  EXPECT_EQ(result.end.cause, EndCause::kStopped) << result.end.ToString();
  EXPECT_FALSE(result.timed_out);
}

TEST_F(KernelMachineTest, AMachineThatRestartsCanBeDestroyed) {
  for (int i = 0; i < 10; ++i) {
    MachineOptions options = Kernel(Reset());
    options.on_reset = ResetAction::kRestart;
    asio::io_context loop;
    auto machine = Machine::Create(loop, std::move(options));
    ASSERT_TRUE(machine.ok()) << machine.status();
    ASSERT_TRUE((*machine)->Start([](const MachineEnd&) {}).ok());
    loop.run_for(std::chrono::milliseconds(i));
  }
}

TEST_F(KernelMachineTest, APanicIsSeen) {
  EXPECT_EQ(RunGuest(Kernel(TinyCode().Out8(kPanicPort, 1).Spin())).end.cause, EndCause::kGuestPanic);
  EXPECT_EQ(RunGuest(Kernel(TinyCode().Out8(kPanicPort, 2).Exit(3))).end.ToString(), "guest exit 3")
      << "a crash kernel runs on";
}

TEST_F(KernelMachineTest, APvhKernelIsEnteredInProtectedMode) {
  MachineOptions options = Kernel(TinyCode().Spin());
  // The exit code is CR0.PG: mov %cr0, %eax; shr $31, %eax; mov $0xf4, %dx; out %al, (%dx); jmp .
  const uint8_t code[] = {0x0f, 0x20, 0xc0, 0xc1, 0xe8, 0x1f, 0x66, 0xba, 0xf4, 0x00, 0xee, 0xeb, 0xfe};
  options.kernel->image = MemFile(TinyPvh(code).Build());
  EXPECT_EQ(RunGuest(std::move(options)).end.ToString(), "guest exit 0");
}

TEST_F(KernelMachineTest, WhatIsTypedReachesTheSerialPort) {
  // 1: in LSR; test $1, %al; jz 1b; in RBR; out to the exit port.
  const TinyCode code = TinyCode().Raw(
      {0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74, 0xfb, 0x66, 0xba, 0xf8, 0x03, 0xec, 0xe6, 0xf4, 0xeb, 0xfe});
  Runner runner(Kernel(code));
  ASSERT_NE(runner.machine(), nullptr);
  EXPECT_EQ(runner.machine()->SerialInput("*"), 1u);
  EXPECT_EQ(runner.Run().end.ToString(), "guest exit 42");
}

TEST_F(KernelMachineTest, RamAboveTheHoleIsThere) {
  // The identity map of the boot protocol ends at 4 GiB: the memory map tells. Entry 3 of the zero page's table.
  MachineOptions options = Kernel(TinyCode().MovRax(0x2000 + 0x2d0 + 4 * 20 + 4).LoadEaxFromRax().ExitIfEax(1));
  options.mem_mib = kMaxLowRamMib + 64;
  EXPECT_EQ(RunGuest(std::move(options)).end.ToString(), "guest exit 0");
}

TEST_F(KernelMachineTest, WrongImagesAreRefusedWithTheirName) {
  MachineOptions options = Kernel(TinyCode());
  options.kernel->image = MemFile({1, 2, 3});
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()), HasSubstr("kernel: neither a bzImage"));
  options = Kernel(TinyCode());
  options.kernel->image = UniqueFd();
  EXPECT_FALSE(RunGuest(std::move(options)).status.ok());
  options = Kernel(TinyCode());
  options.firmware = {1};
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()), HasSubstr("not both"));
  options = Kernel(TinyCode().Spin());
  options.kernel->initramfs = MemFile(std::vector<uint8_t>(7 << 20));
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()), HasSubstr("initramfs of 7340032 bytes"));
  options = Kernel(TinyCode());
  options.mem_mib = kMaxKernelRamMib + 1;
  EXPECT_THAT(std::string(RunGuest(std::move(options)).status.message()), HasSubstr("mem_mib"));
}

}  // namespace
}  // namespace sluice::machine
