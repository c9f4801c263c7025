#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <iterator>

#include "devices/gpu-front/blobs.h"
#include "flatbuf/ring.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {

absl::Status BlobWindow::Reserve(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || offset % kPageSize != 0 || bytes % kPageSize != 0) {
    return absl::InvalidArgumentError("window ranges are whole pages");
  }
  if (!RangeFits(offset, bytes, size_)) return absl::InvalidArgumentError("outside the host-visible window");
  const auto next = taken_.lower_bound(offset);
  if (next != taken_.end() && next->first - offset < bytes) return absl::InvalidArgumentError("overlaps a mapped blob");
  if (next != taken_.begin()) {
    const auto previous = std::prev(next);
    if (offset - previous->first < previous->second) return absl::InvalidArgumentError("overlaps a mapped blob");
  }
  taken_.emplace(offset, bytes);
  return absl::OkStatus();
}

absl::StatusOr<Mapping> MapBlobMemory(const UniqueFd& memfd, uint64_t bytes) {
  const int seals = fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0) return absl::FailedPreconditionError("blob descriptor is no memfd");
  if ((seals & F_SEAL_SHRINK) == 0) return absl::FailedPreconditionError("blob memfd can shrink");
  struct stat info {};
  if (fstat(memfd.get(), &info) != 0) return ErrnoToStatus(errno, "fstat of a blob");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::FailedPreconditionError("blob memfd is shorter than the blob");
  }
  return Mapping::MapShared(memfd.get(), 0, bytes, Mapping::kReadWrite);
}

void SetRingStatus(const Mapping& ring, wire::LostReason reason) {
  if (ring.size() < sizeof(wire::RingHeader)) return;
  // SAFETY: a mapping is page-aligned and at least a header long; RingHeader's members are plain integers and lock-free
  // atomics, valid for any bytes; the memory is shared with guest and worker, and only the atomic below is touched.
  auto* header = reinterpret_cast<wire::RingHeader*>(ring.data());
  uint32_t none = static_cast<uint32_t>(wire::LostReason::kNone);
  header->status.compare_exchange_strong(none, static_cast<uint32_t>(reason), std::memory_order_release,
                                         std::memory_order_relaxed);
}

}  // namespace sluice::gpu_front
