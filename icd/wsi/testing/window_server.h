// File: window_server.h
//
// Window systems for tests: a real X server (Xvfb) and a real Wayland compositor (Weston, headless), each in a process
// of its own with files of its own, ended with the object.
//
//   std::string why;
//   std::unique_ptr<XServer> server = XServer::Start({}, &why);   // null: not installed, or did not start; says why
#ifndef SLUICE_ICD_WSI_TESTING_WINDOW_SERVER_H_
#define SLUICE_ICD_WSI_TESTING_WINDOW_SERVER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::wsi::testing {

// A program that runs. Killed and reaped with the object.
class ChildProcess {
 public:
  // `env`: added to our own environment. `directory`: where it runs, with its output in `log`; empty: ours. Descriptors
  // without close-on-exec are inherited.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& argv,
                                                             const std::map<std::string, std::string>& env,
                                                             const std::string& directory, const std::string& log);
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // SIGTERM, then SIGKILL; returns when it is gone.
  void Kill();
  // Wait status (waitpid(2)), -1: still running after `seconds`.
  int Wait(int seconds);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

// A directory of our own below the temporary one; removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether PATH has the program.
bool HasProgram(const std::string& name);
std::string ReadText(const std::string& path);

class XServer {
 public:
  // A screen of 800x600 at depth 24. `arguments`: more of Xvfb's.
  static std::unique_ptr<XServer> Start(const std::vector<std::string>& arguments, std::string* why);

  const std::string& display() const { return display_; }  // ":N"
  void Kill() { process_->Kill(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<ChildProcess> process_;
  std::string display_;
};

struct Picture {
  uint32_t width = 0, height = 0;
  std::vector<uint32_t> pixels;
};

class Weston {
 public:
  // A black output of 640x480, without panel or animations. Windows are where it pleases, but wholly on the output.
  static std::unique_ptr<Weston> Start(std::string* why);

  // Path of the socket; what WAYLAND_DISPLAY may hold.
  std::string socket() const { return directory_.path() + "/wayland"; }
  const std::string& directory() const { return directory_.path(); }  // its XDG_RUNTIME_DIR
  void Kill() { process_->Kill(); }
  // What the output shows around its black: 0xffRRGGBB, row by row. False, and why: it cannot be seen.
  bool Screenshot(Picture* picture, std::string* why);

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace sluice::wsi::testing

#endif  // SLUICE_ICD_WSI_TESTING_WINDOW_SERVER_H_
