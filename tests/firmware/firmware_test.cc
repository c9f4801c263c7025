// The guests as a machine without a GPU Domain sees them: what they print and how they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/machine/machine.h"
#include "vmm/machine/testing/harness.h"

namespace sluice::machine {
namespace {

using ::testing::HasSubstr;

class FirmwareTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_NEEDS_KVM(); }

  // `gpu`: with a virtio-gpu device, which has no GPU Domain behind it.
  static testing::RunResult Run(const std::string& guest, const std::string& cmdline, bool gpu) {
    MachineOptions options;
    options.kvm = testing::OpenKvm();
    std::ifstream file(absl::StrCat(SLUICE_FIRMWARE_DIR "/", guest, ".elf"), std::ios::binary);
    options.firmware.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    options.mem_mib = 32;
    options.cmdline = cmdline;
    if (gpu) options.gpu.emplace();
    return testing::RunGuest(std::move(options));
  }
  static void ExpectExit(const testing::RunResult& result, int code) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.end.cause, EndCause::kGuestExit) << result.end.ToString() << "\n" << result.serial;
    EXPECT_EQ(result.end.code, code) << result.serial;
  }
};

TEST_F(FirmwareTest, TheLibraryHoldsWhatItPromises) {
  const auto result = Run("selftest", "gpu=0", false);
  ExpectExit(result, 0);
  EXPECT_THAT(result.serial, HasSubstr("library: ok"));
}

TEST_F(FirmwareTest, TheGpuDriverWorksWithEverySetOfRingFeatures) {
  const auto result = Run("selftest", "gpu=1", true);
  ExpectExit(result, 0);
  EXPECT_THAT(result.serial, HasSubstr("gpu with features 130000002: ok"));
  EXPECT_THAT(result.serial, HasSubstr("gpu with features 110000002: ok"));
  EXPECT_THAT(result.serial, HasSubstr("gpu with features 100000002: ok"));
}

TEST_F(FirmwareTest, OptionsReachTheGuest) {
  const auto result = Run("hello", "name=first name=second code=0x2a", false);
  ExpectExit(result, 42);
  EXPECT_THAT(result.serial, HasSubstr("hello from second"));
}

TEST_F(FirmwareTest, AValueThatIsNoNumberInRangeEndsTheGuestWithItsOwnCode) {
  for (const char* option : {"code=256", "code=", "code=ten", "code=99999999999999999999999"}) {
    const auto result = Run("hello", option, false);
    ExpectExit(result, 2);
    EXPECT_THAT(result.serial, HasSubstr("give a number from 0 to 255")) << option;
  }
}

TEST_F(FirmwareTest, DrawingGuestsSayWhatIsMissing) {
  auto result = Run("triangle", "", false);
  ExpectExit(result, 3);
  EXPECT_THAT(result.serial, HasSubstr("NO DEVICE: no virtio-gpu device"));
  result = Run("compute", "", true);
  ExpectExit(result, 3);
  EXPECT_THAT(result.serial, HasSubstr("NO DEVICE: no capability set"));
}

TEST_F(FirmwareTest, TheHostileGuestEndsByItselfWhateverItsSeed) {
  for (int seed = 1; seed <= 6; seed++) {
    const auto result = Run("hostile", absl::StrCat("seed=", seed, " ops=600"), seed % 2 == 0);
    ExpectExit(result, 0);
    EXPECT_THAT(result.serial, HasSubstr("hostile: done"));
  }
}

}  // namespace
}  // namespace sluice::machine
