// File: guest.h
//
// The smallest guest that can talk to a user-mode network: makes ARP, DHCP, UDP and TCP frames by hand, and waits for
// frames that a test describes. For tests and the fuzzer.
#ifndef SLUICE_DEVICES_NET_USER_TESTING_GUEST_H_
#define SLUICE_DEVICES_NET_USER_TESTING_GUEST_H_

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "devices/net/frame_socket.h"

namespace sluice::net::testing {

using Frame = std::vector<uint8_t>;

inline constexpr uint32_t kGuestIp = 0x0a00020f;    // 10.0.2.15
inline constexpr uint32_t kGatewayIp = 0x0a000202;  // 10.0.2.2
inline constexpr uint32_t kDnsIp = 0x0a000203;      // 10.0.2.3
inline constexpr uint8_t kTcpFin = 1;
inline constexpr uint8_t kTcpSyn = 2;
inline constexpr uint8_t kTcpReset = 4;
inline constexpr uint8_t kTcpPush = 8;
inline constexpr uint8_t kTcpAck = 16;

inline void Put16(Frame* f, size_t at, uint32_t v) {
  (*f)[at] = static_cast<uint8_t>(v >> 8);
  (*f)[at + 1] = static_cast<uint8_t>(v);
}
inline void Put32(Frame* f, size_t at, uint32_t v) {
  Put16(f, at, v >> 16);
  Put16(f, at + 2, v);
}
inline uint32_t Get16(const Frame& f, size_t at) {
  return at + 2 <= f.size() ? uint32_t{f[at]} << 8 | f[at + 1] : 0;
}
inline uint32_t Get32(const Frame& f, size_t at) {
  return Get16(f, at) << 16 | Get16(f, at + 2);
}
// The Internet checksum's running sum, not complemented.
inline uint32_t Sum(const Frame& f, size_t from, size_t to, uint32_t sum = 0) {
  for (size_t i = from; i < to; i += 2) sum += static_cast<uint32_t>(f[i] << 8) + (i + 1 < to ? f[i + 1] : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}
// That of the transport, pseudo header included: 0xffff when it is right.
inline uint32_t TransportSum(const Frame& f) {
  return Sum(f, 26, f.size(), f[23] + static_cast<uint32_t>(f.size() - 34));
}

// An Ethernet frame with an IPv4 packet without options; the payload's checksum is put at `checksum_at`.
inline Frame IpFrame(uint8_t protocol, uint32_t to, const Frame& payload, size_t checksum_at,
                     uint32_t from = kGuestIp) {
  Frame f(34 + payload.size());
  const uint8_t mac[] = {0x52, 0x55, 10, 0, 2, 2, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x08, 0x00};
  std::copy(std::begin(mac), std::end(mac), f.begin());
  if (to == 0xffffffff) std::fill_n(f.begin(), 6, uint8_t{0xff});
  f[14] = 0x45;
  Put16(&f, 16, static_cast<uint32_t>(20 + payload.size()));
  f[22] = 64;
  f[23] = protocol;
  Put32(&f, 26, from);
  Put32(&f, 30, to);
  Put16(&f, 24, ~Sum(f, 14, 34));
  std::copy(payload.begin(), payload.end(), f.begin() + 34);
  Put16(&f, 34 + checksum_at, ~TransportSum(f));
  return f;
}

inline Frame UdpFrame(uint32_t to, uint32_t from_port, uint32_t to_port, absl::string_view data,
                      uint32_t from = kGuestIp) {
  Frame p(8 + data.size());
  Put16(&p, 0, from_port);
  Put16(&p, 2, to_port);
  Put16(&p, 4, static_cast<uint32_t>(8 + data.size()));
  std::copy(data.begin(), data.end(), p.begin() + 8);
  return IpFrame(17, to, p, 6, from);
}

inline Frame TcpFrame(uint32_t to, uint32_t from_port, uint32_t to_port, uint8_t flags, uint32_t sequence,
                      uint32_t acknowledged, absl::string_view data = "") {
  Frame p(20 + data.size());
  Put16(&p, 0, from_port);
  Put16(&p, 2, to_port);
  Put32(&p, 4, sequence);
  Put32(&p, 8, acknowledged);
  p[12] = 0x50;
  p[13] = flags;
  Put16(&p, 14, 32768);
  std::copy(data.begin(), data.end(), p.begin() + 20);
  return IpFrame(6, to, p, 16);
}

inline Frame ArpRequest(uint32_t target) {
  Frame f(42);
  const uint8_t head[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0,    0x12, 0x34, 0x56, 0x08, 0x06,
                          0,    1,    8,    0,    6,    4,    0,    1,    0x52, 0x54, 0,    0x12, 0x34, 0x56};
  std::copy(std::begin(head), std::end(head), f.begin());
  Put32(&f, 28, kGuestIp);
  Put32(&f, 38, target);
  return f;
}
// The answer to a request for the guest's address.
inline Frame ArpReply(const Frame& request) {
  Frame f = ArpRequest(Get32(request, 28));
  std::copy_n(request.begin() + 6, 6, f.begin());
  Put16(&f, 20, 2);
  std::copy_n(request.begin() + 22, 6, f.begin() + 32);
  return f;
}
inline bool IsArp(const Frame& f, uint32_t operation) {
  return f.size() >= 42 && Get16(f, 12) == 0x0806 && Get16(f, 20) == operation;
}
inline bool IsIp(const Frame& f, uint8_t protocol, uint32_t from, uint32_t from_port) {
  return f.size() >= 42 && Get16(f, 12) == 0x0800 && f[23] == protocol && Get32(f, 26) == from &&
         Get16(f, 34) == from_port;
}

// A guest's end of a frame socket.
class Guest {
 public:
  explicit Guest(int socket) : socket_(socket) {}
  void Send(const Frame& frame) { SendFrame(socket_, frame).status().IgnoreError(); }
  // The next frame for which `is` holds; empty: none came in `patience`. Answers ARP requests meanwhile.
  Frame Wait(const std::function<bool(const Frame&)>& is,
             std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < deadline) {
      Frame frame(65536);
      const auto size = ReceiveFrame(socket_, absl::MakeSpan(frame));
      if (!size.ok()) return {};
      if (!size->has_value()) {
        pollfd readable{socket_, POLLIN, 0};
        poll(&readable, 1, 20);
        continue;
      }
      frame.resize(**size);
      if (IsArp(frame, 1)) Send(ArpReply(frame));
      if (is(frame)) return frame;
    }
    return {};
  }

 private:
  const int socket_;
};

}  // namespace sluice::net::testing

#endif  // SLUICE_DEVICES_NET_USER_TESTING_GUEST_H_
