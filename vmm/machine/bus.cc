#include "vmm/machine/bus.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"

namespace sluice::machine {

absl::Status Bus::Add(uint64_t start, uint64_t size, absl::string_view name, BusHandler* handler) {
  const auto end = CheckedAdd<uint64_t>(start, size);
  if (size == 0 || !end.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("bus range of ", name, ": empty or past the end"));
  }
  const uint64_t last = *end - 1;
  const auto after = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.last >= start; });
  if (after != ranges_.end() && after->start <= last) {
    return absl::InvalidArgumentError(absl::StrCat("bus range of ", name, " overlaps that of ", after->name));
  }
  ranges_.insert(after, Range{start, last, std::string(name), handler});
  return absl::OkStatus();
}

const Bus::Range* Bus::Find(uint64_t address, uint64_t size) const {
  const auto it = std::lower_bound(ranges_.begin(), ranges_.end(), address,
                                   [](const Range& range, uint64_t value) { return range.last < value; });
  if (it == ranges_.end() || size == 0 || address < it->start || size - 1 > it->last - address) return nullptr;
  return &*it;
}

bool Bus::Read(uint64_t address, absl::Span<uint8_t> to) const {
  if (const Range* range = Find(address, to.size())) {
    range->handler->Read(address - range->start, to);
    return true;
  }
  std::fill(to.begin(), to.end(), 0xff);
  return false;
}

bool Bus::Write(uint64_t address, absl::Span<const uint8_t> from) const {
  const Range* range = Find(address, from.size());
  if (range == nullptr) return false;
  range->handler->Write(address - range->start, from);
  return true;
}

}  // namespace sluice::machine
