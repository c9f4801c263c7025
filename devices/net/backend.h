// File: backend.h
//
// Where a virtio-net device's frames go and come from: a descriptor that an event loop can wait for, and nonblocking
// calls that move one frame each. Implementations: frame_socket.h (Ethernet frames over a socket; needs no privilege),
// tap.h (a Linux tap device with offloads).
//
// A frame is handled with the virtio-net header before it, in one buffer: a back end without offloads skips the header
// of what it sends (the device lets no frame with one through) and leaves a zero header before what it receives.
//
// One thread (the loop's). No call blocks.
#ifndef SLUICE_DEVICES_NET_BACKEND_H_
#define SLUICE_DEVICES_NET_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice::net {

class FrameBackend {
 public:
  virtual ~FrameBackend() = default;

  // Readable: a frame may be there; writable: one may be sent. Constant; the back end owns it.
  virtual int fd() const = 0;
  // Offloads that it can do: of kFeatureCsum, kFeatureHost* (frames to it), kGuestOffloads (frames from it).
  virtual uint64_t offload_features() const { return 0; }
  // What frames from it may carry from now on: a subset of offload_features() & kGuestOffloads.
  virtual absl::Status SetOffloads(uint64_t guest_offloads) { return absl::OkStatus(); }

  // The next frame into `buffer` (header, then frame; kHeaderBytes + kMaxFrameBytes long): the frame's size without the
  // header. 0: a frame that is none (empty, too long) came and is gone. nullopt: there is none now. Error: the other
  // side is gone for good.
  virtual absl::StatusOr<std::optional<size_t>> Receive(absl::Span<uint8_t> buffer) = 0;
  // Sends header and frame. False: it cannot take one now; wait until fd() is writable and try again. True: sent, or
  // dropped as networks do. Error: the other side is gone for good.
  virtual absl::StatusOr<bool> Send(absl::Span<const uint8_t> header_and_frame) = 0;
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_BACKEND_H_
