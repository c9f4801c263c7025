// File: pvh.h
//
// Reads an uncompressed Linux kernel (vmlinux, ELF64) that has a PVH entry point: the note XEN_ELFNOTE_PHYS32_ENTRY
// gives the physical address of its 32-bit entry. The file is hostile: every field is checked before it is used, and
// nothing is allocated by its numbers.
//
//   SLUICE_ASSIGN_OR_RETURN(PvhKernel kernel, ParsePvhKernel(file));
//   SLUICE_RETURN_IF_ERROR(LoadPvhKernel(file, kernel, ram));
//
// Sources: System V ABI, chapters 4 and 5; Xen's docs/misc/pvh.pandoc and public/elfnote.h. Sections are not looked at.
#ifndef SLUICE_VMM_BOOT_PVH_H_
#define SLUICE_VMM_BOOT_PVH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/image_source.h"

namespace sluice::boot {

inline constexpr uint32_t kXenNotePhys32Entry = 18;   // XEN_ELFNOTE_PHYS32_ENTRY
inline constexpr uint64_t kMaxNoteBytes = 64 * 1024;  // largest PT_NOTE segment that is read

struct PvhKernel {
  memory::GuestAddress entry;        // below 4 GiB, inside a segment
  std::vector<ElfSegment> segments;  // disjoint, below 4 GiB
  memory::GuestAddress end;          // first byte behind all segments
};

// True if the file begins like an ELF file. False too when it cannot be read.
bool LooksLikeElf(const ImageSource& file);

// INVALID_ARGUMENT names the field that is wrong, or says that there is no PVH note.
absl::StatusOr<PvhKernel> ParsePvhKernel(const ImageSource& file);

// Copies every segment to its physical address. OUT_OF_RANGE: one is not all in RAM, or lies below kFirmwareStart (the
// boot data's place); then nothing was written.
absl::Status LoadPvhKernel(const ImageSource& file, const PvhKernel& kernel, const memory::GuestMemory& ram);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_PVH_H_
