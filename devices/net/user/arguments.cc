// The command line of a net-user process, and the notation of forwards.
#include <arpa/inet.h>

#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "devices/net/user/net_user.h"
#include "vmm/base/log.h"

namespace sluice::net {
namespace {

std::string FormatAddress(uint32_t address) {
  return absl::StrFormat("%d.%d.%d.%d", address >> 24, address >> 16 & 0xff, address >> 8 & 0xff, address & 0xff);
}

std::optional<uint32_t> ParseAddress(absl::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::optional<uint16_t> ParsePort(absl::string_view text) {
  uint32_t port = 0;
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) || !absl::SimpleAtoi(text, &port) ||
      port == 0 || port > std::numeric_limits<uint16_t>::max()) {
    return std::nullopt;
  }
  return static_cast<uint16_t>(port);
}

absl::Status BadArgument(absl::string_view argument) {
  return absl::InvalidArgumentError(absl::StrCat("net-user: bad argument '", Printable(argument), "'"));
}

bool ParseFlag(absl::string_view text, bool* value) {
  *value = text == "1";
  return text == "0" || text == "1";
}

}  // namespace

absl::StatusOr<Forward> ParseForward(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  Forward forward;
  const auto bad = [text] {
    return absl::InvalidArgumentError(absl::StrCat("\"", Printable(text),
                                                   "\" is no forward: PROTOCOL:HOST_ADDRESS:HOST_PORT:GUEST_PORT, like "
                                                   "tcp:127.0.0.1:8080:80"));
  };
  if (parts.size() != 4 || (parts[0] != "tcp" && parts[0] != "udp")) return bad();
  const std::optional<uint32_t> address = parts[1].empty() ? 0 : ParseAddress(parts[1]);
  const std::optional<uint16_t> host_port = ParsePort(parts[2]);
  const std::optional<uint16_t> guest_port = ParsePort(parts[3]);
  if (!address.has_value() || !host_port.has_value() || !guest_port.has_value()) return bad();
  forward.udp = parts[0] == "udp";
  forward.host = {*address, *host_port};
  forward.guest_port = *guest_port;
  return forward;
}

std::string FormatForward(const Forward& forward) {
  return absl::StrCat(forward.udp ? "udp:" : "tcp:", FormatAddress(forward.host.address), ":", forward.host.port, ":",
                      forward.guest_port);
}

std::vector<std::string> EncodeNetUserArguments(const UserNetworkConfig& config) {
  std::vector<std::string> arguments = {absl::StrCat("--network=", FormatAddress(config.network)),
                                        absl::StrCat("--host-loopback=", config.host_loopback ? 1 : 0),
                                        absl::StrCat("--link-local=", config.link_local ? 1 : 0),
                                        absl::StrCat("--isolated=", config.isolated ? 1 : 0),
                                        absl::StrCat("--mtu=", config.mtu),
                                        absl::StrCat("--hostname=", config.hostname)};
  if (config.name_server.has_value()) {
    arguments.push_back(
        absl::StrCat("--name-server=", FormatAddress(config.name_server->address), ":", config.name_server->port));
  }
  for (const Forward& forward : config.forwards) {
    arguments.push_back(absl::StrCat("--forward=", FormatForward(forward)));
  }
  return arguments;
}

absl::StatusOr<UserNetworkConfig> DecodeNetUserArguments(const std::vector<absl::string_view>& arguments) {
  UserNetworkConfig config;
  for (const absl::string_view argument : arguments) {
    const size_t equals = argument.find('=');
    if (!absl::StartsWith(argument, "--") || equals == absl::string_view::npos) return BadArgument(argument);
    const absl::string_view key = argument.substr(2, equals - 2);
    const absl::string_view value = argument.substr(equals + 1);
    bool good = true;
    if (key == "network") {
      const std::optional<uint32_t> network = ParseAddress(value);
      good = network.has_value();
      config.network = network.value_or(0);
    } else if (key == "host-loopback") {
      good = ParseFlag(value, &config.host_loopback);
    } else if (key == "link-local") {
      good = ParseFlag(value, &config.link_local);
    } else if (key == "isolated") {
      good = ParseFlag(value, &config.isolated);
    } else if (key == "mtu") {
      const std::optional<uint16_t> mtu = ParsePort(value);
      good = mtu.has_value();
      config.mtu = mtu.value_or(0);
    } else if (key == "hostname") {
      config.hostname = std::string(value);
    } else if (key == "name-server") {
      const std::vector<absl::string_view> parts = absl::StrSplit(value, ':');
      const std::optional<uint32_t> address = ParseAddress(parts[0]);
      const std::optional<uint16_t> port = parts.size() == 2 ? ParsePort(parts[1]) : std::nullopt;
      good = address.has_value() && port.has_value();
      if (good) config.name_server = Endpoint{*address, *port};
    } else if (key == "forward") {
      const absl::StatusOr<Forward> forward = ParseForward(value);
      good = forward.ok();
      if (good) config.forwards.push_back(*forward);
    } else {
      good = false;
    }
    if (!good) return BadArgument(argument);
  }
  return config;
}

}  // namespace sluice::net
