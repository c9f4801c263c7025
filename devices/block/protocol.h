// File: protocol.h
//
// What virtio-blk says on the wire: virtio 1.2 section 5.2. All fields are little-endian; a sector is 512 bytes
// whatever the block size.
#ifndef SLUICE_DEVICES_BLOCK_PROTOCOL_H_
#define SLUICE_DEVICES_BLOCK_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace sluice::block {

inline constexpr uint64_t kSectorBytes = 512;
inline constexpr unsigned kSectorShift = 9;

// Section 5.2.3, feature bits.
inline constexpr uint64_t kFeatureSizeMax = uint64_t{1} << 1;
inline constexpr uint64_t kFeatureSegMax = uint64_t{1} << 2;
inline constexpr uint64_t kFeatureReadOnly = uint64_t{1} << 5;
inline constexpr uint64_t kFeatureBlockSize = uint64_t{1} << 6;
inline constexpr uint64_t kFeatureFlush = uint64_t{1} << 9;
inline constexpr uint64_t kFeatureTopology = uint64_t{1} << 10;
inline constexpr uint64_t kFeatureConfigWce = uint64_t{1} << 11;
inline constexpr uint64_t kFeatureMultiQueue = uint64_t{1} << 12;
inline constexpr uint64_t kFeatureDiscard = uint64_t{1} << 13;
inline constexpr uint64_t kFeatureWriteZeroes = uint64_t{1} << 14;

// Section 5.2.4, struct virtio_blk_config.
struct BlockConfig {
  uint64_t capacity;  // sectors
  uint32_t size_max;  // bytes of a segment
  uint32_t seg_max;   // segments of a request
  uint16_t cylinders;
  uint8_t heads;
  uint8_t sectors;
  uint32_t blk_size;           // bytes
  uint8_t physical_block_exp;  // log2 of logical blocks per physical block
  uint8_t alignment_offset;    // logical blocks
  uint16_t min_io_size;        // logical blocks
  uint32_t opt_io_size;        // logical blocks
  uint8_t writeback;           // 1: writes are volatile until a flush; the driver may change it
  uint8_t unused0;
  uint16_t num_queues;
  uint32_t max_discard_sectors;
  uint32_t max_discard_seg;
  uint32_t discard_sector_alignment;
  uint32_t max_write_zeroes_sectors;
  uint32_t max_write_zeroes_seg;
  uint8_t write_zeroes_may_unmap;
  uint8_t unused1[3];
  uint32_t max_secure_erase_sectors;
  uint32_t max_secure_erase_seg;
  uint32_t secure_erase_sector_alignment;
};
static_assert(sizeof(BlockConfig) == 72);
static_assert(offsetof(BlockConfig, blk_size) == 20 && offsetof(BlockConfig, writeback) == 32);
static_assert(offsetof(BlockConfig, num_queues) == 34 && offsetof(BlockConfig, write_zeroes_may_unmap) == 56);

// Section 5.2.6, request types.
inline constexpr uint32_t kTypeIn = 0;
inline constexpr uint32_t kTypeOut = 1;
inline constexpr uint32_t kTypeFlush = 4;
inline constexpr uint32_t kTypeGetId = 8;
inline constexpr uint32_t kTypeDiscard = 11;
inline constexpr uint32_t kTypeWriteZeroes = 13;

// A request's first 16 readable bytes; data follow. Its last writable byte is the status.
struct RequestHeader {
  uint32_t type;
  uint32_t reserved;
  uint64_t sector;
};
static_assert(sizeof(RequestHeader) == 16);

// What DISCARD and WRITE_ZEROES carry, one or more.
struct RangeSegment {
  uint64_t sector;
  uint32_t num_sectors;
  uint32_t flags;
};
static_assert(sizeof(RangeSegment) == 16);
inline constexpr uint32_t kRangeUnmap = 1;

inline constexpr uint8_t kStatusOk = 0;
inline constexpr uint8_t kStatusIoError = 1;
inline constexpr uint8_t kStatusUnsupported = 2;

// GET_ID writes this many bytes, not terminated if all are used.
inline constexpr size_t kSerialBytes = 20;

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_PROTOCOL_H_
