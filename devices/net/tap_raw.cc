#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "devices/net/protocol.h"
#include "devices/net/tap.h"
#include "vmm/base/status_macros.h"

namespace sluice::net {
namespace {

absl::Status NoTap(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the descriptor is no tap device that Sluice can use: ", what));
}

absl::Status SetTapOffloads(int fd, uint64_t guest_offloads) {
  unsigned int flags = 0;
  // Segmentation implies a checksum left to the receiver (section 5.1.3.1); the kernel wants the same.
  if ((guest_offloads & kFeatureGuestCsum) != 0) {
    flags |= TUN_F_CSUM;
    if ((guest_offloads & kFeatureGuestTso4) != 0) flags |= TUN_F_TSO4;
    if ((guest_offloads & kFeatureGuestTso6) != 0) flags |= TUN_F_TSO6;
    if ((guest_offloads & kFeatureGuestEcn) != 0 && (flags & (TUN_F_TSO4 | TUN_F_TSO6)) != 0) flags |= TUN_F_TSO_ECN;
  }
  // SAFETY: TUNSETOFFLOAD takes a number.
  if (ioctl(fd, TUNSETOFFLOAD, flags) != 0) return ErrnoToStatus(errno, "TUNSETOFFLOAD");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> OpenTap(const std::string& name) {
  if (name.size() >= IFNAMSIZ || name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no interface name (1 to 15 characters)"));
  }
  UniqueFd fd(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Annotate(ErrnoToStatus(errno, "/dev/net/tun"), "tap");
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  // SAFETY: TUNSETIFF reads and writes one ifreq, which lives on this stack; its name is terminated (checked above).
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    return Annotate(ErrnoToStatus(errno, "TUNSETIFF"), absl::StrCat("tap ", name.empty() ? "tap%d" : name));
  }
  SLUICE_RETURN_IF_ERROR(PrepareTap(fd.get()));
  return fd;
}

absl::StatusOr<std::string> TapName(int fd) {
  ifreq request{};
  // SAFETY: TUNGETIFF writes one ifreq, which lives on this stack.
  if (ioctl(fd, TUNGETIFF, &request) != 0) return NoTap("TUNGETIFF fails");
  return std::string(request.ifr_name, strnlen(request.ifr_name, IFNAMSIZ));
}

absl::Status PrepareTap(int fd) {
  ifreq request{};
  // SAFETY: TUNGETIFF writes one ifreq, which lives on this stack.
  if (ioctl(fd, TUNGETIFF, &request) != 0) return NoTap("TUNGETIFF fails");
  const int flags = static_cast<unsigned short>(request.ifr_flags);
  if ((flags & IFF_TAP) == 0) return NoTap("it is a tun device (IFF_TAP is missing)");
  if ((flags & IFF_NO_PI) == 0) return NoTap("it adds packet information (IFF_NO_PI is missing)");
  if ((flags & IFF_VNET_HDR) == 0) return NoTap("it has no virtio-net header (IFF_VNET_HDR is missing)");
  int header = kHeaderBytes;
  // SAFETY: TUNSETVNETHDRSZ reads one int, which lives on this stack.
  if (ioctl(fd, TUNSETVNETHDRSZ, &header) != 0) return ErrnoToStatus(errno, "TUNSETVNETHDRSZ");
  const int mode = fcntl(fd, F_GETFL);
  if (mode < 0 || fcntl(fd, F_SETFL, mode | O_NONBLOCK) != 0) return ErrnoToStatus(errno, "fcntl of a tap");
  // Nothing until a driver asks for it.
  return SetTapOffloads(fd, 0);
}

uint64_t Tap::offload_features() const {
  return kFeatureCsum | kFeatureHostTso4 | kFeatureHostTso6 | kFeatureHostEcn | kFeatureGuestCsum | kFeatureGuestTso4 |
         kFeatureGuestTso6 | kFeatureGuestEcn;
}

absl::Status Tap::SetOffloads(uint64_t guest_offloads) {
  return SetTapOffloads(fd_.get(), guest_offloads);
}

absl::StatusOr<std::optional<size_t>> Tap::Receive(absl::Span<uint8_t> buffer) {
  while (true) {
    const ssize_t size = read(fd_.get(), buffer.data(), buffer.size());
    if (size >= 0) return std::optional<size_t>(static_cast<size_t>(size) <= kHeaderBytes ? 0 : size - kHeaderBytes);
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return std::nullopt;
    // The interface was taken down or deleted (EBADFD).
    return absl::UnavailableError(ErrnoToStatus(errno, "read of the tap device").message());
  }
}

absl::StatusOr<bool> Tap::Send(absl::Span<const uint8_t> header_and_frame) {
  while (write(fd_.get(), header_and_frame.data(), header_and_frame.size()) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    // An interface that is down (EIO) or a frame that the kernel does not like: lost, as on a cable.
    if (errno != EBADFD && errno != EBADF) return true;
    return absl::UnavailableError(ErrnoToStatus(errno, "write to the tap device").message());
  }
  return true;
}

}  // namespace sluice::net
