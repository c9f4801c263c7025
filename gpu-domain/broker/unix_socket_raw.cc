#include "gpu-domain/broker/unix_socket_raw.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"

namespace sluice::broker {
namespace {

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path \"", path, "\" must have 1 to ", sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* Generic(const sockaddr_un& address) {
  // SAFETY: the socket interface takes every address family through sockaddr; sun_family says which it is, and the
  // length is passed beside it.
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoToStatus(errno, "socket");
  if (connect(fd.get(), Generic(address), sizeof(address)) != 0) return ErrnoToStatus(errno, path);
  return fd;
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoToStatus(errno, "socket");
  const mode_t mask = umask(0177);
  int bound = bind(fd.get(), Generic(address), sizeof(address));
  if (bound != 0 && errno == EADDRINUSE) {
    struct stat info {};
    if (ConnectUnix(path).ok()) {
      umask(mask);
      return absl::AlreadyExistsError(absl::StrCat(path, ": another process listens there"));
    }
    // Only a socket is ever removed; a file of that name is somebody's.
    if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path.c_str());
    bound = bind(fd.get(), Generic(address), sizeof(address));
  }
  const int error = errno;
  umask(mask);
  if (bound != 0) return ErrnoToStatus(error, path);
  if (listen(fd.get(), SOMAXCONN) != 0) return ErrnoToStatus(errno, absl::StrCat("listen on ", path));
  return fd;
}

}  // namespace sluice::broker
