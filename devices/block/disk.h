// File: disk.h
//
// What a block device stores to: a regular file or a host's block device, by descriptor (whoever opened it had a file
// system; this process need not).
//
//   SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Disk> disk, OpenDisk(std::move(fd), /*read_only=*/false));
//   SLUICE_RETURN_IF_ERROR(disk->Write(offset, pieces, /*durable=*/false));
//   SLUICE_RETURN_IF_ERROR(disk->Flush());                  // what was written before it is on the medium now
#ifndef SLUICE_DEVICES_BLOCK_DISK_H_
#define SLUICE_DEVICES_BLOCK_DISK_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/unique_fd.h"

namespace sluice::block {

struct DiskInfo {
  uint64_t bytes = 0;
  bool read_only = false;
  // Powers of two, bytes: what the host addresses at least, and what it writes without reading first.
  uint32_t logical_block = 512;
  uint32_t physical_block = 512;
};

// All operations block, may come from several threads at once, and leave their order to the caller. Ranges are within
// info().bytes and not empty. Errors: what the host said, naming the call; DATA_LOSS: the file is shorter than it was.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual const DiskInfo& info() const = 0;
  // For engines that talk to the kernel themselves; -1: there is no descriptor. Owned here.
  virtual int fd() const { return -1; }

  // Fill, or store, all of `pieces` (changed on the way). `durable`: on the medium before it returns.
  virtual absl::Status Read(uint64_t offset, absl::Span<iovec> pieces) = 0;
  virtual absl::Status Write(uint64_t offset, absl::Span<iovec> pieces, bool durable) = 0;
  // Puts whatever was written before the call on the medium (fdatasync(2)).
  virtual absl::Status Flush() = 0;
  // Says that nobody needs these bytes. A hint: a host that cannot is no error.
  virtual absl::Status Discard(uint64_t offset, uint64_t bytes) = 0;
  // Makes them zeros; with `unmap` they may stop to take up space.
  virtual absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool unmap) = 0;
};

// Takes a file or block device that was opened with O_RDWR (or O_RDONLY, if `read_only`). INVALID_ARGUMENT: it is
// neither, is opened for too little or with O_APPEND, or is shorter than a sector.
absl::StatusOr<std::unique_ptr<Disk>> OpenDisk(UniqueFd fd, bool read_only);

// Drops the first `bytes` bytes of `pieces`: what is left after a short transfer.
absl::Span<iovec> Advance(absl::Span<iovec> pieces, size_t bytes);

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_DISK_H_
