#include "vmm/hostcheck/net_probe.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice::hostcheck {
namespace {

constexpr uint64_t kIffTap = 0x0002;  // <linux/if_tun.h>

// Tap interfaces that a user may open: those with that owner. (One without an owner is for CAP_NET_ADMIN alone.)
std::vector<std::string> TapsOf(const HostFiles& host, uid_t uid) {
  std::vector<std::string> names;
  for (const std::string& name : HostFiles::List(host.sys + "/class/net")) {
    const std::string path = absl::StrCat(host.sys, "/class/net/", name, "/");
    const auto flags = HostFiles::ReadNumber(path + "tun_flags");
    const auto owner = HostFiles::ReadNumber(path + "owner");  // -1, no number, if there is none
    if (flags.has_value() && (*flags & kIffTap) != 0 && owner == uint64_t{uid}) names.push_back(name);
  }
  return names;
}

}  // namespace

Finding ProbeTap(const HostFiles& host, uid_t uid) {
  const std::string device = host.dev + "/net/tun";
  const int error = HostFiles::OpenError(device);
  if (error == ENOENT || error == ENODEV || error == ENXIO) {
    return Note("tap", absl::StrCat("no ", device), "VMs cannot be connected to the host's network by a tap interface",
                "As root: modprobe tun (in a container: pass the device in)");
  }
  if (error != 0) {
    return Note("tap", absl::StrCat(device, ": ", std::strerror(error)),
                "VMs of this user cannot be connected to the host's network by a tap interface",
                absl::StrCat("As root: chmod 666 ", device, " (its usual mode)"));
  }
  if (HasCapability(host, kCapNetAdmin)) {
    return Ok("tap", absl::StrCat(device, " is there, and this process has CAP_NET_ADMIN"),
              "it may make tap interfaces");
  }
  const std::vector<std::string> own = TapsOf(host, uid);
  if (!own.empty()) {
    return Ok("tap", absl::StrCat("this user has ", absl::StrJoin(own, ", ")),
              "VMs may use that, and no new ones are made");
  }
  return Note("tap",
              absl::StrCat(device, " is there, but this process has neither CAP_NET_ADMIN nor a tap of its user"),
              "VMs of this user cannot be connected to the host's network by a tap interface",
              absl::StrCat("As root: ip tuntap add dev tap0 mode tap user ", uid, " && ip link set tap0 up"));
}

}  // namespace sluice::hostcheck
