// File: elf_headers.h
//
// Private to vmm/boot: what all readers of ELF files check alike.
#ifndef SLUICE_VMM_BOOT_ELF_HEADERS_H_
#define SLUICE_VMM_BOOT_ELF_HEADERS_H_

#include <elf.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/image_source.h"

namespace sluice::boot::internal {

template <typename... Ts>
absl::Status BadElf(const Ts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("not a usable ELF file: ", parts...));
}

struct ElfHeaders {
  Elf64_Ehdr file;
  std::vector<Elf64_Phdr> programs;  // 1 .. kMaxElfSegments
};

// The file header, checked (magic, class, machine, type, sizes), and the program headers as they are.
absl::StatusOr<ElfHeaders> ReadElfHeaders(const ImageSource& file);

// Program header `index`, a PT_LOAD with p_memsz > 0: sizes, place in the file, alignment, no wrapping.
absl::Status CheckLoadSegment(int index, const Elf64_Phdr& program, uint64_t file_bytes);

// Adds it to `segments`; INVALID_ARGUMENT if it overlaps one of them. Checked before with CheckLoadSegment.
absl::Status AddLoadSegment(int index, const Elf64_Phdr& program, std::vector<ElfSegment>& segments);

// OUT_OF_RANGE if one is not all in RAM or lies below kFirmwareStart.
absl::Status CheckPlaces(absl::Span<const ElfSegment> segments, const memory::GuestMemory& ram);

// File bytes and zeros of every segment to RAM.
absl::Status CopySegments(const ImageSource& file, absl::Span<const ElfSegment> segments,
                          const memory::GuestMemory& ram);

}  // namespace sluice::boot::internal

#endif  // SLUICE_VMM_BOOT_ELF_HEADERS_H_
