#include "vmm/boot/elf.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/elf_headers.h"

namespace sluice::boot {

using internal::BadElf;
using memory::GuestAddress;
using memory::Hex;

absl::StatusOr<ElfImage> ParseElf(absl::Span<const uint8_t> file) {
  if (file.size() > kMaxElfBytes) return BadElf(file.size(), " bytes, at most ", kMaxElfBytes, " are read");
  SLUICE_ASSIGN_OR_RETURN(const internal::ElfHeaders headers, internal::ReadElfHeaders(BytesImage(file)));
  const uint64_t start = headers.file.e_entry;

  ElfImage image;
  std::optional<GuestAddress> entry;
  int index = -1;
  for (const Elf64_Phdr& p : headers.programs) {
    ++index;
    if (p.p_type == PT_INTERP) return BadElf("it wants a dynamic linker; link it statically");
    if (p.p_type != PT_LOAD || p.p_memsz == 0) continue;
    SLUICE_RETURN_IF_ERROR(internal::CheckLoadSegment(index, p, file.size()));
    SLUICE_RETURN_IF_ERROR(internal::AddLoadSegment(index, p, image.segments));
    // e_entry is a virtual address; the guest starts where that byte is physically.
    if ((p.p_flags & PF_X) != 0 && RangeFits(start - p.p_vaddr, 1, p.p_memsz)) {
      entry = GuestAddress(p.p_paddr).CheckedAdd(start - p.p_vaddr);
    }
  }
  if (image.segments.empty()) return BadElf("no PT_LOAD segment");
  if (!entry.has_value()) return BadElf("e_entry ", Hex(start), " is in no executable segment");
  image.entry = *entry;
  return image;
}

absl::StatusOr<LoadedElf> LoadElf(absl::Span<const uint8_t> file, const memory::GuestMemory& ram) {
  SLUICE_ASSIGN_OR_RETURN(const ElfImage image, ParseElf(file));
  SLUICE_RETURN_IF_ERROR(internal::CheckPlaces(image.segments, ram));
  LoadedElf loaded;
  loaded.entry = image.entry;
  loaded.low = image.segments.front().address;
  for (const ElfSegment& s : image.segments) {
    loaded.low = std::min(loaded.low, s.address);
    loaded.end = std::max(loaded.end, GuestAddress(s.address.value() + s.memory_size));
  }
  SLUICE_RETURN_IF_ERROR(internal::CopySegments(BytesImage(file), image.segments, ram));
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
