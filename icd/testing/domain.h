// File: domain.h
//
// A GPU Domain for tests of the driver: a real sluice-domain on a socket in a temporary directory, and the environment
// in which Vulkan programs find Sluice's driver and that domain.
//
//   Domain domain;
//   ASSERT_TRUE(domain.Start());
//   domain.UseHere();            // this process's Vulkan loader loads Sluice from now on
#ifndef SLUICE_ICD_TESTING_DOMAIN_H_
#define SLUICE_ICD_TESTING_DOMAIN_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::icd::testing {

// Paths in the build tree.
std::string DriverPath();
std::string ManifestPath();

class Domain {
 public:
  Domain();
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // More arguments for sluice-domain, and variables for it and its workers.
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;

  // False: it ended, or did not listen within a minute.
  bool Start();
  // In order (SIGTERM), or not at all (SIGKILL, of its workers too).
  void Stop();
  void Kill();
  // Kills one worker: its newest.
  bool KillWorker();

  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/gpu.sock"; }
  pid_t pid() const { return pid_; }
  // The processes that serve connections.
  std::vector<pid_t> Workers() const;
  // Sets SLUICE_SOCKET and VK_DRIVER_FILES of this process.
  void UseHere() const;

 private:
  std::string directory_;
  pid_t pid_ = 0;
};

}  // namespace sluice::icd::testing

#endif  // SLUICE_ICD_TESTING_DOMAIN_H_
