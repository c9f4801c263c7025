// File: png.h
//
// Writes a scanout as a PNG file. The numbers come from a VM process, which is not trusted: they are checked against
// the memory that came with them before anything is allocated or read.
//
//   SLUICE_ASSIGN_OR_RETURN(Picture picture, ReadScanout({.width = w, .height = h, .stride = s, .format = f},
//   memfd.get())); SLUICE_RETURN_IF_ERROR(WritePng("out/web-0.png", picture));
#ifndef SLUICE_VMM_TOPOLOGY_PNG_H_
#define SLUICE_VMM_TOPOLOGY_PNG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::topology {

// Largest width and height that is written.
inline constexpr uint32_t kMaxPictureSide = 16384;

struct ScanoutShape {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t stride = 0;  // bytes
  uint32_t format = 0;  // virtio_gpu_formats (virtio 1.2, 5.7.6.8): the 8 formats with 4 bytes a pixel
};

// Pixels as R, G, B, top row first, no padding. Alpha is not shown on a screen and not kept.
struct Picture {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> rgb;
};

// Copies a scanout out of `memfd`. INVALID_ARGUMENT: sizes out of range, unknown format, or more than the memfd holds.
absl::StatusOr<Picture> ReadScanout(const ScanoutShape& shape, int memfd);

// Writes `path` (replaced if it exists, and only once all is written). The bytes depend on the pixels only.
absl::Status WritePng(const std::string& path, const Picture& picture);
// Reads back an 8-bit RGB PNG: for tests and for comparing pictures.
absl::StatusOr<Picture> ReadPng(const std::string& path);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_PNG_H_
