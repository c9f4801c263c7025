// File: host_files.h
//
// The host's /proc, /sys and /dev as the probes see them: below three directories that a test may make itself.
//
//   const HostFiles host;                                  // this host
//   HostFiles fake{.proc = dir + "/proc", .sys = dir + "/sys", .dev = dir + "/dev"};
//   host.Read(host.sys + "/module/kvm_amd/parameters/nested")   // "1", or nullopt
//
// Nothing here waits: only regular files (which those of /proc and /sys are) are read, at most 64 KiB of each.
#ifndef SLUICE_VMM_HOSTCHECK_HOST_FILES_H_
#define SLUICE_VMM_HOSTCHECK_HOST_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::hostcheck {

struct HostFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";

  // A file's text without blanks at its end; nullopt if it cannot be read.
  static std::optional<std::string> Read(const std::string& path);
  // The same as a number: decimal, or hexadecimal after 0x. nullopt also for anything else.
  static std::optional<uint64_t> ReadNumber(const std::string& path);
  // Names in a directory, sorted, at most 4096; empty if there is no such directory.
  static std::vector<std::string> List(const std::string& directory);
  // The last part of what a symbolic link points to ("vfio-pci" for .../drivers/vfio-pci); empty if it is none.
  static std::string LinkName(const std::string& path);
  static bool Exists(const std::string& path);
  // 0 if this process may open the file for reading and writing, else errno. It is opened, and closed at once.
  static int OpenError(const std::string& path);

  // What the field of a "Name:  value" file is, e.g. CapEff of proc + "/self/status"; nullopt if there is none.
  static std::optional<std::string> Field(const std::string& path, const std::string& name);
};

// Whether this process has a capability (capabilities(7)), by proc/self/status.
inline constexpr int kCapNetAdmin = 12;
bool HasCapability(const HostFiles& host, int capability);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_HOST_FILES_H_
