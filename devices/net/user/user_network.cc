#include "devices/net/user/user_network.h"

#include <arpa/inet.h>
#include <libslirp.h>
#include <netinet/in.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <list>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "devices/net/frame_socket.h"
#include "devices/net/protocol.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::net {
namespace {

constexpr uint32_t kGateway = 2;
constexpr uint32_t kNameServer = 3;
constexpr uint32_t kFirstGuest = 15;
constexpr uint16_t kMinMtu = 576;
constexpr uint16_t kMaxMtu = 65520;
constexpr size_t kMaxHostname = 63;
constexpr uint16_t kDnsPort = 53;
// Frames of the guest handled before its connections get a turn.
constexpr int kFramesPerTurn = 64;

in_addr Address(uint32_t host_order) {
  return in_addr{htonl(host_order)};
}

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

absl::Status CheckConfig(const UserNetworkConfig& config) {
  if ((config.network & 0xff) != 0 || config.network >> 24 == 0 || config.network >> 24 == 127 ||
      config.network >> 28 >= 14) {
    return absl::InvalidArgumentError("user network: the network must be a /24 of single stations, like 10.0.2.0");
  }
  if (config.mtu < kMinMtu || config.mtu > kMaxMtu) {
    return absl::InvalidArgumentError(absl::StrCat("user network: MTU ", config.mtu, " is not in 576..65520"));
  }
  const auto fits = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.'; };
  if (config.hostname.size() > kMaxHostname || !std::all_of(config.hostname.begin(), config.hostname.end(), fits)) {
    return absl::InvalidArgumentError(
        absl::StrCat("user network: \"", Printable(config.hostname), "\" is no host name of up to 63 characters"));
  }
  if (config.forwards.size() > kMaxForwards) {
    return absl::InvalidArgumentError(
        absl::StrCat("user network: ", config.forwards.size(), " forwards; ", kMaxForwards, " are the most"));
  }
  for (const Forward& forward : config.forwards) {
    if (forward.host.port == 0 || forward.guest_port == 0) {
      return absl::InvalidArgumentError("user network: a forward from or to port 0");
    }
  }
  return absl::OkStatus();
}

class SlirpNetwork final : public UserNetwork {
 public:
  SlirpNetwork(UserNetworkConfig config, UniqueFd frames)
      : config_(std::move(config)),
        frames_(std::move(frames)),
        filter_(config_.network + kNameServer, config_.name_server, config_.link_local),
        buffer_(kMaxFrameBytes) {}
  ~SlirpNetwork() override {
    if (slirp_ != nullptr) slirp_cleanup(slirp_);
  }

  absl::Status Start() {
    SlirpConfig slirp{};
    slirp.version = 3;
    slirp.restricted = config_.isolated ? 1 : 0;
    slirp.in_enabled = true;
    slirp.vnetwork = Address(config_.network);
    slirp.vnetmask = Address(0xffffff00);
    slirp.vhost = Address(config_.network + kGateway);
    slirp.vdhcp_start = Address(config_.network + kFirstGuest);
    slirp.vnameserver = Address(config_.network + kNameServer);
    slirp.vhostname = config_.hostname.empty() ? nullptr : config_.hostname.c_str();
    slirp.if_mtu = config_.mtu;
    slirp.if_mru = config_.mtu;
    slirp.disable_host_loopback = !config_.host_loopback;
    slirp_ = slirp_new(&slirp, &kCallbacks, this);
    if (slirp_ == nullptr) return absl::InternalError("user network: libslirp does not start");
    for (const Forward& forward : config_.forwards) {
      if (slirp_add_hostfwd(slirp_, forward.udp ? 1 : 0, Address(forward.host.address), forward.host.port,
                            Address(config_.network + kFirstGuest), forward.guest_port) != 0) {
        return absl::UnavailableError(absl::StrCat("user network: cannot listen on ", forward.udp ? "UDP" : "TCP",
                                                   " port ", forward.host.port,
                                                   " of the host: ", ErrnoToStatus(errno, "bind").message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Run(int stop) override {
    bool open = true;
    while (open) {
      polled_.clear();
      polled_.push_back({frames_.get(), POLLIN, 0});
      polled_.push_back({stop, POLLIN, 0});
      uint32_t timeout = UINT32_MAX;
      slirp_pollfds_fill(slirp_, &timeout, &AddPoll, this);
      const int ready = poll(polled_.data(), polled_.size(), PollTimeout(timeout));
      if (ready < 0 && errno != EINTR) return ErrnoToStatus(errno, "poll");
      slirp_pollfds_poll(slirp_, ready < 0 ? 1 : 0, &GetEvents, this);
      RunTimers();
      if (ready < 0) continue;
      if (polled_[1].revents != 0) break;
      if (polled_[0].revents != 0) open = TakeFrames();
    }
    return absl::OkStatus();
  }

 private:
  struct Timer {
    SlirpTimerCb callback;
    void* opaque;
    int64_t due_ms = -1;  // CLOCK_MONOTONIC; -1: not set
  };

  // False: the device is gone.
  bool TakeFrames() {
    for (int i = 0; i < kFramesPerTurn; ++i) {
      const absl::StatusOr<std::optional<size_t>> size = ReceiveFrame(frames_.get(), absl::MakeSpan(buffer_));
      if (!size.ok()) return false;
      if (!size->has_value()) break;
      const auto frame = absl::MakeSpan(buffer_).subspan(0, **size);
      if (frame.size() < kEthernetHeaderBytes || frame.size() > LongestFrame() || !filter_.FromGuest(frame)) continue;
      slirp_input(slirp_, frame.data(), static_cast<int>(frame.size()));
    }
    return true;
  }
  size_t LongestFrame() const { return config_.mtu + kEthernetHeaderBytes + kVlanTagBytes; }

  int PollTimeout(uint32_t timeout) const {
    int64_t wait = timeout == UINT32_MAX ? -1 : timeout;
    const int64_t now = NowNs() / 1'000'000;
    for (const Timer& timer : timers_) {
      if (timer.due_ms < 0) continue;
      const int64_t left = std::max<int64_t>(timer.due_ms - now, 0);
      if (wait < 0 || left < wait) wait = left;
    }
    return static_cast<int>(std::min<int64_t>(wait, INT32_MAX));
  }

  void RunTimers() {
    const int64_t now = NowNs() / 1'000'000;
    for (Timer& timer : timers_) {
      if (timer.due_ms < 0 || timer.due_ms > now) continue;
      timer.due_ms = -1;
      timer.callback(timer.opaque);
    }
  }

  static SlirpNetwork& Self(void* opaque) { return *static_cast<SlirpNetwork*>(opaque); }

  static ssize_t SendPacket(const void* bytes, size_t size, void* opaque) {
    SlirpNetwork& self = Self(opaque);
    const auto* const first = static_cast<const uint8_t*>(bytes);
    self.out_.assign(first, first + size);
    self.filter_.ToGuest(absl::MakeSpan(self.out_));
    // A guest that does not keep up loses frames, as on any network; one that is gone shows in TakeFrames.
    SendFrame(self.frames_.get(), self.out_).status().IgnoreError();
    return static_cast<ssize_t>(size);
  }
  static void GuestError(const char* message, void* opaque) { SLUICE_LOG_GUEST(warn, "user network: {}", message); }
  static int64_t ClockNs(void* opaque) { return NowNs(); }
  static void* NewTimer(SlirpTimerCb callback, void* timer_opaque, void* opaque) {
    return &Self(opaque).timers_.emplace_back(Timer{callback, timer_opaque});
  }
  static void FreeTimer(void* timer, void* opaque) {
    Self(opaque).timers_.remove_if([timer](const Timer& t) { return &t == timer; });
  }
  static void SetTimer(void* timer, int64_t due_ms, void* opaque) { static_cast<Timer*>(timer)->due_ms = due_ms; }
  static void RegisterPoll(int fd, void* opaque) {}
  static void UnregisterPoll(int fd, void* opaque) {}
  static void Notify(void* opaque) {}

  static int AddPoll(int fd, int events, void* opaque) {
    short wanted = 0;
    if ((events & SLIRP_POLL_IN) != 0) wanted |= POLLIN;
    if ((events & SLIRP_POLL_OUT) != 0) wanted |= POLLOUT;
    if ((events & SLIRP_POLL_PRI) != 0) wanted |= POLLPRI;
    std::vector<pollfd>& polled = Self(opaque).polled_;
    polled.push_back({fd, wanted, 0});
    return static_cast<int>(polled.size()) - 1;
  }
  static int GetEvents(int index, void* opaque) {
    const short happened = Self(opaque).polled_[static_cast<size_t>(index)].revents;
    int events = 0;
    if ((happened & POLLIN) != 0) events |= SLIRP_POLL_IN;
    if ((happened & POLLOUT) != 0) events |= SLIRP_POLL_OUT;
    if ((happened & POLLPRI) != 0) events |= SLIRP_POLL_PRI;
    if ((happened & POLLERR) != 0) events |= SLIRP_POLL_ERR;
    if ((happened & POLLHUP) != 0) events |= SLIRP_POLL_HUP;
    return events;
  }

  static constexpr SlirpCb kCallbacks = {
      .send_packet = &SendPacket,
      .guest_error = &GuestError,
      .clock_get_ns = &ClockNs,
      .timer_new = &NewTimer,
      .timer_free = &FreeTimer,
      .timer_mod = &SetTimer,
      .register_poll_fd = &RegisterPoll,
      .unregister_poll_fd = &UnregisterPoll,
      .notify = &Notify,
      .init_completed = nullptr,
      .timer_new_opaque = nullptr,
  };

  const UserNetworkConfig config_;
  const UniqueFd frames_;
  FrameFilter filter_;
  std::vector<uint8_t> buffer_;
  std::vector<uint8_t> out_;
  std::vector<pollfd> polled_;
  std::list<Timer> timers_;
  Slirp* slirp_ = nullptr;
};

}  // namespace

std::optional<Endpoint> FirstNameServer(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::string value;
    in_addr address{};
    if (words >> key >> value && key == "nameserver" && inet_pton(AF_INET, value.c_str(), &address) == 1) {
      return Endpoint{ntohl(address.s_addr), kDnsPort};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<UserNetwork>> UserNetwork::Create(UserNetworkConfig config, UniqueFd frames) {
  SLUICE_RETURN_IF_ERROR(CheckConfig(config));
  if (!frames.valid()) return absl::InvalidArgumentError("user network: needs a frame socket");
  auto network = std::make_unique<SlirpNetwork>(std::move(config), std::move(frames));
  SLUICE_RETURN_IF_ERROR(network->Start());
  return network;
}

}  // namespace sluice::net
