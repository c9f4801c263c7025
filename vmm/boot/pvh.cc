#include "vmm/boot/pvh.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/elf_headers.h"

namespace sluice::boot {
namespace {

using internal::BadElf;
using memory::GuestAddress;
using memory::GuestRange;
using memory::Hex;

constexpr char kXenOwner[4] = {'X', 'e', 'n', '\0'};

// The entry point that the notes of one PT_NOTE segment name, if one does. `notes` is a private copy.
absl::StatusOr<std::optional<uint64_t>> FindEntryNote(absl::Span<const uint8_t> notes) {
  std::optional<uint64_t> entry;
  uint64_t at = 0;
  while (RangeFits(at, sizeof(Elf64_Nhdr), notes.size())) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const uint64_t name = at + sizeof(note);
    // Both parts are padded to 4 bytes; their sizes have 32 bits, so that nothing wraps here.
    const uint64_t description = name + ((uint64_t{note.n_namesz} + 3) & ~uint64_t{3});
    const uint64_t next = description + ((uint64_t{note.n_descsz} + 3) & ~uint64_t{3});
    if (!RangeFits(name, note.n_namesz, notes.size()) || !RangeFits(description, note.n_descsz, notes.size())) {
      return BadElf("a note at ", Hex(at), " of its segment is cut off");
    }
    at = next;
    if (note.n_type != kXenNotePhys32Entry || note.n_namesz != sizeof(kXenOwner) ||
        std::memcmp(notes.data() + name, kXenOwner, sizeof(kXenOwner)) != 0) {
      continue;
    }
    if (note.n_descsz != 4 && note.n_descsz != 8)
      return BadElf("its PVH note has ", note.n_descsz, " bytes, want 4 or 8");
    uint64_t value = 0;
    std::memcpy(&value, notes.data() + description, note.n_descsz);
    entry = value;
  }
  return entry;
}

}  // namespace

bool LooksLikeElf(const ImageSource& file) {
  uint8_t magic[SELFMAG];
  return file.ReadAt(0, absl::MakeSpan(magic)).ok() && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

absl::StatusOr<PvhKernel> ParsePvhKernel(const ImageSource& file) {
  SLUICE_ASSIGN_OR_RETURN(const internal::ElfHeaders headers, internal::ReadElfHeaders(file));
  PvhKernel kernel;
  std::optional<uint64_t> entry;
  int index = -1;
  for (const Elf64_Phdr& p : headers.programs) {
    ++index;
    if (p.p_type == PT_NOTE) {
      if (p.p_filesz > kMaxNoteBytes) return BadElf("note segment ", index, " has ", p.p_filesz, " bytes");
      std::vector<uint8_t> notes(p.p_filesz);
      if (const absl::Status read = file.ReadAt(p.p_offset, absl::MakeSpan(notes)); !read.ok()) {
        return BadElf("note segment ", index, ": ", read.message());
      }
      SLUICE_ASSIGN_OR_RETURN(const auto found, FindEntryNote(notes));
      if (found.has_value()) entry = found;
    }
    if (p.p_type != PT_LOAD || p.p_memsz == 0) continue;
    SLUICE_RETURN_IF_ERROR(internal::CheckLoadSegment(index, p, file.size()));
    SLUICE_RETURN_IF_ERROR(internal::AddLoadSegment(index, p, kernel.segments));
    const uint64_t last = GuestRange::Create(GuestAddress(p.p_paddr), p.p_memsz)->last().value();
    if (last >= 4 * memory::kGiB) return BadElf("segment ", index, " at ", Hex(p.p_paddr), " is not below 4 GiB");
    kernel.end = std::max(kernel.end, GuestAddress(last + 1));
  }
  if (!entry.has_value()) {
    return BadElf("it has no PVH entry point (note Xen/18); build the kernel with CONFIG_PVH, or give a bzImage");
  }
  const bool inside = std::any_of(kernel.segments.begin(), kernel.segments.end(), [&](const ElfSegment& s) {
    return *entry >= s.address.value() && *entry - s.address.value() < s.file_size;
  });
  if (!inside) return BadElf("its PVH entry point ", Hex(*entry), " is in no segment");
  kernel.entry = GuestAddress(*entry);
  return kernel;
}

absl::Status LoadPvhKernel(const ImageSource& file, const PvhKernel& kernel, const memory::GuestMemory& ram) {
  SLUICE_RETURN_IF_ERROR(internal::CheckPlaces(kernel.segments, ram));
  return internal::CopySegments(file, kernel.segments, ram);
}

}  // namespace sluice::boot
