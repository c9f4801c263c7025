// File: elf.h
//
// Loads a 64-bit ELF executable (firmware image) to the physical addresses that its program headers name. The file is
// hostile: every field is checked before it is used, and nothing is allocated by its numbers.
//
//   SLUICE_ASSIGN_OR_RETURN(LoadedElf image, LoadElf(bytes, ram));
//   options.entry = image.entry;
//
// Format: System V ABI, chapters 4 and 5, x86-64 supplement. Accepted: ELFCLASS64, little-endian, EM_X86_64, ET_EXEC,
// or ET_DYN with a physical layout of its own (no relocations are applied).
#ifndef SLUICE_VMM_BOOT_ELF_H_
#define SLUICE_VMM_BOOT_ELF_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot {

inline constexpr uint64_t kMaxElfBytes = 64 * memory::kMiB;  // largest file
inline constexpr uint16_t kMaxElfSegments = 64;              // most program headers

// One PT_LOAD: file bytes [file_offset, file_offset + file_size) go to `address`, then zeros up to memory_size.
struct ElfSegment {
  memory::GuestAddress address;
  uint64_t file_offset = 0;
  uint64_t file_size = 0;
  uint64_t memory_size = 0;  // >= file_size, > 0
};

struct ElfImage {
  memory::GuestAddress entry;  // inside a segment
  std::vector<ElfSegment> segments;
};

struct LoadedElf {
  memory::GuestAddress entry;
  memory::GuestAddress low;  // first byte loaded
  memory::GuestAddress end;  // first byte behind
};

// Checks `file` and says what it would load; touches no memory. INVALID_ARGUMENT names the field that is wrong.
absl::StatusOr<ElfImage> ParseElf(absl::Span<const uint8_t> file);

// Parses and copies to `ram`. Errors as above, and OUT_OF_RANGE when a segment is not all in RAM or lies below
// kFirmwareStart (the boot data's place). Nothing is written unless every segment fits.
absl::StatusOr<LoadedElf> LoadElf(absl::Span<const uint8_t> file, const memory::GuestMemory& ram);

// Reads all of a regular file or memfd (at most kMaxElfBytes), from its start, whatever the descriptor's position.
absl::StatusOr<std::vector<uint8_t>> ReadImage(int fd);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_ELF_H_
