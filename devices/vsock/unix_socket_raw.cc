#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "devices/vsock/connector.h"
#include "vmm/base/status_macros.h"

namespace sluice::vsock {
namespace {

constexpr int kBacklog = 64;

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("vsock socket ", path, ": the path must have 1 to ", sizeof(address.sun_path) - 1, " characters"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return ErrnoToStatus(errno, "socket");
  return socket;
}

// SAFETY: the sockets API takes every address as a sockaddr; a sockaddr_un begins with the same family field, lives as
// long as the reference, and its own size is what is passed with it.
const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenVsock(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0) {
    if (!S_ISSOCK(facts.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat("vsock socket ", path, ": a file that is no socket is there"));
    }
    if (const auto other = ConnectUnix(path); other.ok() || absl::IsResourceExhausted(other.status())) {
      return absl::AlreadyExistsError(absl::StrCat("vsock socket ", path, ": somebody listens there"));
    }
    unlink(path.c_str());
  }
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  // The mode of a socket file is that of its descriptor at bind.
  if (fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0 || bind(socket.get(), Generic(address), sizeof(address)) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return Annotate(ErrnoToStatus(errno, "bind"), absl::StrCat("vsock socket ", path));
  }
  return socket;
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  if (connect(socket.get(), Generic(address), sizeof(address)) == 0) return socket;
  const int error = errno;
  const absl::Status failed = Annotate(ErrnoToStatus(error, "connect"), absl::StrCat("vsock socket ", path));
  if (error == ENOENT || error == ECONNREFUSED) return absl::NotFoundError(failed.message());
  if (error == EAGAIN) return absl::ResourceExhaustedError(failed.message());
  return failed;
}

}  // namespace sluice::vsock
