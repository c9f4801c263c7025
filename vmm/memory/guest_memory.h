// File: guest_memory.h
//
// A guest's RAM: regions of shared memory at guest-physical addresses, and the only way for devices to touch them.
//
//   std::vector<RegionConfig> regions(1);
//   regions[0] = {.start = GuestAddress(0), .size = 64 * kMiB, .name = "ram"};
//   SLUICE_ASSIGN_OR_RETURN(GuestMemory ram, GuestMemory::Create(std::move(regions)));
//   SLUICE_ASSIGN_OR_RETURN(Descriptor d, ram.Read<Descriptor>(address));      // one private copy: check it, use it
//   SLUICE_ASSIGN_OR_RETURN(uint16_t head, ram.Load<uint16_t>(avail_idx));      // acquire
//   SLUICE_RETURN_IF_ERROR(ram.Store<uint16_t>(used_idx, tail));                // release
//
// Rules:
//  * The guest writes at any time. Every accessor copies; no pointer into guest RAM leaves this library (except a
//  region's
//    base, for KVM memslots). Each byte is fetched once per call, so what you check is what you use.
//  * Aligned 1, 2, 4 and 8 byte values are never torn. Longer ones may be: that is the guest's loss, not ours.
//  * Ranges are checked before anything is copied; a range may cross from one region into an adjacent one.
//  * Accesses need no lock and may come from any thread.
//
// Errors of every accessor: OUT_OF_RANGE, part of the range is not guest RAM (nothing was copied); INVALID_ARGUMENT, an
// atomic access is not naturally aligned. Both are the guest's fault: answer as the device's specification says.
#ifndef SLUICE_VMM_MEMORY_GUEST_MEMORY_H_
#define SLUICE_VMM_MEMORY_GUEST_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"
#include "vmm/memory/address.h"

namespace sluice::memory {

// One region to be made. `start` and `size` are multiples of 4 KiB.
struct RegionConfig {
  GuestAddress start;
  uint64_t size = 0;
  // Shows in /proc/PID/maps as memfd:NAME when the region makes its own memfd.
  std::string name = "guest-ram";
  // Memory to use instead of a new memfd: [fd_offset, fd_offset + size) of it. It must be at least that long and must
  // not shrink afterwards (CreateMemFd() seals it so), or an access would raise SIGBUS.
  UniqueFd fd = {};
  uint64_t fd_offset = 0;
};

// One mapped region; immutable. Owned by the GuestMemory.
class Region {
 public:
  GuestRange range() const { return range_; }
  GuestAddress start() const { return range_.start(); }
  uint64_t size() const { return range_.size(); }
  int fd() const { return fd_.get(); }
  uint64_t fd_offset() const { return fd_offset_; }
  // The host mapping: size() bytes, read-write, shared. For memslots (it may be shared with them) and nothing else.
  const std::shared_ptr<const Mapping>& mapping() const { return mapping_; }

 private:
  friend class GuestMemory;
  Region(GuestRange range, UniqueFd fd, uint64_t fd_offset, std::shared_ptr<const Mapping> mapping)
      : range_(range), fd_(std::move(fd)), fd_offset_(fd_offset), mapping_(std::move(mapping)) {}
  GuestRange range_;
  UniqueFd fd_;
  uint64_t fd_offset_;
  std::shared_ptr<const Mapping> mapping_;
};

// A handle: copies are cheap and name the same RAM, which lives until the last copy (and the last memslot) is gone.
// Methods are const because the handle does not change; the RAM does. Thread-safe. A default-constructed one has no
// RAM.
class GuestMemory {
 public:
  GuestMemory() = default;

  // Maps every region. Errors: INVALID_ARGUMENT for unaligned, empty, wrapping or overlapping regions or an fd that is
  // too short; otherwise what memfd_create or mmap said, with the region named.
  static absl::StatusOr<GuestMemory> Create(std::vector<RegionConfig> regions);
  // RAM of `size` bytes at address 0, in one memfd.
  static absl::StatusOr<GuestMemory> CreateSimple(uint64_t size);

  // The regions, ascending by address.
  absl::Span<const Region> regions() const;
  // Sum of the regions' sizes, bytes.
  uint64_t size() const;
  // True if all of [address, address + bytes) is RAM. Zero bytes are, anywhere.
  bool Contains(GuestAddress address, uint64_t bytes) const;

  // A private copy of the T at `address`, any alignment.
  template <typename T>
  absl::StatusOr<T> Read(GuestAddress address) const {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
    T value{};
    absl::Status status = ReadBytes(address, &value, sizeof(T));
    if (!status.ok()) return status;
    return value;
  }
  template <typename T>
  absl::Status Write(GuestAddress address, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return WriteBytes(address, &value, sizeof(T));
  }

  // Guest to host: fills `to` from RAM at `from`.
  absl::Status CopyFrom(GuestAddress from, absl::Span<uint8_t> to) const;
  // Host to guest: writes `from` to RAM at `to`.
  absl::Status CopyTo(GuestAddress to, absl::Span<const uint8_t> from) const;
  // Sets `bytes` bytes from `address` on to `value`.
  absl::Status Fill(GuestAddress address, uint8_t value, uint64_t bytes) const;

  // Atomic access to a naturally aligned T: uint8_t, uint16_t, uint32_t or uint64_t. Ring indices are loaded with
  // acquire and stored with release. "Publish mine, then look at theirs" (event suppression) wants memory_order_seq_cst
  // on both.
  template <typename T>
  absl::StatusOr<T> Load(GuestAddress address, std::memory_order order = std::memory_order_acquire) const;
  template <typename T>
  absl::Status Store(GuestAddress address, T value, std::memory_order order = std::memory_order_release) const;

 private:
  struct State;
  absl::Status ReadBytes(GuestAddress address, void* to, uint64_t bytes) const;
  absl::Status WriteBytes(GuestAddress address, const void* from, uint64_t bytes) const;

  std::shared_ptr<const State> state_;
};

}  // namespace sluice::memory

#endif  // SLUICE_VMM_MEMORY_GUEST_MEMORY_H_
