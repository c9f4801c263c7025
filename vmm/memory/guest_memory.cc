#include "vmm/memory/guest_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/memory/shared_access_raw.h"

namespace sluice::memory {

struct GuestMemory::State {
  std::vector<Region> regions;  // ascending, disjoint

  // The region that holds `address`, or nullptr.
  const Region* Find(GuestAddress address) const {
    auto it = std::upper_bound(regions.begin(), regions.end(), address,
                               [](GuestAddress a, const Region& r) { return a < r.start(); });
    if (it == regions.begin()) return nullptr;
    --it;
    return it->range().Contains(address) ? &*it : nullptr;
  }

  bool Contains(GuestAddress address, uint64_t bytes) const {
    while (bytes > 0) {
      const Region* region = Find(address);
      if (region == nullptr) return false;
      const uint64_t room = region->size() - *address.OffsetFrom(region->start());
      if (bytes <= room) return true;
      bytes -= room;
      const auto next = address.CheckedAdd(room);
      if (!next.has_value()) return false;
      address = *next;
    }
    return true;
  }
};

namespace {

absl::Status NotRam(GuestAddress address, uint64_t bytes) {
  return absl::OutOfRangeError(absl::StrCat("guest range ", address.ToString(), "+", Hex(bytes), " is not all RAM"));
}

absl::Status CheckConfig(const RegionConfig& config) {
  const std::string where = absl::StrCat("memory region \"", config.name, "\" at ", config.start.ToString());
  if (config.size == 0 || config.size % kPageSize != 0 || !config.start.IsAligned(kPageSize) ||
      config.fd_offset % kPageSize != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": start, size (", Hex(config.size),
                                                   ") and file offset must be multiples of 4 KiB, size not 0"));
  }
  if (!GuestRange::Create(config.start, config.size).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": wraps around the end of the address space"));
  }
  if (config.fd.valid()) {
    struct stat st = {};
    if (fstat(config.fd.get(), &st) != 0) return Annotate(ErrnoToStatus(errno, "fstat"), where);
    if (st.st_size < 0 || !RangeFits(config.fd_offset, config.size, static_cast<uint64_t>(st.st_size))) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": the file has ", st.st_size, " bytes, too few"));
    }
  }
  return absl::OkStatus();
}

// Calls `f(host pointer, bytes)` for each piece of a range that is known to be RAM.
template <typename State, typename F>
void ForEachPiece(const State& state, GuestAddress address, uint64_t bytes, F f) {
  while (bytes > 0) {
    const Region* region = state.Find(address);
    const uint64_t offset = *address.OffsetFrom(region->start());
    const uint64_t piece = std::min(bytes, region->size() - offset);
    f(region->mapping()->data() + offset, piece);
    bytes -= piece;
    if (bytes > 0) address = GuestAddress(address.value() + piece);
  }
}

}  // namespace

absl::StatusOr<GuestMemory> GuestMemory::Create(std::vector<RegionConfig> regions) {
  std::sort(regions.begin(), regions.end(),
            [](const RegionConfig& a, const RegionConfig& b) { return a.start < b.start; });
  auto state = std::make_shared<State>();
  state->regions.reserve(regions.size());
  for (RegionConfig& config : regions) {
    SLUICE_RETURN_IF_ERROR(CheckConfig(config));
    const GuestRange range = *GuestRange::Create(config.start, config.size);
    if (!state->regions.empty() && state->regions.back().range().Overlaps(range)) {
      return absl::InvalidArgumentError(absl::StrCat("memory region \"", config.name, "\" ", range.ToString(),
                                                     " overlaps ", state->regions.back().range().ToString()));
    }
    const std::string where = absl::StrCat("memory region \"", config.name, "\"");
    if (!config.fd.valid()) {
      auto fd = CreateMemFd(config.name, config.size);
      if (!fd.ok()) return Annotate(fd.status(), where);
      config.fd = *std::move(fd);
      config.fd_offset = 0;
    }
    auto mapping = Mapping::MapShared(config.fd.get(), config.fd_offset, config.size, Mapping::kReadWrite);
    if (!mapping.ok()) return Annotate(mapping.status(), where);
    state->regions.push_back(
        Region(range, std::move(config.fd), config.fd_offset, std::make_shared<const Mapping>(*std::move(mapping))));
  }
  GuestMemory memory;
  memory.state_ = std::move(state);
  return memory;
}

absl::StatusOr<GuestMemory> GuestMemory::CreateSimple(uint64_t size) {
  std::vector<RegionConfig> regions(1);
  regions[0].size = size;
  return Create(std::move(regions));
}

absl::Span<const Region> GuestMemory::regions() const {
  if (state_ == nullptr) return {};
  return state_->regions;
}

uint64_t GuestMemory::size() const {
  uint64_t sum = 0;
  for (const Region& region : regions()) sum += region.size();
  return sum;
}

bool GuestMemory::Contains(GuestAddress address, uint64_t bytes) const {
  if (bytes == 0) return true;
  return state_ != nullptr && state_->Contains(address, bytes);
}

absl::Status GuestMemory::ReadBytes(GuestAddress address, void* to, uint64_t bytes) const {
  if (!Contains(address, bytes)) return NotRam(address, bytes);
  auto* out = static_cast<uint8_t*>(to);
  if (bytes == 0) return absl::OkStatus();
  ForEachPiece(*state_, address, bytes, [&out](const uint8_t* from, uint64_t piece) {
    internal::FetchBytes(out, from, piece);
    out += piece;
  });
  return absl::OkStatus();
}

absl::Status GuestMemory::WriteBytes(GuestAddress address, const void* from, uint64_t bytes) const {
  if (!Contains(address, bytes)) return NotRam(address, bytes);
  const auto* in = static_cast<const uint8_t*>(from);
  if (bytes == 0) return absl::OkStatus();
  ForEachPiece(*state_, address, bytes, [&in](uint8_t* to, uint64_t piece) {
    internal::StoreBytes(to, in, piece);
    in += piece;
  });
  return absl::OkStatus();
}

absl::Status GuestMemory::CopyFrom(GuestAddress from, absl::Span<uint8_t> to) const {
  return ReadBytes(from, to.data(), to.size());
}

absl::Status GuestMemory::CopyTo(GuestAddress to, absl::Span<const uint8_t> from) const {
  return WriteBytes(to, from.data(), from.size());
}

absl::Status GuestMemory::Fill(GuestAddress address, uint8_t value, uint64_t bytes) const {
  if (!Contains(address, bytes)) return NotRam(address, bytes);
  if (bytes == 0) return absl::OkStatus();
  ForEachPiece(*state_, address, bytes,
               [value](uint8_t* to, uint64_t piece) { internal::FillBytes(to, value, piece); });
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<T> GuestMemory::Load(GuestAddress address, std::memory_order order) const {
  if (!address.IsAligned(sizeof(T))) {
    return absl::InvalidArgumentError(
        absl::StrCat("atomic access of ", sizeof(T), " bytes at unaligned guest address ", address.ToString()));
  }
  // Regions are page-aligned, so an aligned value lies within one.
  const Region* region = state_ == nullptr ? nullptr : state_->Find(address);
  if (region == nullptr) return NotRam(address, sizeof(T));
  return internal::AtomicLoad<T>(region->mapping()->data() + *address.OffsetFrom(region->start()), order);
}

template <typename T>
absl::Status GuestMemory::Store(GuestAddress address, T value, std::memory_order order) const {
  if (!address.IsAligned(sizeof(T))) {
    return absl::InvalidArgumentError(
        absl::StrCat("atomic access of ", sizeof(T), " bytes at unaligned guest address ", address.ToString()));
  }
  const Region* region = state_ == nullptr ? nullptr : state_->Find(address);
  if (region == nullptr) return NotRam(address, sizeof(T));
  internal::AtomicStore<T>(region->mapping()->data() + *address.OffsetFrom(region->start()), value, order);
  return absl::OkStatus();
}

template absl::StatusOr<uint8_t> GuestMemory::Load(GuestAddress, std::memory_order) const;
template absl::StatusOr<uint16_t> GuestMemory::Load(GuestAddress, std::memory_order) const;
template absl::StatusOr<uint32_t> GuestMemory::Load(GuestAddress, std::memory_order) const;
template absl::StatusOr<uint64_t> GuestMemory::Load(GuestAddress, std::memory_order) const;
template absl::Status GuestMemory::Store(GuestAddress, uint8_t, std::memory_order) const;
template absl::Status GuestMemory::Store(GuestAddress, uint16_t, std::memory_order) const;
template absl::Status GuestMemory::Store(GuestAddress, uint32_t, std::memory_order) const;
template absl::Status GuestMemory::Store(GuestAddress, uint64_t, std::memory_order) const;

}  // namespace sluice::memory
