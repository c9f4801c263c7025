// File: unix_socket_raw.h
//
// Unix sockets with a path: the address casts that the socket interface asks for, in one place.
#ifndef SLUICE_GPU_DOMAIN_BROKER_UNIX_SOCKET_RAW_H_
#define SLUICE_GPU_DOMAIN_BROKER_UNIX_SOCKET_RAW_H_

#include <string>

#include "absl/status/statusor.h"
#include "vmm/base/unique_fd.h"

namespace sluice::broker {

// A listening SOCK_SEQPACKET socket bound to `path`, mode 0600, nonblocking. Errors: INVALID_ARGUMENT: the path is too
// long; ALREADY_EXISTS: somebody listens there; from bind(2) with the path.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path);
// Connects to such a socket. Errors: from connect(2) with the path.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_UNIX_SOCKET_RAW_H_
