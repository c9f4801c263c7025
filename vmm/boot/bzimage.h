// File: bzimage.h
//
// Reads a Linux bzImage (x86 boot protocol 2.12 or later, 64-bit entry). The file is hostile: every header field is
// checked before it is used, and nothing is allocated by its numbers.
//
//   SLUICE_ASSIGN_OR_RETURN(BzImage kernel, ParseBzImage(file));
//   SLUICE_ASSIGN_OR_RETURN(GuestAddress load, LoadBzImage(file, kernel, ram));
#ifndef SLUICE_VMM_BOOT_BZIMAGE_H_
#define SLUICE_VMM_BOOT_BZIMAGE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "vmm/boot/image_source.h"
#include "vmm/boot/linux_params.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot {

// What the header says, checked.
struct BzImage {
  // The setup header, file bytes [kHdrStart, kHdrStart + header_bytes): goes to the zero page as it is.
  std::array<uint8_t, kHdrMaxEnd - kHdrStart> header = {};
  uint32_t header_bytes = 0;
  // The protected-mode kernel in the file. size > kEntry64Offset.
  uint64_t payload_offset = 0;
  uint64_t payload_size = 0;
  uint64_t preferred_address = 0;
  uint64_t alignment = 0;  // a power of two, at least 4096
  bool relocatable = false;
  uint64_t init_size = 0;  // RAM that it wants from its load address on; at least payload_size
  // Last byte that an initramfs may occupy.
  uint64_t initramfs_max = 0;
  // Longest command line, bytes without the NUL.
  uint32_t cmdline_max = 0;
};

// True if the file has a bzImage's magic numbers. False too when it cannot be read.
bool LooksLikeBzImage(const ImageSource& file);

// INVALID_ARGUMENT names the field that is wrong, or says what the kernel lacks.
absl::StatusOr<BzImage> ParseBzImage(const ImageSource& file);

// Copies the kernel to its preferred address, or, where that is not RAM and the kernel is relocatable, to the lowest
// one that is; returns where that is. OUT_OF_RANGE: [address, address + init_size) is RAM nowhere.
absl::StatusOr<memory::GuestAddress> LoadBzImage(const ImageSource& file, const BzImage& kernel,
                                                 const memory::GuestMemory& ram);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_BZIMAGE_H_
