#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/block/disk.h"
#include "devices/block/protocol.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::block {
namespace {

// Written in pieces of this where the host has no call that makes zeros.
constexpr size_t kZeroBytes = 64 << 10;

bool Unsupported(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == ENOTTY;
}

class HostDisk final : public Disk {
 public:
  HostDisk(UniqueFd fd, const DiskInfo& info, bool block_device)
      : fd_(std::move(fd)), info_(info), block_device_(block_device) {}

  const DiskInfo& info() const override { return info_; }
  int fd() const override { return fd_.get(); }

  absl::Status Read(uint64_t offset, absl::Span<iovec> pieces) override {
    return Transfer("preadv", offset, pieces, [this](const iovec* first, int count, uint64_t at) {
      return preadv(fd_.get(), first, count, static_cast<off_t>(at));
    });
  }

  absl::Status Write(uint64_t offset, absl::Span<iovec> pieces, bool durable) override {
    const int flags = durable && dsync_works_.load(std::memory_order_relaxed) ? RWF_DSYNC : 0;
    absl::Status status =
        Transfer("pwritev2", offset, pieces, [this, flags](const iovec* first, int count, uint64_t at) {
          const ssize_t moved = pwritev2(fd_.get(), first, count, static_cast<off_t>(at), flags);
          if (moved >= 0 || flags == 0 || !Unsupported(errno)) return moved;
          dsync_works_.store(false, std::memory_order_relaxed);
          return pwritev(fd_.get(), first, count, static_cast<off_t>(at));
        });
    if (!status.ok() || !durable || (flags != 0 && dsync_works_.load(std::memory_order_relaxed))) return status;
    return Flush();
  }

  absl::Status Flush() override {
    while (fdatasync(fd_.get()) != 0) {
      if (errno != EINTR) return ErrnoToStatus(errno, "fdatasync");
    }
    return absl::OkStatus();
  }

  absl::Status Discard(uint64_t offset, uint64_t bytes) override {
    if (!discard_works_.load(std::memory_order_relaxed)) return absl::OkStatus();
    int error = 0;
    if (block_device_) {
      // Whole blocks only: the rest keeps what it has.
      const uint64_t mask = info_.logical_block - 1;
      const uint64_t first = (offset + mask) & ~mask;
      const uint64_t end = (offset + bytes) & ~mask;
      if (first >= end) return absl::OkStatus();
      error = RangeIoctl(BLKDISCARD, first, end - first);
    } else {
      error = Allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
    }
    if (Unsupported(error)) {
      discard_works_.store(false, std::memory_order_relaxed);
      return absl::OkStatus();
    }
    return error == 0 ? absl::OkStatus() : ErrnoToStatus(error, "discard");
  }

  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool unmap) override {
    int error = EOPNOTSUPP;
    if (unmap && punch_works_.load(std::memory_order_relaxed)) {
      error = Allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
      if (Unsupported(error)) punch_works_.store(false, std::memory_order_relaxed);
    }
    if (Unsupported(error) && zero_works_.load(std::memory_order_relaxed)) {
      error = block_device_ ? RangeIoctl(BLKZEROOUT, offset, bytes)
                            : Allocate(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, bytes);
      if (Unsupported(error)) zero_works_.store(false, std::memory_order_relaxed);
    }
    if (error == 0) return absl::OkStatus();
    // EINVAL: a block device wants whole blocks; the guest may not.
    if (Unsupported(error) || error == EINVAL) return WriteZeroBytes(offset, bytes);
    return ErrnoToStatus(error, "write zeroes");
  }

 private:
  template <typename Call>
  absl::Status Transfer(const char* name, uint64_t offset, absl::Span<iovec> pieces, Call call) {
    while (!pieces.empty()) {
      const ssize_t moved = call(pieces.data(), static_cast<int>(std::min<size_t>(pieces.size(), IOV_MAX)), offset);
      if (moved < 0) {
        if (errno == EINTR) continue;
        return ErrnoToStatus(errno, name);
      }
      if (moved == 0) return absl::DataLossError(absl::StrCat(name, ": the file ends at ", offset));
      offset += static_cast<uint64_t>(moved);
      pieces = Advance(pieces, static_cast<size_t>(moved));
    }
    return absl::OkStatus();
  }

  absl::Status WriteZeroBytes(uint64_t offset, uint64_t bytes) {
    static const std::array<uint8_t, kZeroBytes> kZeros = {};
    while (bytes > 0) {
      std::array<iovec, 16> pieces;
      size_t count = 0;
      uint64_t sum = 0;
      for (; count < pieces.size() && sum < bytes; ++count) {
        pieces[count] = {const_cast<uint8_t*>(kZeros.data()), std::min<uint64_t>(kZeroBytes, bytes - sum)};
        sum += pieces[count].iov_len;
      }
      SLUICE_RETURN_IF_ERROR(Write(offset, absl::MakeSpan(pieces).subspan(0, count), /*durable=*/false));
      offset += sum;
      bytes -= sum;
    }
    return absl::OkStatus();
  }

  int Allocate(int mode, uint64_t offset, uint64_t bytes) {
    while (fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  int RangeIoctl(unsigned long request, uint64_t offset, uint64_t bytes) {
    const uint64_t range[2] = {offset, bytes};
    // SAFETY: BLKDISCARD and BLKZEROOUT read two uint64_t, offset and length, and keep no pointer.
    return ioctl(fd_.get(), request, range) == 0 ? 0 : errno;
  }

  const UniqueFd fd_;
  const DiskInfo info_;
  const bool block_device_;
  // What this host was found not to do.
  std::atomic<bool> dsync_works_{true};
  std::atomic<bool> discard_works_{true};
  std::atomic<bool> punch_works_{true};
  std::atomic<bool> zero_works_{true};
};

// A power of two that a guest can be told of.
uint32_t BlockSize(uint64_t bytes) {
  return IsPowerOfTwo(bytes) && bytes >= kSectorBytes && bytes <= (64 << 10) ? static_cast<uint32_t>(bytes)
                                                                             : uint32_t{kSectorBytes};
}

absl::Status AskBlockDevice(int fd, DiskInfo* info) {
  uint64_t bytes = 0;
  int logical = 0;
  unsigned physical = 0;
  // SAFETY: each of these calls writes one value of the type that <linux/fs.h> gives it, and keeps no pointer.
  if (ioctl(fd, BLKGETSIZE64, &bytes) != 0) return ErrnoToStatus(errno, "BLKGETSIZE64");
  if (ioctl(fd, BLKSSZGET, &logical) != 0) return ErrnoToStatus(errno, "BLKSSZGET");
  if (ioctl(fd, BLKPBSZGET, &physical) != 0) return ErrnoToStatus(errno, "BLKPBSZGET");
  info->bytes = bytes;
  info->logical_block = BlockSize(static_cast<uint64_t>(std::max(logical, 0)));
  info->physical_block = std::max(info->logical_block, BlockSize(physical));
  return absl::OkStatus();
}

}  // namespace

absl::Span<iovec> Advance(absl::Span<iovec> pieces, size_t bytes) {
  while (!pieces.empty() && bytes >= pieces.front().iov_len) {
    bytes -= pieces.front().iov_len;
    pieces.remove_prefix(1);
  }
  if (!pieces.empty() && bytes > 0) {
    pieces.front().iov_base = static_cast<uint8_t*>(pieces.front().iov_base) + bytes;
    pieces.front().iov_len -= bytes;
  }
  return pieces;
}

absl::StatusOr<std::unique_ptr<Disk>> OpenDisk(UniqueFd fd, bool read_only) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return ErrnoToStatus(errno, "disk: fstat");
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0) return ErrnoToStatus(errno, "disk: F_GETFL");
  const int access = flags & O_ACCMODE;
  if (access == O_WRONLY || (access == O_RDONLY && !read_only)) {
    return absl::InvalidArgumentError("disk: open it for reading and writing, or use it as a read-only disk");
  }
  if ((flags & O_APPEND) != 0) return absl::InvalidArgumentError("disk: opened with O_APPEND, writes would go astray");

  DiskInfo info;
  info.read_only = read_only;
  const bool block_device = S_ISBLK(status.st_mode);
  if (block_device) {
    SLUICE_RETURN_IF_ERROR(Annotate(AskBlockDevice(fd.get(), &info), "disk"));
  } else if (S_ISREG(status.st_mode)) {
    info.bytes = static_cast<uint64_t>(std::max<off_t>(status.st_size, 0));
    info.physical_block = BlockSize(static_cast<uint64_t>(status.st_blksize));
  } else {
    return absl::InvalidArgumentError("disk: neither a regular file nor a block device");
  }
  if (info.bytes < kSectorBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("disk: ", info.bytes, " bytes; it takes at least one sector of 512"));
  }
  return std::make_unique<HostDisk>(std::move(fd), info, block_device);
}

}  // namespace sluice::block
