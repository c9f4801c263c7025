// File: image_source.h
//
// A kernel, initramfs or firmware file as something to read pieces of: loaders take its headers into private copies,
// check those, and send the rest straight to guest RAM, so that no file is held in memory.
//
//   SLUICE_ASSIGN_OR_RETURN(FdImage kernel, FdImage::Open(kernel_fd, kMaxKernelBytes));
//   SLUICE_ASSIGN_OR_RETURN(Header h, ReadHeader<Header>(kernel, 0x1f1));
//   SLUICE_RETURN_IF_ERROR(CopyImage(kernel, offset, size, ram, GuestAddress(0x100000)));
//
// The file is hostile and may change while it is read: each byte is read once, and what was checked is what is used.
#ifndef SLUICE_VMM_BOOT_IMAGE_SOURCE_H_
#define SLUICE_VMM_BOOT_IMAGE_SOURCE_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot {

// Thread-safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // Bytes, as found when it was opened.
  virtual uint64_t size() const = 0;
  // Fills `to` from `offset` on. OUT_OF_RANGE: not all of it lies inside the file (any more).
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> to) const = 0;
};

// Bytes of somebody else, which outlive it.
class BytesImage final : public ImageSource {
 public:
  explicit BytesImage(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> to) const override;

 private:
  absl::Span<const uint8_t> bytes_;
};

// A regular file or memfd, read with pread(2): the descriptor's position does not matter.
class FdImage final : public ImageSource {
 public:
  // INVALID_ARGUMENT: not a regular file, empty, or larger than `limit` bytes.
  static absl::StatusOr<FdImage> Open(UniqueFd fd, uint64_t limit);
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> to) const override;

 private:
  FdImage(UniqueFd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}
  UniqueFd fd_;
  uint64_t size_;
};

// A private copy of the T at `offset`.
template <typename T>
absl::StatusOr<T> ReadHeader(const ImageSource& image, uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  uint8_t bytes[sizeof(T)];
  absl::Status status = image.ReadAt(offset, absl::MakeSpan(bytes, sizeof(T)));
  if (!status.ok()) return status;
  T value;
  __builtin_memcpy(&value, bytes, sizeof(T));
  return value;
}

// Copies bytes [offset, offset + size) of `image` to RAM at `to`. OUT_OF_RANGE: they are not all in the file, or the
// place is not all RAM; then nothing was copied (unless the file became shorter meanwhile).
absl::Status CopyImage(const ImageSource& image, uint64_t offset, uint64_t size, const memory::GuestMemory& ram,
                       memory::GuestAddress to);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_IMAGE_SOURCE_H_
