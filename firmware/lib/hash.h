// File: hash.h
//
// Checksums for results: FNV-1a, 64 bits, and CRC-32 (IEEE 802.3, as zlib's).
//
//   Print("picture %016llx\n", Fnv1a64(pixels, bytes));
#ifndef SLUICE_FIRMWARE_LIB_HASH_H_
#define SLUICE_FIRMWARE_LIB_HASH_H_

#include <stddef.h>
#include <stdint.h>

namespace sluice::firmware {

inline constexpr uint64_t kFnvStart = 0xcbf29ce484222325;

// `hash`: the value so far, to go on with more bytes.
inline uint64_t Fnv1a64(const void* data, size_t bytes, uint64_t hash = kFnvStart) {
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3;
  return hash;
}

inline uint32_t Crc32(const void* data, size_t bytes, uint32_t crc = 0) {
  const auto* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xedb88320 & (0 - (crc & 1)));
  }
  return ~crc;
}

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_HASH_H_
