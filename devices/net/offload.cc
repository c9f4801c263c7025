#include "devices/net/offload.h"

#include "absl/strings/str_cat.h"

namespace sluice::net {
namespace {

constexpr uint64_t kChecksumBytes = 2;

}  // namespace

absl::StatusOr<FrameHeader> CheckHeader(const FrameHeader& header, uint64_t frame_bytes, uint64_t features) {
  FrameHeader clean;
  if ((header.flags & kHeaderNeedsCsum) != 0) {
    if ((features & kFeatureCsum) == 0) {
      return absl::InvalidArgumentError("a frame without checksum, which was not negotiated");
    }
    const uint64_t end = uint64_t{header.csum_start} + header.csum_offset + kChecksumBytes;
    if (header.csum_start < kEthernetHeaderBytes || end > frame_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("checksum at ", header.csum_start, "+", header.csum_offset,
                                                     " of a frame of ", frame_bytes, " bytes"));
    }
    clean.flags = kHeaderNeedsCsum;
    clean.csum_start = header.csum_start;
    clean.csum_offset = header.csum_offset;
  }
  if (header.gso_type == kGsoNone) return clean;

  const bool ecn = (header.gso_type & kGsoEcn) != 0;
  const uint8_t type = header.gso_type & static_cast<uint8_t>(~kGsoEcn);
  const uint64_t wanted = type == kGsoTcp4 ? kFeatureHostTso4 : type == kGsoTcp6 ? kFeatureHostTso6 : 0;
  if (wanted == 0 || (features & wanted) == 0 || (ecn && (features & kFeatureHostEcn) == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("segmentation of type ", header.gso_type, ", which was not negotiated"));
  }
  if (clean.flags == 0 || header.gso_size == 0) {
    return absl::InvalidArgumentError("segmentation without a checksum or a segment size");
  }
  // The headers end in the frame, and not before the TCP header begins.
  if (header.hdr_len > frame_bytes || (header.hdr_len != 0 && header.hdr_len < header.csum_start)) {
    return absl::InvalidArgumentError(
        absl::StrCat("headers of ", header.hdr_len, " bytes in a frame of ", frame_bytes));
  }
  clean.gso_type = header.gso_type;
  clean.gso_size = header.gso_size;
  clean.hdr_len = header.hdr_len;
  return clean;
}

}  // namespace sluice::net
