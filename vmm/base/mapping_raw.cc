#include <sys/mman.h>

#include <cerrno>

#include "vmm/base/checked.h"
#include "vmm/base/mapping.h"
#include "vmm/base/status_macros.h"

namespace sluice {

Mapping& Mapping::operator=(Mapping&& o) noexcept {
  if (this != &o) {
    if (data_ != nullptr) munmap(data_, size_);
    data_ = std::exchange(o.data_, nullptr);
    size_ = std::exchange(o.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  // SAFETY: data_/size_ come from a successful mmap and are given away only together.
  if (data_ != nullptr) munmap(data_, size_);
}

absl::StatusOr<Mapping> Mapping::MapShared(int fd, uint64_t offset, uint64_t size, Access access) {
  if (size == 0 || offset % kPageSize != 0 || !CheckedAdd(offset, size).has_value()) {
    return absl::InvalidArgumentError("mapping: size must be positive and offset page-aligned");
  }
  const int prot = access == kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  // SAFETY: address chosen by the kernel; nothing existing is replaced.
  void* p = mmap(nullptr, size, prot, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) return ErrnoToStatus(errno, "mmap");
  return Mapping(static_cast<uint8_t*>(p), size);
}

absl::StatusOr<Mapping> Mapping::MapAnonymous(uint64_t size) {
  if (size == 0) return absl::InvalidArgumentError("mapping: size must be positive");
  // SAFETY: as above.
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return ErrnoToStatus(errno, "mmap");
  return Mapping(static_cast<uint8_t*>(p), size);
}

}  // namespace sluice
