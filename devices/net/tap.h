// File: tap.h
//
// A back end over a Linux tap device with a virtio-net header before each frame, so that checksums and segmentation
// pass between guest and host kernel undone. Opening one needs CAP_NET_ADMIN (or a tap that an administrator gave to
// the user): the supervisor does that; the VM process gets the descriptor.
//
//   // supervisor
//   SLUICE_ASSIGN_OR_RETURN(UniqueFd fd, OpenTap("tap0"));
//   // VM process
//   options.backend = std::make_unique<Tap>(std::move(fd));
//
// See tun(4) in the kernel's Documentation/networking/tuntap.rst. System calls of Tap: read, write,
// ioctl(TUNSETOFFLOAD).
#ifndef SLUICE_DEVICES_NET_TAP_H_
#define SLUICE_DEVICES_NET_TAP_H_

#include <string>
#include <utility>

#include "devices/net/backend.h"
#include "vmm/base/unique_fd.h"

namespace sluice::net {

// Opens or makes the tap device `name` (empty: the kernel picks a free tapN) as Tap wants it. PERMISSION_DENIED: no
// right to; INVALID_ARGUMENT: no interface name; otherwise what /dev/net/tun said.
absl::StatusOr<UniqueFd> OpenTap(const std::string& name);
// Makes a tap descriptor that somebody else opened ready for Tap. INVALID_ARGUMENT: it is none, or was opened without
// IFF_VNET_HDR or with packet information.
absl::Status PrepareTap(int fd);
// The interface's name. INVALID_ARGUMENT: `fd` is no tap.
absl::StatusOr<std::string> TapName(int fd);

class Tap final : public FrameBackend {
 public:
  // `fd` from OpenTap, or after PrepareTap.
  explicit Tap(UniqueFd fd) : fd_(std::move(fd)) {}
  int fd() const override { return fd_.get(); }
  uint64_t offload_features() const override;
  absl::Status SetOffloads(uint64_t guest_offloads) override;
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<uint8_t> buffer) override;
  absl::StatusOr<bool> Send(absl::Span<const uint8_t> header_and_frame) override;

 private:
  UniqueFd fd_;
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_TAP_H_
