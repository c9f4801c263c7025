#include "devices/net/user/net_user.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"
#include "vmm/jail/privileges.h"

namespace sluice::net {
namespace {

constexpr int kFramesFd = 3;
// Descriptors that the guest's connections may take; more connections fail.
constexpr uint64_t kMaxOpenFiles = 1024;

absl::Status Serve(const UserNetworkConfig& config) {
  // Ports are bound, and libslirp looks for what it wants of the host, before anything is given up.
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<UserNetwork> network, UserNetwork::Create(config, UniqueFd(kFramesFd)));
  SLUICE_RETURN_IF_ERROR(jail::EmptyRoot::EnterNow().status());
  SLUICE_RETURN_IF_ERROR(jail::DropPrivileges());
  SLUICE_RETURN_IF_ERROR(NetUserSeccompPolicy().Install(jail::SeccompPhase::kRun, jail::SeccompModeFromEnvironment()));
  return network->Run(-1);
}

}  // namespace

jail::SeccompPolicy NetUserSeccompPolicy() {
  using jail::ArgClear;
  using jail::ArgEquals32;
  jail::SeccompPolicy policy("net-user");
  // The guest's connections: Internet sockets, and nothing that is none.
  policy.AllowIf("socket", {ArgEquals32(0, AF_INET)});
  policy.AllowIf("socket", {ArgEquals32(0, AF_INET6)});
  policy.FailWith(EAFNOSUPPORT, {"socketpair"});
  policy.Allow({"connect",    "bind",       "listen",   "accept", "accept4",  "getsockname", "getpeername",
                "getsockopt", "setsockopt", "shutdown", "sendto", "recvfrom", "sendmsg",     "recvmsg",
                "read",       "write",      "readv",    "writev", "close",    "poll",        "ppoll"});
  policy.AllowIf("ioctl", {ArgEquals32(1, FIONREAD)});
  policy.AllowIf("ioctl", {ArgEquals32(1, FIONBIO)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_GETFL)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_SETFL)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_GETFD)});
  policy.AllowIf("fcntl", {ArgEquals32(1, F_SETFD)});
  // Memory, never executable; clocks; what abort() needs.
  policy.AllowIf("mmap", {ArgClear(2, PROT_EXEC)});
  policy.AllowIf("mprotect", {ArgClear(2, PROT_EXEC)});
  policy.Allow({"munmap", "mremap", "madvise", "brk", "futex", "clock_gettime", "gettimeofday", "clock_nanosleep",
                "getrandom", "gettid", "getpid", "rt_sigprocmask", "rt_sigaction", "rt_sigreturn", "restart_syscall"});
  policy.AllowIf("tgkill", {ArgEquals32(0, static_cast<uint32_t>(getpid()))});
  // libslirp looks for resolv.conf, the first log line for the time zone: there are no files.
  policy.FailWith(ENOENT, {"openat", "newfstatat", "stat", "access", "readlink"});
  return policy;
}

absl::StatusOr<jail::ChildProcess> StartNetUser(const std::string& program, const UserNetworkConfig& config,
                                                int frames) {
  jail::SpawnOptions options;
  options.program = program;
  options.arguments = {kNetUserVerb};
  for (std::string& argument : EncodeNetUserArguments(config)) options.arguments.push_back(std::move(argument));
  options.environment = jail::InheritedEnvironment();
  options.fds = {{frames, kFramesFd}};
  options.namespaces = jail::Namespaces::All();
  options.namespaces.net = false;
  options.max_open_files = kMaxOpenFiles;
  return jail::Spawn(options);
}

int NetUserMain(int argc, char** argv) {
  InitLogging("net-user", LogLevel::kWarn);
  const absl::StatusOr<UserNetworkConfig> config =
      DecodeNetUserArguments(std::vector<absl::string_view>(argv, argv + argc));
  int type = 0;
  socklen_t length = sizeof(type);
  if (!config.ok() || getsockopt(kFramesFd, SOL_SOCKET, SO_TYPE, &type, &length) != 0) {
    const std::string why = config.ok() ? "there is no frame socket" : std::string(config.status().message());
    std::fprintf(stderr, "sluice net-user: %s\n", why.c_str());
    return kNetUserUsage;
  }
  const absl::Status served = Serve(*config);
  if (!served.ok()) {
    std::fprintf(stderr, "sluice net-user: %s\n", std::string(served.message()).c_str());
    std::fflush(stderr);
  }
  _exit(served.ok() ? kNetUserOk : kNetUserHost);
}

}  // namespace sluice::net
