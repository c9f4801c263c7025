#include "vmm/boot/elf_headers.h"

#include <cstring>

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot::internal {
namespace {

using memory::GuestAddress;
using memory::GuestRange;
using memory::Hex;

absl::Status CheckHeader(const Elf64_Ehdr& h) {
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return BadElf("no ELF magic");
  if (h.e_ident[EI_CLASS] != ELFCLASS64) return BadElf("EI_CLASS is ", int{h.e_ident[EI_CLASS]}, ", want 2 (64-bit)");
  if (h.e_ident[EI_DATA] != ELFDATA2LSB)
    return BadElf("EI_DATA is ", int{h.e_ident[EI_DATA]}, ", want 1 (little-endian)");
  if (h.e_ident[EI_VERSION] != EV_CURRENT || h.e_version != EV_CURRENT) return BadElf("the version is not 1");
  if (h.e_machine != EM_X86_64) return BadElf("e_machine is ", h.e_machine, ", want 62 (x86-64)");
  if (h.e_type != ET_EXEC && h.e_type != ET_DYN) return BadElf("e_type is ", h.e_type, ", want 2 or 3 (executable)");
  if (h.e_ehsize != sizeof(Elf64_Ehdr)) return BadElf("e_ehsize is ", h.e_ehsize, ", want ", sizeof(Elf64_Ehdr));
  if (h.e_phnum == 0 || h.e_phnum > kMaxElfSegments) {
    return BadElf("e_phnum is ", h.e_phnum, ", want 1 to ", kMaxElfSegments);
  }
  if (h.e_phentsize != sizeof(Elf64_Phdr)) {
    return BadElf("e_phentsize is ", h.e_phentsize, ", want ", sizeof(Elf64_Phdr));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ElfHeaders> ReadElfHeaders(const ImageSource& file) {
  if (file.size() < sizeof(Elf64_Ehdr)) return BadElf(file.size(), " bytes, too short for a header");
  ElfHeaders headers;
  SLUICE_ASSIGN_OR_RETURN(headers.file, ReadHeader<Elf64_Ehdr>(file, 0));
  SLUICE_RETURN_IF_ERROR(CheckHeader(headers.file));
  const uint64_t start = headers.file.e_phoff;
  if (!RangeFits(start, uint64_t{headers.file.e_phnum} * sizeof(Elf64_Phdr), file.size())) {
    return BadElf("the program headers at ", Hex(start), " are past the file's end");
  }
  for (uint64_t i = 0; i < headers.file.e_phnum; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const auto program, ReadHeader<Elf64_Phdr>(file, start + i * sizeof(Elf64_Phdr)));
    headers.programs.push_back(program);
  }
  return headers;
}

absl::Status CheckLoadSegment(int index, const Elf64_Phdr& p, uint64_t file_bytes) {
  if (p.p_filesz > p.p_memsz) {
    return BadElf("segment ", index, ": p_filesz ", Hex(p.p_filesz), " exceeds p_memsz ", Hex(p.p_memsz));
  }
  if (!RangeFits(p.p_offset, p.p_filesz, file_bytes)) {
    return BadElf("segment ", index, ": bytes ", Hex(p.p_offset), "+", Hex(p.p_filesz), " are past the file's end");
  }
  if (!GuestRange::Create(GuestAddress(p.p_paddr), p.p_memsz).has_value() ||
      !GuestRange::Create(GuestAddress(p.p_vaddr), p.p_memsz).has_value()) {
    return BadElf("segment ", index, ": ", Hex(p.p_paddr), "+", Hex(p.p_memsz), " wraps");
  }
  if (p.p_align > 1) {
    if (!IsPowerOfTwo(p.p_align)) return BadElf("segment ", index, ": p_align ", Hex(p.p_align), " is no power of two");
    if (((p.p_offset ^ p.p_vaddr) & (p.p_align - 1)) != 0) {
      return BadElf("segment ", index, ": p_offset and p_vaddr differ modulo p_align");
    }
  }
  return absl::OkStatus();
}

absl::Status AddLoadSegment(int index, const Elf64_Phdr& p, std::vector<ElfSegment>& segments) {
  const auto range = GuestRange::Create(GuestAddress(p.p_paddr), p.p_memsz);
  if (!range.has_value()) return BadElf("segment ", index, " is empty or wraps");
  for (const ElfSegment& other : segments) {
    if (range->Overlaps(*GuestRange::Create(other.address, other.memory_size))) {
      return BadElf("segment ", index, " at ", range->ToString(), " overlaps another");
    }
  }
  segments.push_back({range->start(), p.p_offset, p.p_filesz, p.p_memsz});
  return absl::OkStatus();
}

absl::Status CheckPlaces(absl::Span<const ElfSegment> segments, const memory::GuestMemory& ram) {
  for (const ElfSegment& s : segments) {
    const std::string where = absl::StrCat("ELF segment ", s.address.ToString(), "+", Hex(s.memory_size));
    if (s.address.value() < kFirmwareStart) {
      return absl::OutOfRangeError(
          absl::StrCat(where, " lies below ", Hex(kFirmwareStart), ", where the boot data is"));
    }
    if (!ram.Contains(s.address, s.memory_size)) {
      return absl::OutOfRangeError(
          absl::StrCat(where, " is not all in RAM; link it elsewhere or give the VM more memory"));
    }
  }
  return absl::OkStatus();
}

absl::Status CopySegments(const ImageSource& file, absl::Span<const ElfSegment> segments,
                          const memory::GuestMemory& ram) {
  for (const ElfSegment& s : segments) {
    SLUICE_RETURN_IF_ERROR(CopyImage(file, s.file_offset, s.file_size, ram, s.address));
    SLUICE_RETURN_IF_ERROR(ram.Fill(GuestAddress(s.address.value() + s.file_size), 0, s.memory_size - s.file_size));
  }
  return absl::OkStatus();
}

}  // namespace sluice::boot::internal
