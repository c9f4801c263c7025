// Programs with windows, unchanged, on Sluice over a socket: each picture that the window shows is one that it shows
// when the program runs natively, on X11 (Xvfb) and Wayland (Weston).
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "icd/wsi/testing/window_server.h"
#include "tests/programs/window_frames.h"

namespace sluice::programs {
namespace {

using wsi::testing::ChildProcess;
using wsi::testing::HasProgram;
using wsi::testing::TemporaryDirectory;

constexpr char kBuild[] = SLUICE_BUILD_DIRECTORY;
constexpr char kValidation[] = "VK_LAYER_KHRONOS_validation";
// A native run may miss some of the frames that the other one shows; together they have them all.
constexpr int kNativeRuns = 20;

struct Program {
  std::string name;
  bool wayland = false;
  ProgramWindow sluice;
  ProgramWindow native;  // more frames, at the display's pace, so that none is missed
};
void PrintTo(const Program& program, std::ostream* out) {
  *out << program.name;
}

// A GPU Domain that listens on a socket of its own.
class Domain {
 public:
  static std::unique_ptr<Domain> Start(std::string* why) {
    auto domain = std::make_unique<Domain>();
    const std::string log = domain->directory_.path() + "/log";
    auto process =
        ChildProcess::Start({std::string(kBuild) + "/bin/sluice-domain", "--listen=" + domain->socket()}, {}, "", log);
    if (!process.ok()) {
      *why = std::string(process.status().message());
      return nullptr;
    }
    domain->process_ = *std::move(process);
    for (int i = 0; i < 60'000 && access(domain->socket().c_str(), F_OK) != 0; i++) {
      if (domain->process_->Wait(0) != -1) break;
      usleep(1000);
    }
    if (access(domain->socket().c_str(), F_OK) != 0) {
      *why = "the domain did not start:\n" + wsi::testing::ReadText(log);
      return nullptr;
    }
    return domain;
  }
  std::string socket() const { return directory_.path() + "/gpu"; }
  std::string Log() const { return wsi::testing::ReadText(directory_.path() + "/log"); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<ChildProcess> process_;
};

std::string NativeManifest() {
  glob_t found = {};
  std::string manifest;
  if (glob("/usr/share/vulkan/icd.d/lvp_icd*.json", 0, nullptr, &found) == 0) manifest = found.gl_pathv[0];
  globfree(&found);
  return manifest;
}

// How much a picture differs from the one of `others` that is most like it.
std::string Closest(const Pixels& picture, const std::set<Pixels>& others) {
  size_t fewest = SIZE_MAX, first = 0, last = 0;
  for (const Pixels& other : others) {
    size_t count = 0, from = 0, to = 0;
    for (size_t i = 0; i < picture.size() && i < other.size(); i++) {
      if (picture[i] == other[i]) continue;
      if (count++ == 0) from = i;
      to = i;
    }
    if (count < fewest) fewest = count, first = from, last = to;
  }
  return absl::StrCat("the closest has ", fewest, " other pixels, from ", first, " to ", last);
}

class WindowTest : public ::testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    const Program& program = GetParam();
    if (!HasProgram(program.sluice.argv[0]))
      GTEST_SKIP() << program.sluice.argv[0] << " is not installed (package vulkan-tools)";
    native_manifest_ = NativeManifest();
    if (native_manifest_.empty()) GTEST_SKIP() << "no lavapipe (package mesa-vulkan-drivers)";
    std::string why;
    screen_ = program.wayland ? Screen::StartWayland(&why) : Screen::StartX11(&why);
    if (screen_ == nullptr) GTEST_SKIP() << why;
    domain_ = Domain::Start(&why);
    ASSERT_NE(domain_, nullptr) << why;
  }
  ProgramRun RunNative(std::map<std::string, std::string> env = {}) {
    env["VK_DRIVER_FILES"] = native_manifest_;
    return screen_->Run(GetParam().native, env);
  }
  ProgramRun RunSluice(std::map<std::string, std::string> env = {}) {
    env["VK_DRIVER_FILES"] = std::string(kBuild) + "/share/vulkan/icd.d/sluice_icd.x86_64.json";
    env["SLUICE_SOCKET"] = domain_->socket();
    return screen_->Run(GetParam().sluice, env);
  }

  std::string native_manifest_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Domain> domain_;
};

TEST_P(WindowTest, EveryPictureIsOneOfTheNativeRuns) {
  const ProgramRun sluice = RunSluice();
  ASSERT_EQ(sluice.status, 0) << sluice.output << domain_->Log();
  EXPECT_GE(sluice.frames.size(), 2u) << "different pictures were seen";
  std::set<Pixels> missing = sluice.frames, seen;
  for (int i = 0; i < kNativeRuns && !missing.empty(); i++) {
    const ProgramRun native = RunNative();
    ASSERT_EQ(native.status, 0) << "natively: " << native.output;
    for (const Pixels& frame : native.frames) missing.erase(frame);
    seen.insert(native.frames.begin(), native.frames.end());
  }
  for (const Pixels& frame : missing) {
    ADD_FAILURE() << "a picture was never seen natively, where " << seen.size() << " were; " << Closest(frame, seen);
  }
}

TEST_P(WindowTest, TheValidationLayerIsQuiet) {
  const auto complains = [](const ProgramRun& run) {
    return run.output.find("VUID") != std::string::npos || run.output.find("UNASSIGNED") != std::string::npos;
  };
  const std::map<std::string, std::string> layer = {{"VK_INSTANCE_LAYERS", kValidation}};
  if (access("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json", R_OK) != 0) {
    GTEST_SKIP() << "no validation layer (package vulkan-validationlayers)";
  }
  const ProgramRun sluice = RunSluice(layer);
  EXPECT_EQ(sluice.status, 0) << sluice.output << domain_->Log();
  if (!complains(sluice)) return;
  const ProgramRun native = RunNative(layer);
  if (complains(native)) GTEST_SKIP() << "natively the layer complains too: " << native.output;
  ADD_FAILURE() << sluice.output;
}

ProgramWindow Frames(std::vector<std::string> argv, const char* count, uint32_t width, uint32_t height) {
  argv.insert(argv.end(), {"--suppress_popups", "--c", count});
  return {std::move(argv), width, height};
}
// `vkcube`, perhaps with arguments, which may make it fast: each frame is turned a little further.
Program Cube(const std::string& name, bool wayland, const std::string& binary, std::vector<std::string> arguments) {
  std::vector<std::string> argv = {binary, "--width", "320", "--height", "240"};
  Program program = {name, wayland, {}, Frames(argv, "160", 320, 240)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  program.sluice = Frames(argv, arguments.empty() ? "40" : "140", 320, 240);
  return program;
}
// Natively, too, vkcubepp finds no queue to present on when it is told a size.
Program CubePp() {
  return {"vkcubepp", false, Frames({"vkcubepp"}, "40", 500, 500), Frames({"vkcubepp"}, "60", 500, 500)};
}

INSTANTIATE_TEST_SUITE_P(Programs, WindowTest,
                         ::testing::Values(Cube("vkcube", false, "vkcube", {}),
                                           Cube("vkcube_mailbox", false, "vkcube", {"--present_mode", "1"}),
                                           Cube("vkcube_immediate", false, "vkcube", {"--present_mode", "0"}),
                                           Cube("vkcube_incremental", false, "vkcube", {"--incremental_present"}),
                                           CubePp(), Cube("vkcube_wayland", true, "vkcube-wayland", {}),
                                           Cube("vkcube_wayland_mailbox", true, "vkcube-wayland",
                                                {"--present_mode", "1"})),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::programs
