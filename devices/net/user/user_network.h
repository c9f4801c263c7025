// File: user_network.h
//
// A network for one guest without privilege on the host: the guest's TCP and UDP connections become this process's own
// (libslirp). Frames come and go over a frame socket (../frame_socket.h), whose other end is a virtio-net device.
//
//   UserNetworkConfig config;
//   config.forwards = {{.udp = false, .host = {0x7f000001, 8080}, .guest_port = 80}};
//   SLUICE_ASSIGN_OR_RETURN(auto network, UserNetwork::Create(config, std::move(socket)));
//   SLUICE_RETURN_IF_ERROR(network->Run(-1));      // until the device closes its end
//
// The guest sees, in a /24 network (10.0.2.0 by default): .2 the gateway, .3 the name server, .15 itself, told by DHCP.
// Connections to others leave from the host, as if a program there made them; to the gateway's address they reach the
// host's own 127.0.0.1, where that is permitted. IPv4 only.
//
// One thread. libslirp runs in a process of its own (net_user.h): it reads hostile packets and is written in C.
#ifndef SLUICE_DEVICES_NET_USER_USER_NETWORK_H_
#define SLUICE_DEVICES_NET_USER_USER_NETWORK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/net/user/filter.h"
#include "vmm/base/unique_fd.h"

namespace sluice::net {

// Connections to `host` on the host become connections to the guest's `guest_port`. Address 0: any of the host's.
struct Forward {
  bool udp = false;
  Endpoint host;
  uint16_t guest_port = 0;
  bool operator==(const Forward&) const = default;
};

struct UserNetworkConfig {
  uint32_t network = 0x0a000200;        // 10.0.2.0; the last byte is 0
  std::optional<Endpoint> name_server;  // who answers the guest's queries; nullopt: nobody
  bool host_loopback = false;           // the gateway's address is the host's 127.0.0.1
  bool link_local = false;              // 169.254.0.0/16 may be reached (metadata services)
  bool isolated = false;                // nothing may be reached but DHCP; forwards still work
  uint16_t mtu = 1500;                  // 576..65520
  std::string hostname;                 // told by DHCP; letters, digits, '-', '.'; up to 63; may be empty
  std::vector<Forward> forwards;        // up to kMaxForwards
  bool operator==(const UserNetworkConfig&) const = default;
};
inline constexpr size_t kMaxForwards = 64;

// The first IPv4 name server of a resolv.conf(5), port 53; nullopt: there is none, or no such file.
std::optional<Endpoint> FirstNameServer(const std::string& path = "/etc/resolv.conf");

class UserNetwork {
 public:
  // INVALID_ARGUMENT: an option is out of range; UNAVAILABLE: a forward's host port cannot be listened on (it is
  // named).
  static absl::StatusOr<std::unique_ptr<UserNetwork>> Create(UserNetworkConfig config, UniqueFd frames);
  virtual ~UserNetwork() = default;
  UserNetwork(const UserNetwork&) = delete;
  UserNetwork& operator=(const UserNetwork&) = delete;

  // Serves the guest until its end of the socket is closed or `stop` is readable (-1: never).
  virtual absl::Status Run(int stop) = 0;

 protected:
  UserNetwork() = default;
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_USER_USER_NETWORK_H_
