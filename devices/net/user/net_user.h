// File: net_user.h
//
// A user-mode network in a process of its own, jailed but for the host's network: what "sluice net-user" does, and how
// a supervisor starts it.
//
//   // supervisor
//   SLUICE_ASSIGN_OR_RETURN(auto pair, CreateFrameSocketPair());
//   UserNetworkConfig config{.name_server = FirstNameServer()};
//   SLUICE_ASSIGN_OR_RETURN(jail::ChildProcess child, StartNetUser("/usr/bin/sluice", config, pair.second.get()));
//   // pair.first goes to the VM process, as its FrameSocket; pair.second is closed here
//
//   // main() of sluice
//   if (argc > 1 && std::strcmp(argv[1], kNetUserVerb) == 0) return NetUserMain(argc - 2, argv + 2);
//
// The process ends when the device's end of the frame socket is closed, and with its parent. It has no file system, no
// capability, and only the system calls that libslirp needs; its own network namespace is the host's.
#ifndef SLUICE_DEVICES_NET_USER_NET_USER_H_
#define SLUICE_DEVICES_NET_USER_NET_USER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "devices/net/user/user_network.h"
#include "vmm/jail/seccomp.h"
#include "vmm/jail/spawn.h"

namespace sluice::net {

inline constexpr char kNetUserVerb[] = "net-user";

// Starts it. `program` understands kNetUserVerb; `frames` stays the caller's. From a thread that lives as long as the
// VM (vmm/jail/spawn.h). What is wrong with the host (a forward's port is taken) shows as kNetUserHost, with a line on
// standard error.
absl::StatusOr<jail::ChildProcess> StartNetUser(const std::string& program, const UserNetworkConfig& config,
                                                int frames);

// Exit codes of the process.
enum NetUserExit : int {
  kNetUserOk = 0,     // the device closed its end
  kNetUserUsage = 2,  // arguments or descriptor make no sense: not started by StartNetUser
  kNetUserHost = 5,   // the host refused something
};

// The body of the process; `argv` after the verb. Leaves with _exit from inside the jail.
int NetUserMain(int argc, char** argv);

// The system calls of the process once it serves the guest.
jail::SeccompPolicy NetUserSeccompPolicy();

// argv for NetUserMain, and back. INVALID_ARGUMENT names the argument.
std::vector<std::string> EncodeNetUserArguments(const UserNetworkConfig& config);
absl::StatusOr<UserNetworkConfig> DecodeNetUserArguments(const std::vector<absl::string_view>& arguments);

// "tcp:127.0.0.1:8080:80" (protocol, host address, host port, guest port); an empty address is any of the host's.
absl::StatusOr<Forward> ParseForward(absl::string_view text);
std::string FormatForward(const Forward& forward);

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_USER_NET_USER_H_
