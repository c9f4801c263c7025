#include "vmm/boot/image_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::boot {
namespace {

// What a copy holds of a file at a time.
constexpr uint64_t kPiece = 256 * memory::kKiB;

absl::Status PastTheEnd(uint64_t offset, uint64_t bytes, uint64_t size) {
  return absl::OutOfRangeError(absl::StrCat("bytes ", memory::Hex(offset), "+", memory::Hex(bytes),
                                            " are past the file's end at ", memory::Hex(size)));
}

}  // namespace

absl::Status BytesImage::ReadAt(uint64_t offset, absl::Span<uint8_t> to) const {
  if (!RangeFits(offset, to.size(), bytes_.size())) return PastTheEnd(offset, to.size(), bytes_.size());
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), to.size(), to.begin());
  return absl::OkStatus();
}

absl::StatusOr<FdImage> FdImage::Open(UniqueFd fd, uint64_t limit) {
  struct stat st = {};
  if (fstat(fd.get(), &st) != 0) return ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(st.st_mode)) return absl::InvalidArgumentError("not a regular file");
  if (st.st_size <= 0 || static_cast<uint64_t>(st.st_size) > limit) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", st.st_size, " bytes, want 1 to ", limit));
  }
  return FdImage(std::move(fd), static_cast<uint64_t>(st.st_size));
}

absl::Status FdImage::ReadAt(uint64_t offset, absl::Span<uint8_t> to) const {
  if (!RangeFits(offset, to.size(), size_)) return PastTheEnd(offset, to.size(), size_);
  for (size_t done = 0; done < to.size();) {
    const ssize_t n = pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "pread");
    if (n == 0) return absl::OutOfRangeError("the file became shorter while it was read");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status CopyImage(const ImageSource& image, uint64_t offset, uint64_t size, const memory::GuestMemory& ram,
                       memory::GuestAddress to) {
  if (!RangeFits(offset, size, image.size())) return PastTheEnd(offset, size, image.size());
  if (!ram.Contains(to, size)) {
    return absl::OutOfRangeError(absl::StrCat(to.ToString(), "+", memory::Hex(size), " is not all RAM"));
  }
  std::vector<uint8_t> piece(std::min(size, kPiece));
  for (uint64_t done = 0; done < size;) {
    const auto part = absl::MakeSpan(piece).first(std::min(size - done, kPiece));
    SLUICE_RETURN_IF_ERROR(image.ReadAt(offset + done, part));
    SLUICE_RETURN_IF_ERROR(ram.CopyTo(memory::GuestAddress(to.value() + done), part));
    done += part.size();
  }
  return absl::OkStatus();
}

}  // namespace sluice::boot
