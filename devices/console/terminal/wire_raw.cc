#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devices/console/terminal/wire.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::console {
namespace {

constexpr int kBacklog = 8;

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("console socket ", path, ": the path must have 1 to ",
                                                   sizeof(address.sun_path) - 1, " characters"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoToStatus(errno, "socket");
  return socket;
}

// SAFETY: the sockets API takes every address as a sockaddr; a sockaddr_un begins with the same family field, lives as
// long as the reference, and its own size is what is passed with it.
const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenConsole(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0) {
    if (!S_ISSOCK(facts.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat("console socket ", path, ": a file that is no socket is there"));
    }
    if (ConnectConsole(path).ok()) {
      return absl::AlreadyExistsError(absl::StrCat("console socket ", path, ": somebody listens there"));
    }
    unlink(path.c_str());
  }
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  // The mode of a socket file is that of its descriptor at bind.
  if (fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0 || bind(socket.get(), Generic(address), sizeof(address)) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return Annotate(ErrnoToStatus(errno, "bind"), absl::StrCat("console socket ", path));
  }
  return socket;
}

absl::StatusOr<UniqueFd> ConnectConsole(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  if (connect(socket.get(), Generic(address), sizeof(address)) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) {
      return absl::NotFoundError(absl::StrCat("console socket ", path, ": nobody listens there"));
    }
    return Annotate(ErrnoToStatus(errno, "connect"), absl::StrCat("console socket ", path));
  }
  return socket;
}

absl::Status SendConsolePacket(int socket, PacketKind kind, absl::Span<const uint8_t> payload) {
  std::vector<uint8_t> packet;
  packet.reserve(1 + payload.size());
  packet.push_back(static_cast<uint8_t>(kind));
  packet.insert(packet.end(), payload.begin(), payload.end());
  return SendPacket(socket, packet, {}, /*nonblocking=*/true);
}

}  // namespace sluice::console
