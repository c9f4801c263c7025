#include "vmm/pci/msix.h"

#include <algorithm>

#include "vmm/base/checked.h"

namespace sluice::pci {
namespace {

void StoreLe(uint32_t value, absl::Span<uint8_t> to) {
  for (size_t i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t LoadLe(absl::Span<const uint8_t> from) {
  return from[0] | (uint32_t{from[1]} << 8) | (uint32_t{from[2]} << 16) | (uint32_t{from[3]} << 24);
}

}  // namespace

MsixTable::MsixTable(uint16_t vectors, MsixNotifier* notifier)
    : vectors_(std::clamp<uint16_t>(vectors, 1, kMaxMsixVectors)), notifier_(notifier), entries_(vectors_) {}

void MsixTable::ReadTable(uint64_t offset, absl::Span<uint8_t> to) const {
  std::fill(to.begin(), to.end(), 0xff);
  if (!RangeFits(offset, to.size(), table_bytes())) return;
  MutexLock lock(&mu_);
  for (size_t i = 0; i < to.size(); ++i) {
    const uint64_t at = offset + i;
    const Entry& entry = entries_[at / kMsixEntryBytes];
    uint8_t image[kMsixEntryBytes];
    StoreLe(static_cast<uint32_t>(entry.message.address), absl::MakeSpan(image + kMsixEntryAddress, 4));
    StoreLe(static_cast<uint32_t>(entry.message.address >> 32), absl::MakeSpan(image + kMsixEntryAddressHigh, 4));
    StoreLe(entry.message.data, absl::MakeSpan(image + kMsixEntryData, 4));
    StoreLe(entry.control, absl::MakeSpan(image + kMsixEntryControl, 4));
    to[i] = image[at % kMsixEntryBytes];
  }
}

void MsixTable::WriteTable(uint64_t offset, absl::Span<const uint8_t> from) {
  if (from.size() != 4 && from.size() != 8) return;
  if (offset % from.size() != 0 || !RangeFits(offset, from.size(), table_bytes())) return;
  MutexLock lock(&mu_);
  const auto vector = static_cast<uint16_t>(offset / kMsixEntryBytes);
  Entry& entry = entries_[vector];
  for (size_t i = 0; i < from.size(); i += 4) {
    const uint32_t value = LoadLe(from.subspan(i, 4));
    switch ((offset + i) % kMsixEntryBytes) {
      case kMsixEntryAddress:  // the low two bits are always zero
        entry.message.address = (entry.message.address & ~uint64_t{0xffffffff}) | (value & ~3u);
        break;
      case kMsixEntryAddressHigh:
        entry.message.address = (entry.message.address & 0xffffffff) | (uint64_t{value} << 32);
        break;
      case kMsixEntryData:
        entry.message.data = value;
        break;
      default:
        entry.control = value & kMsixEntryMasked;
        break;
    }
  }
  Update(vector);
}

void MsixTable::ReadPba(uint64_t offset, absl::Span<uint8_t> to) const {
  std::fill(to.begin(), to.end(), 0xff);
  if (!RangeFits(offset, to.size(), pba_bytes())) return;
  MutexLock lock(&mu_);
  for (size_t i = 0; i < to.size(); ++i) {
    uint8_t bits = 0;
    for (size_t bit = 0; bit < 8; ++bit) {
      const uint64_t vector = (offset + i) * 8 + bit;
      if (vector < vectors_ && entries_[vector].pending) bits |= static_cast<uint8_t>(1u << bit);
    }
    to[i] = bits;
  }
}

void MsixTable::SetControl(uint16_t control) {
  MutexLock lock(&mu_);
  control_ = control & (kMsixEnable | kMsixFunctionMask);
  for (uint16_t vector = 0; vector < vectors_; ++vector) {
    // What waited for a function that is now off must not fire when it is switched on again.
    if ((control_ & kMsixEnable) == 0) entries_[vector].pending = false;
    Update(vector);
  }
}

bool MsixTable::Deliverable(const Entry& entry) const {
  return (control_ & kMsixEnable) != 0 && (control_ & kMsixFunctionMask) == 0 &&
         (entry.control & kMsixEntryMasked) == 0;
}

void MsixTable::Update(uint16_t vector) {
  Entry& entry = entries_[vector];
  const bool deliverable = Deliverable(entry);
  if (deliverable != entry.announced || (deliverable && entry.message != entry.announced_message)) {
    entry.announced = deliverable;
    entry.announced_message = entry.message;
    if (notifier_ != nullptr) notifier_->SetVector(vector, deliverable, entry.message);
  }
  if (deliverable && entry.pending) {
    entry.pending = false;
    ++sent_;
    if (notifier_ != nullptr) notifier_->Signal(vector);
  }
}

bool MsixTable::Signal(uint16_t vector) {
  if (vector >= vectors_) return false;
  MutexLock lock(&mu_);
  if ((control_ & kMsixEnable) == 0) return false;
  Entry& entry = entries_[vector];
  if (!Deliverable(entry)) {
    entry.pending = true;
    return false;
  }
  ++sent_;
  if (notifier_ != nullptr) notifier_->Signal(vector);
  return true;
}

bool MsixTable::enabled() const {
  MutexLock lock(&mu_);
  return (control_ & kMsixEnable) != 0;
}

uint64_t MsixTable::sent() const {
  MutexLock lock(&mu_);
  return sent_;
}

}  // namespace sluice::pci
