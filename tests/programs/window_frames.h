// File: window_frames.h
//
// Runs a program that draws into a window and collects the different pictures that the window shows meanwhile, as the
// window system has them.
//
//   std::unique_ptr<Screen> screen = Screen::StartX11(&why);
//   const ProgramRun run = screen->Run({{"vkcube", "--c", "40"}, 500, 500}, {{"VK_DRIVER_FILES", manifest}});
#ifndef SLUICE_TESTS_PROGRAMS_WINDOW_FRAMES_H_
#define SLUICE_TESTS_PROGRAMS_WINDOW_FRAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sluice::programs {

// 0xffRRGGBB, row by row.
using Pixels = std::vector<uint32_t>;

struct ProgramRun {
  int status = -1;  // waitpid(2)'s; -1: it did not end in time
  std::string output;
  std::set<Pixels> frames;  // windows of one colour do not count
};

struct ProgramWindow {
  std::vector<std::string> argv;
  uint32_t width = 0, height = 0;  // of its window; on Wayland no more than 640x480
};

class Screen {
 public:
  // Null, and why: the window system is not installed or does not start.
  static std::unique_ptr<Screen> StartX11(std::string* why);
  static std::unique_ptr<Screen> StartWayland(std::string* why);
  virtual ~Screen() = default;

  virtual ProgramRun Run(const ProgramWindow& program, std::map<std::string, std::string> env) = 0;
};

}  // namespace sluice::programs

#endif  // SLUICE_TESTS_PROGRAMS_WINDOW_FRAMES_H_
