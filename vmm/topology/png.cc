#include "vmm/topology/png.h"

#include <fcntl.h>
#include <png.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"
#include "vmm/topology/output_file.h"

namespace sluice::topology {
namespace {

// Where R, G and B are in the 4 bytes of a pixel. The numbers are those of virtio_gpu_formats, virtio 1.2
// section 5.7.6.8.
struct ChannelOrder {
  uint32_t format;
  std::array<uint8_t, 3> rgb;
};
constexpr ChannelOrder kOrders[] = {
    {1, {2, 1, 0}},    // B8G8R8A8
    {2, {2, 1, 0}},    // B8G8R8X8
    {3, {1, 2, 3}},    // A8R8G8B8
    {4, {1, 2, 3}},    // X8R8G8B8
    {67, {0, 1, 2}},   // R8G8B8A8
    {68, {3, 2, 1}},   // X8B8G8R8
    {121, {3, 2, 1}},  // A8B8G8R8
    {134, {0, 1, 2}},  // R8G8B8X8
};

absl::Status PngError(const png_image& image, const std::string& path) {
  return absl::InternalError(absl::StrCat(path, ": ", image.message));
}

}  // namespace

absl::StatusOr<Picture> ReadScanout(const ScanoutShape& shape, int memfd) {
  const ChannelOrder* order = nullptr;
  for (const ChannelOrder& candidate : kOrders) {
    if (candidate.format == shape.format) order = &candidate;
  }
  if (order == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("scanout format ", shape.format, " is not known"));
  if (shape.width == 0 || shape.height == 0 || shape.width > kMaxPictureSide || shape.height > kMaxPictureSide ||
      shape.stride < uint64_t{shape.width} * 4) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a scanout of %u x %u with %u bytes a row", shape.width, shape.height, shape.stride));
  }
  // The last row may end with its last pixel.
  const uint64_t size = uint64_t{shape.stride} * (shape.height - 1) + uint64_t{shape.width} * 4;
  struct stat info {};
  if (fstat(memfd, &info) != 0) return ErrnoToStatus(errno, "fstat of the scanout");
  if (!S_ISREG(info.st_mode) || info.st_size < 0 || size > static_cast<uint64_t>(info.st_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the scanout needs ", size, " bytes, its memory has ", info.st_size));
  }

  Picture picture;
  picture.width = shape.width;
  picture.height = shape.height;
  picture.rgb.resize(size_t{shape.width} * shape.height * 3);
  std::vector<uint8_t> row(size_t{shape.width} * 4);
  uint8_t* out = picture.rgb.data();
  for (uint32_t y = 0; y < shape.height; ++y) {
    // Read, not mapped: a sender that shrinks its memfd now makes a short read, not a SIGBUS.
    const ssize_t got = pread(memfd, row.data(), row.size(), static_cast<off_t>(uint64_t{y} * shape.stride));
    if (got < 0) return ErrnoToStatus(errno, "reading the scanout");
    if (static_cast<size_t>(got) != row.size()) return absl::InvalidArgumentError("the scanout's memory shrank");
    for (size_t x = 0; x < row.size(); x += 4) {
      for (const uint8_t channel : order->rgb) *out++ = row[x + channel];
    }
  }
  return picture;
}

absl::Status WritePng(const std::string& path, const Picture& picture) {
  if (picture.rgb.size() != size_t{picture.width} * picture.height * 3)
    return absl::InvalidArgumentError("picture size");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = PNG_FORMAT_RGB;
  SLUICE_ASSIGN_OR_RETURN(PartialFile file, PartialFile::Create(path));
  UniqueFd copy(fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return ErrnoToStatus(errno, path);
  std::FILE* const stream = fdopen(copy.get(), "wb");
  if (stream == nullptr) return ErrnoToStatus(errno, path);
  static_cast<void>(copy.Release());  // the stream's now
  errno = 0;
  absl::Status status;
  if (png_image_write_to_stdio(&image, stream, 0, picture.rgb.data(), 0, nullptr) == 0 || std::fflush(stream) != 0)
    status = errno != 0 ? ErrnoToStatus(errno, path) : PngError(image, path);
  if (std::fclose(stream) != 0 && status.ok()) status = ErrnoToStatus(errno, path);
  SLUICE_RETURN_IF_ERROR(status);
  return file.Commit();
}

absl::StatusOr<Picture> ReadPng(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) return PngError(image, path);
  if (image.width > kMaxPictureSide || image.height > kMaxPictureSide) {
    png_image_free(&image);
    return absl::InvalidArgumentError(absl::StrCat(path, ": too large"));
  }
  image.format = PNG_FORMAT_RGB;
  Picture picture;
  picture.width = image.width;
  picture.height = image.height;
  picture.rgb.resize(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, picture.rgb.data(), 0, nullptr) == 0) return PngError(image, path);
  return picture;
}

}  // namespace sluice::topology
