#include "devices/net/user/filter.h"

namespace sluice::net {
namespace {

constexpr size_t kIpAt = 14;
constexpr size_t kMinIpBytes = 20;
constexpr uint16_t kEtherIp4 = 0x0800;
constexpr uint8_t kProtocolTcp = 6;
constexpr uint8_t kProtocolUdp = 17;
constexpr uint16_t kDnsPort = 53;
constexpr uint16_t kFragmentOffset = 0x1fff;

uint16_t Get16(absl::Span<const uint8_t> bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}
uint32_t Get32(absl::Span<const uint8_t> bytes, size_t at) {
  return uint32_t{Get16(bytes, at)} << 16 | Get16(bytes, at + 2);
}
void Put16(absl::Span<uint8_t> bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

// A checksum after one 16-bit word of what it covers has changed (RFC 1624, equation 3).
uint16_t Adjusted(uint16_t checksum, uint16_t before, uint16_t after) {
  uint32_t sum = static_cast<uint16_t>(~checksum) + uint32_t{static_cast<uint16_t>(~before)} + after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// An IPv4 packet in a frame, with the ports of a first fragment; offsets were checked.
struct Ip4 {
  uint8_t protocol = 0;
  uint32_t source = 0;
  uint32_t destination = 0;
  size_t transport_at = 0;  // 0: no ports and checksum to be seen
  size_t checksum_at = 0;
};

std::optional<Ip4> ParseIp4(absl::Span<const uint8_t> frame) {
  if (frame.size() < kIpAt + kMinIpBytes || Get16(frame, 12) != kEtherIp4) return std::nullopt;
  const size_t header = (frame[kIpAt] & 0x0f) * size_t{4};
  if (frame[kIpAt] >> 4 != 4 || header < kMinIpBytes || frame.size() < kIpAt + header) return std::nullopt;
  Ip4 ip;
  ip.protocol = frame[kIpAt + 9];
  ip.source = Get32(frame, kIpAt + 12);
  ip.destination = Get32(frame, kIpAt + 16);
  const size_t checksum = ip.protocol == kProtocolTcp ? 16 : 6;
  if ((ip.protocol == kProtocolTcp || ip.protocol == kProtocolUdp) &&
      (Get16(frame, kIpAt + 6) & kFragmentOffset) == 0 && frame.size() >= kIpAt + header + checksum + 2) {
    ip.transport_at = kIpAt + header;
    ip.checksum_at = ip.transport_at + checksum;
  }
  return ip;
}

// Replaces one word that the transport's checksum covers, and if `in_header` that of the IP header too.
void Replace(absl::Span<uint8_t> frame, const Ip4& ip, size_t at, uint16_t after, bool in_header) {
  const uint16_t before = Get16(frame, at);
  Put16(frame, at, after);
  if (in_header) Put16(frame, kIpAt + 10, Adjusted(Get16(frame, kIpAt + 10), before, after));
  const uint16_t checksum = Get16(frame, ip.checksum_at);
  const bool udp = ip.protocol == kProtocolUdp;
  if (udp && checksum == 0) return;  // none was made
  const uint16_t adjusted = Adjusted(checksum, before, after);
  Put16(frame, ip.checksum_at, udp && adjusted == 0 ? 0xffff : adjusted);
}

void ReplaceEndpoint(absl::Span<uint8_t> frame, const Ip4& ip, bool source, const Endpoint& to) {
  const size_t address_at = kIpAt + (source ? 12 : 16);
  Replace(frame, ip, address_at, static_cast<uint16_t>(to.address >> 16), true);
  Replace(frame, ip, address_at + 2, static_cast<uint16_t>(to.address), true);
  Replace(frame, ip, ip.transport_at + (source ? 0 : 2), to.port, false);
}

size_t Index(const Ip4& ip) {
  return ip.protocol == kProtocolUdp ? 1 : 0;
}

}  // namespace

FrameFilter::FrameFilter(uint32_t virtual_name_server, std::optional<Endpoint> name_server, bool link_local)
    : virtual_{virtual_name_server, kDnsPort}, real_(name_server), link_local_(link_local) {
  for (auto& ports : asked_) ports = std::make_unique<std::bitset<65536>>();
}

bool FrameFilter::FromGuest(absl::Span<uint8_t> frame) {
  const std::optional<Ip4> ip = ParseIp4(frame);
  if (!ip.has_value()) return true;
  const uint32_t network = ip->destination >> 24;
  if (network == 127 || network == 0) return false;
  if (!link_local_ && ip->destination >> 16 == 0xa9fe) return false;
  if (ip->destination == virtual_.address && ip->transport_at != 0 &&
      Get16(frame, ip->transport_at + 2) == virtual_.port) {
    if (!real_.has_value()) return false;
    asked_[Index(*ip)]->set(Get16(frame, ip->transport_at));
    ReplaceEndpoint(frame, *ip, /*source=*/false, *real_);
  }
  return true;
}

void FrameFilter::ToGuest(absl::Span<uint8_t> frame) {
  if (!real_.has_value()) return;
  const std::optional<Ip4> ip = ParseIp4(frame);
  if (!ip.has_value() || ip->transport_at == 0) return;
  if (Endpoint{ip->source, Get16(frame, ip->transport_at)} == *real_ &&
      asked_[Index(*ip)]->test(Get16(frame, ip->transport_at + 2))) {
    ReplaceEndpoint(frame, *ip, /*source=*/true, virtual_);
  }
}

}  // namespace sluice::net
