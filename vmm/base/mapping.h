// File: mapping.h
//
// Host memory mappings with one owner. The only pointer maker outside vmm/memory; see mapping_raw.cc for why each is
// sound.
//
//   SLUICE_ASSIGN_OR_RETURN(UniqueFd fd, CreateMemFd("ring", 1 << 20));
//   SLUICE_ASSIGN_OR_RETURN(Mapping map, Mapping::MapShared(fd.get(), 0, 1 << 20, Mapping::kReadWrite));
#ifndef SLUICE_VMM_BASE_MAPPING_H_
#define SLUICE_VMM_BASE_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

// Movable; unmaps on destruction. Bytes may be shared with an untrusted peer that writes at any time: read through
// volatile or atomic accesses, or copy first.
class Mapping {
 public:
  enum Access { kRead, kReadWrite };

  Mapping() = default;
  Mapping(Mapping&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Mapping& operator=(Mapping&& o) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  // Maps [offset, offset + size) of `fd`, shared. `offset` is page-aligned, size > 0. The fd may be closed afterwards.
  static absl::StatusOr<Mapping> MapShared(int fd, uint64_t offset, uint64_t size, Access access);
  // Private zeroed memory, lazily backed (MAP_NORESERVE).
  static absl::StatusOr<Mapping> MapAnonymous(uint64_t size);

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }

 private:
  Mapping(uint8_t* data, uint64_t size) : data_(data), size_(size) {}
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_MAPPING_H_
