// File: offload.h
//
// What the header of a frame from the guest may say (virtio 1.2 section 5.1.6.2): everything in it steers the host
// kernel's network code, so that a back end gets only headers that were checked and made anew.
//
//   SLUICE_ASSIGN_OR_RETURN(FrameHeader clean, CheckHeader(header, frame_bytes, negotiated));
#ifndef SLUICE_DEVICES_NET_OFFLOAD_H_
#define SLUICE_DEVICES_NET_OFFLOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "devices/net/protocol.h"

namespace sluice::net {

// The header to send on: only what `features` (negotiated) permit, unused fields zero. INVALID_ARGUMENT: it asks for an
// offload that was not negotiated, or its offsets lie outside the frame.
absl::StatusOr<FrameHeader> CheckHeader(const FrameHeader& header, uint64_t frame_bytes, uint64_t features);

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_OFFLOAD_H_
