#include "devices/block/request.h"

#include <algorithm>

#include "devices/block/guest_pieces.h"
#include "vmm/base/checked.h"

namespace sluice::block {
namespace {

using Decoded = std::variant<Answer, IoRequest>;

Answer Refuse(uint8_t status) {
  return {.status = status, .data = {}};
}

// Counts the pieces in which [offset, offset + bytes) of `segments` lies. False: a limit is exceeded.
bool WithinLimits(absl::Span<const virtio::Segment> segments, uint64_t offset, uint64_t bytes,
                  const RequestRules& rules) {
  uint32_t count = 0;
  for (const virtio::Segment& segment : segments) {
    if (bytes == 0) break;
    if (offset >= segment.size) {
      offset -= segment.size;
      continue;
    }
    const uint64_t piece = std::min<uint64_t>(bytes, segment.size - offset);
    if (piece > rules.segment_bytes || ++count > rules.segments) return false;
    bytes -= piece;
    offset = 0;
  }
  return true;
}

Decoded DecodeTransfer(const virtio::DescriptorChain& chain, const memory::GuestMemory& memory,
                       const RequestRules& rules, const RequestHeader& header) {
  const bool write = header.type == kTypeOut;
  if (write && rules.read_only) return Refuse(kStatusIoError);
  const uint64_t skip = write ? sizeof(RequestHeader) : 0;
  const uint64_t bytes = write ? chain.ReadableSize() - skip : chain.WritableSize() - 1;
  const absl::Span<const virtio::Segment> segments = write ? chain.readable() : chain.writable();
  if (bytes % kSectorBytes != 0 || !RangeFits(header.sector, bytes / kSectorBytes, rules.sectors) ||
      !WithinLimits(segments, skip, bytes, rules)) {
    return Refuse(kStatusIoError);
  }
  if (bytes == 0) return Answer();
  IoRequest request;
  request.kind = write ? IoKind::kWrite : IoKind::kRead;
  request.durable = write && rules.durable;
  request.offset = header.sector << kSectorShift;  // below capacity, which is bytes of a file: cannot wrap
  request.pieces.reserve(segments.size());
  if (!AppendPieces(memory, segments, skip, bytes, &request.pieces)) return Refuse(kStatusIoError);
  request.memory = memory;
  return request;
}

Decoded DecodeRanges(const virtio::DescriptorChain& chain, const RequestRules& rules, const RequestHeader& header) {
  const bool discard = header.type == kTypeDiscard;
  if (discard ? !rules.discard : !rules.write_zeroes) return Refuse(kStatusUnsupported);
  if (rules.read_only) return Refuse(kStatusIoError);
  const uint64_t bytes = chain.ReadableSize() - sizeof(RequestHeader);
  if (bytes == 0 || bytes % sizeof(RangeSegment) != 0 || bytes / sizeof(RangeSegment) > rules.ranges) {
    return Refuse(kStatusIoError);
  }
  IoRequest request;
  request.kind = discard ? IoKind::kDiscard : IoKind::kWriteZeroes;
  request.durable = rules.durable;
  request.unmap = !discard;  // only if all ranges allow it
  for (uint64_t at = sizeof(RequestHeader); at < chain.ReadableSize(); at += sizeof(RangeSegment)) {
    const auto range = chain.ReadObject<RangeSegment>(at);
    if (!range.ok()) return Refuse(kStatusIoError);
    if ((range->flags & (discard ? ~0u : ~kRangeUnmap)) != 0) return Refuse(kStatusUnsupported);
    if (range->num_sectors > (discard ? rules.discard_sectors : rules.zeroes_sectors) ||
        !RangeFits(range->sector, range->num_sectors, rules.sectors)) {
      return Refuse(kStatusIoError);
    }
    if ((range->flags & kRangeUnmap) == 0) request.unmap = false;
    if (range->num_sectors == 0) continue;
    request.ranges.push_back({range->sector << kSectorShift, uint64_t{range->num_sectors} << kSectorShift});
  }
  if (request.ranges.empty()) return Answer();
  return request;
}

}  // namespace

std::variant<Answer, IoRequest> Decode(const virtio::DescriptorChain& chain, const memory::GuestMemory& memory,
                                       const RequestRules& rules) {
  const auto header = chain.ReadObject<RequestHeader>(0);
  if (!header.ok()) return Refuse(kStatusIoError);
  switch (header->type) {
    case kTypeIn:
    case kTypeOut:
      return DecodeTransfer(chain, memory, rules, *header);
    case kTypeFlush:
      return IoRequest{.kind = IoKind::kFlush};
    case kTypeGetId: {
      Answer answer{.status = kStatusOk, .data = rules.serial};
      answer.data.resize(std::min<uint64_t>(kSerialBytes, chain.WritableSize() - 1));
      return answer;
    }
    case kTypeDiscard:
    case kTypeWriteZeroes:
      return DecodeRanges(chain, rules, *header);
    default:
      return Refuse(kStatusUnsupported);
  }
}

uint64_t BytesMoved(const IoRequest& request) {
  uint64_t bytes = 0;
  for (const iovec& piece : request.pieces) bytes += piece.iov_len;
  if (request.kind == IoKind::kWriteZeroes) {
    for (const ByteRange& range : request.ranges) bytes += range.bytes;
  }
  return bytes;
}

}  // namespace sluice::block
