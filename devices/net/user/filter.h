// File: filter.h
//
// What passes between a guest and libslirp, frame by frame, and what is changed on the way:
//  * Frames to 127.0.0.0/8 and 0.0.0.0/8 are dropped: libslirp would connect to the host's own services. Frames to
//    169.254.0.0/16 (metadata services of clouds) are, too, unless permitted.
//  * The virtual network's name server is a real one: addresses of queries and answers are exchanged. (libslirp itself
//    reads /etc/resolv.conf at every query, and its process has no file system.)
//
// Frames are hostile: each offset is checked against the frame. Fragments and options of IPv4 are handled; IPv6 is not
// served at all.
#ifndef SLUICE_DEVICES_NET_USER_FILTER_H_
#define SLUICE_DEVICES_NET_USER_FILTER_H_

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/types/span.h"

namespace sluice::net {

// An IPv4 address, host byte order: 10.0.2.3 is 0x0a000203.
struct Endpoint {
  uint32_t address = 0;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

class FrameFilter {
 public:
  // `virtual_name_server`: where the guest asks (port 53); `name_server`: who answers, nullopt: nobody.
  FrameFilter(uint32_t virtual_name_server, std::optional<Endpoint> name_server, bool link_local);

  // A frame from the guest, changed in place. False: drop it.
  bool FromGuest(absl::Span<uint8_t> frame);
  // A frame to the guest, changed in place.
  void ToGuest(absl::Span<uint8_t> frame);

 private:
  const Endpoint virtual_;
  const std::optional<Endpoint> real_;
  const bool link_local_;
  // Ports of the guest's that asked the virtual server, by protocol: answers of the real one to others (a guest may ask
  // it by its own address) stay as they are.
  std::unique_ptr<std::bitset<65536>> asked_[2];
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_USER_FILTER_H_
