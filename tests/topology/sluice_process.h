// File: sluice_process.h
//
// Runs the real `sluice` binary of this build, as a user would, and looks at everything that it leaves: exit code,
// output, files, processes.
//
//   SluiceProcess run({"run", "lab.json", "--out", dir});
//   ASSERT_TRUE(run.WaitForLine("web: running", absl::Seconds(60)));
//   run.Signal(SIGINT);
//   EXPECT_EQ(run.Wait(), 1);
#ifndef SLUICE_TESTS_TOPOLOGY_SLUICE_PROCESS_H_
#define SLUICE_TESTS_TOPOLOGY_SLUICE_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "vmm/jail/spawn.h"

namespace sluice::testing {

// A directory under /tmp, removed with all that is in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  const std::string& path() const { return path_; }
  // Writes a file into it and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

std::string ReadText(const std::string& path);

class SluiceProcess {
 public:
  // `before`: words before the program, e.g. {"/usr/bin/unshare", "--user"}.
  explicit SluiceProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& before = {});

  // The exit code; 128 + number for a signal; -1 if it still ran after `timeout` and was killed.
  int Wait(absl::Duration timeout = absl::Minutes(4));
  // True once standard error holds `text`; false if the process ended or the time passed first.
  bool WaitForLine(const std::string& text, absl::Duration timeout);
  void Signal(int number);
  std::string Out() const { return ReadText(files_.path() + "/out"); }
  std::string Err() const { return ReadText(files_.path() + "/err"); }
  // The number after `before` in standard error: Number("worker pid ") -> 4711, or 0.
  pid_t Number(const std::string& before) const;
  // All processes below it now: pid -> start time, so that a reused pid is not mistaken.
  std::map<pid_t, std::string> Descendants() const;

 private:
  bool Ended(absl::Duration timeout);

  TempDir files_;
  jail::ChildProcess child_;
  bool ended_ = false;
  int code_ = -1;
};

// Those of `processes` that are still there after up to `timeout`.
std::vector<pid_t> StillThere(const std::map<pid_t, std::string>& processes, absl::Duration timeout);

}  // namespace sluice::testing

#endif  // SLUICE_TESTS_TOPOLOGY_SLUICE_PROCESS_H_
