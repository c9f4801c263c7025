#include "icd/wsi/testing/window_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <png.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"

namespace sluice::wsi::testing {
namespace {

constexpr int kStartSeconds = 60;

void Pause() {
  const timespec moment = {0, 10'000'000};
  nanosleep(&moment, nullptr);
}

bool ReadPng(const std::string& path, Picture* picture) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) return false;
  image.format = PNG_FORMAT_BGRA;
  picture->width = image.width;
  picture->height = image.height;
  picture->pixels.resize(size_t{image.width} * image.height);
  if (png_image_finish_read(&image, nullptr, picture->pixels.data(), 0, nullptr) == 0) return false;
  for (uint32_t& pixel : picture->pixels) pixel |= 0xff000000;
  return true;
}

// The smallest part that has all pixels which are not black.
Picture CutOut(const Picture& from) {
  uint32_t left = from.width, right = 0, top = from.height, bottom = 0;
  for (uint32_t y = 0; y < from.height; y++) {
    for (uint32_t x = 0; x < from.width; x++) {
      if (from.pixels[size_t{y} * from.width + x] == 0xff000000) continue;
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
    }
  }
  Picture part;
  if (left >= right) return part;
  part.width = right - left;
  part.height = bottom - top;
  for (uint32_t y = top; y < bottom; y++) {
    const auto row = from.pixels.begin() + static_cast<ptrdiff_t>(size_t{y} * from.width);
    part.pixels.insert(part.pixels.end(), row + left, row + right);
  }
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& argv,
                                                                  const std::map<std::string, std::string>& env,
                                                                  const std::string& directory,
                                                                  const std::string& log) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; variable++) {
    const std::string name(*variable, strcspn(*variable, "="));
    if (!env.contains(name)) variables.emplace_back(*variable);
  }
  for (const auto& [name, value] : env) variables.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> arguments, environment;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  arguments.push_back(nullptr);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!directory.empty()) posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  if (!log.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoToStatus(error, argv[0]);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid));
}

int ChildProcess::Wait(int seconds) {
  int status = 0;
  for (int i = 0;; i++) {
    if (pid_ < 0 || waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return status;
    }
    if (i >= seconds * 100) return -1;
    Pause();
  }
}

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  if (Wait(10) == -1) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

TemporaryDirectory::TemporaryDirectory() {
  std::string path = std::filesystem::temp_directory_path().string() + "/sluice-wsi-XXXXXX";
  path_ = mkdtemp(path.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

bool HasProgram(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "");
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (access(absl::StrCat(directory, "/", name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<XServer> XServer::Start(const std::vector<std::string>& arguments, std::string* why) {
  if (!HasProgram("Xvfb")) {
    *why = "Xvfb is not installed (package xvfb)";
    return nullptr;
  }
  auto server = std::make_unique<XServer>();
  int ends[2];
  if (pipe(ends) != 0) {
    *why = "pipe";
    return nullptr;
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  fcntl(read_end.get(), F_SETFD, FD_CLOEXEC);
  std::vector<std::string> argv = {
      "Xvfb", "-displayfd", std::to_string(write_end.get()), "-screen", "0", "800x600x24", "-noreset", "-ac"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string log = server->directory_.path() + "/log";
  auto process = ChildProcess::Start(argv, {}, "", log);
  write_end.Reset();
  if (!process.ok()) {
    *why = std::string(process.status().message());
    return nullptr;
  }
  server->process_ = *std::move(process);
  // The server writes its display number when it listens.
  std::string number;
  pollfd fd = {read_end.get(), POLLIN, 0};
  char byte = 0;
  while (poll(&fd, 1, kStartSeconds * 1000) == 1 && read(read_end.get(), &byte, 1) == 1 && byte != '\n') number += byte;
  if (number.empty() || byte != '\n') {
    *why = absl::StrCat("Xvfb did not start:\n", ReadText(log));
    return nullptr;
  }
  server->display_ = absl::StrCat(":", number);
  return server;
}

std::unique_ptr<Weston> Weston::Start(std::string* why) {
  if (!HasProgram("weston")) {
    *why = "Weston is not installed (package weston)";
    return nullptr;
  }
  auto weston = std::make_unique<Weston>();
  const std::string& directory = weston->directory_.path();
  const std::string log = directory + "/log";
  const std::string settings = directory + "/weston.ini";
  std::ofstream(settings) << "[shell]\npanel-position=none\nbackground-color=0xff000000\nanimation=none\n"
                             "startup-animation=none\nclose-animation=none\nfocus-animation=none\nlocking=false\n";
  auto process = ChildProcess::Start(
      {"weston", "--backend=headless-backend.so", "--use-pixman", "--socket=wayland", "--idle-time=0",
       "--config=" + settings, "--shell=desktop-shell.so", "--width=640", "--height=480", "--debug"},
      {{"XDG_RUNTIME_DIR", directory}}, directory, log);
  if (!process.ok()) {
    *why = std::string(process.status().message());
    return nullptr;
  }
  weston->process_ = *std::move(process);
  for (int i = 0; i < kStartSeconds * 100 && access(weston->socket().c_str(), F_OK) != 0; i++) {
    if (weston->process_->Wait(0) != -1) break;
    Pause();
  }
  if (access(weston->socket().c_str(), F_OK) != 0) {
    *why = absl::StrCat("Weston did not start:\n", ReadText(log));
    return nullptr;
  }
  return weston;
}

bool Weston::Screenshot(Picture* picture, std::string* why) {
  const TemporaryDirectory directory;
  const std::string log = directory_.path() + "/screenshot-log";
  auto process = ChildProcess::Start({"weston-screenshooter"},
                                     {{"XDG_RUNTIME_DIR", directory_.path()}, {"WAYLAND_DISPLAY", "wayland"}},
                                     directory.path(), log);
  if (!process.ok()) {
    *why = std::string(process.status().message());
    return false;
  }
  if ((*process)->Wait(kStartSeconds) == 0) {
    for (const auto& file : std::filesystem::directory_iterator(directory.path())) {
      Picture whole;
      if (!ReadPng(file.path().string(), &whole)) break;
      *picture = CutOut(whole);
      return true;
    }
  }
  *why = absl::StrCat("weston-screenshooter made no picture:\n", ReadText(log));
  return false;
}

}  // namespace sluice::wsi::testing
