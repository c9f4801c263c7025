#include "vmm/boot/elf.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestRange;
using memory::Hex;

template <typename... Ts>
absl::Status Bad(const Ts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("not a usable ELF file: ", parts...));
}

absl::Status CheckHeader(const Elf64_Ehdr& h) {
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return Bad("no ELF magic");
  if (h.e_ident[EI_CLASS] != ELFCLASS64) return Bad("EI_CLASS is ", int{h.e_ident[EI_CLASS]}, ", want 2 (64-bit)");
  if (h.e_ident[EI_DATA] != ELFDATA2LSB) return Bad("EI_DATA is ", int{h.e_ident[EI_DATA]}, ", want 1 (little-endian)");
  if (h.e_ident[EI_VERSION] != EV_CURRENT || h.e_version != EV_CURRENT) return Bad("the version is not 1");
  if (h.e_machine != EM_X86_64) return Bad("e_machine is ", h.e_machine, ", want 62 (x86-64)");
  if (h.e_type != ET_EXEC && h.e_type != ET_DYN) return Bad("e_type is ", h.e_type, ", want 2 or 3 (executable)");
  if (h.e_ehsize != sizeof(Elf64_Ehdr)) return Bad("e_ehsize is ", h.e_ehsize, ", want ", sizeof(Elf64_Ehdr));
  if (h.e_phnum == 0 || h.e_phnum > kMaxElfSegments) {
    return Bad("e_phnum is ", h.e_phnum, ", want 1 to ", kMaxElfSegments);
  }
  if (h.e_phentsize != sizeof(Elf64_Phdr)) return Bad("e_phentsize is ", h.e_phentsize, ", want ", sizeof(Elf64_Phdr));
  return absl::OkStatus();
}

absl::Status CheckSegment(int index, const Elf64_Phdr& p, uint64_t file_bytes) {
  if (p.p_filesz > p.p_memsz) {
    return Bad("segment ", index, ": p_filesz ", Hex(p.p_filesz), " exceeds p_memsz ", Hex(p.p_memsz));
  }
  if (!RangeFits(p.p_offset, p.p_filesz, file_bytes)) {
    return Bad("segment ", index, ": bytes ", Hex(p.p_offset), "+", Hex(p.p_filesz), " are past the file's end");
  }
  if (!GuestRange::Create(GuestAddress(p.p_paddr), p.p_memsz).has_value() ||
      !GuestRange::Create(GuestAddress(p.p_vaddr), p.p_memsz).has_value()) {
    return Bad("segment ", index, ": ", Hex(p.p_paddr), "+", Hex(p.p_memsz), " wraps");
  }
  if (p.p_align > 1) {
    if (!IsPowerOfTwo(p.p_align)) return Bad("segment ", index, ": p_align ", Hex(p.p_align), " is no power of two");
    if (((p.p_offset ^ p.p_vaddr) & (p.p_align - 1)) != 0) {
      return Bad("segment ", index, ": p_offset and p_vaddr differ modulo p_align");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ElfImage> ParseElf(absl::Span<const uint8_t> file) {
  if (file.size() > kMaxElfBytes) return Bad(file.size(), " bytes, at most ", kMaxElfBytes, " are read");
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return Bad(file.size(), " bytes, too short for a header");
  std::memcpy(&header, file.data(), sizeof(header));
  SLUICE_RETURN_IF_ERROR(CheckHeader(header));
  if (!RangeFits(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), file.size())) {
    return Bad("the program headers at ", Hex(header.e_phoff), " are past the file's end");
  }

  ElfImage image;
  std::optional<GuestAddress> entry;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr p;
    std::memcpy(&p, file.data() + header.e_phoff + i * sizeof(p), sizeof(p));
    if (p.p_type == PT_INTERP) return Bad("it wants a dynamic linker; link it statically");
    if (p.p_type != PT_LOAD || p.p_memsz == 0) continue;
    SLUICE_RETURN_IF_ERROR(CheckSegment(i, p, file.size()));
    const GuestRange range = *GuestRange::Create(GuestAddress(p.p_paddr), p.p_memsz);
    for (const ElfSegment& other : image.segments) {
      if (range.Overlaps(*GuestRange::Create(other.address, other.memory_size))) {
        return Bad("segment ", i, " at ", range.ToString(), " overlaps another");
      }
    }
    // e_entry is a virtual address; the guest starts where that byte is physically.
    if ((p.p_flags & PF_X) != 0 && RangeFits(header.e_entry - p.p_vaddr, 1, p.p_memsz)) {
      entry = range.start().CheckedAdd(header.e_entry - p.p_vaddr);
    }
    image.segments.push_back({range.start(), p.p_offset, p.p_filesz, p.p_memsz});
  }
  if (image.segments.empty()) return Bad("no PT_LOAD segment");
  if (!entry.has_value()) return Bad("e_entry ", Hex(header.e_entry), " is in no executable segment");
  image.entry = *entry;
  return image;
}

absl::StatusOr<LoadedElf> LoadElf(absl::Span<const uint8_t> file, const memory::GuestMemory& ram) {
  SLUICE_ASSIGN_OR_RETURN(const ElfImage image, ParseElf(file));
  LoadedElf loaded;
  loaded.entry = image.entry;
  loaded.low = image.segments.front().address;
  for (const ElfSegment& s : image.segments) {
    const std::string where = absl::StrCat("ELF segment ", s.address.ToString(), "+", Hex(s.memory_size));
    if (s.address.value() < kFirmwareStart) {
      return absl::OutOfRangeError(
          absl::StrCat(where, " lies below ", Hex(kFirmwareStart), ", where the boot data is"));
    }
    if (!ram.Contains(s.address, s.memory_size)) {
      return absl::OutOfRangeError(
          absl::StrCat(where, " is not all in RAM; link it elsewhere or give the VM more memory"));
    }
    loaded.low = std::min(loaded.low, s.address);
    loaded.end = std::max(loaded.end, GuestAddress(s.address.value() + s.memory_size));
  }
  for (const ElfSegment& s : image.segments) {
    // In range for the file (ParseElf) and for RAM (above).
    SLUICE_RETURN_IF_ERROR(ram.CopyTo(s.address, file.subspan(s.file_offset, s.file_size)));
    SLUICE_RETURN_IF_ERROR(ram.Fill(GuestAddress(s.address.value() + s.file_size), 0, s.memory_size - s.file_size));
  }
  return loaded;
}

absl::StatusOr<std::vector<uint8_t>> ReadImage(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(st.st_mode)) return absl::InvalidArgumentError("not a regular file");
  if (st.st_size <= 0 || static_cast<uint64_t>(st.st_size) > kMaxElfBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", st.st_size, " bytes, want 1 to ", kMaxElfBytes));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(st.st_size));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "pread");
    if (n == 0) return absl::InvalidArgumentError("the file became shorter while it was read");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace sluice::boot
