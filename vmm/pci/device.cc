#include "vmm/pci/device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::pci {
namespace {

using memory::GuestAddress;
using memory::GuestRange;

constexpr uint64_t kMaxBar32 = uint64_t{1} << 31;
constexpr uint64_t kMaxBar64 = uint64_t{1} << 46;

bool Overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

uint16_t BarRegister(uint8_t bar) {
  return static_cast<uint16_t>(kRegBar0 + 4 * bar);
}

}  // namespace

PciDevice::PciDevice(std::string name, const PciIdentity& identity) : name_(std::move(name)) {
  MutexLock lock(&mu_);
  config_.Set16(kRegVendorId, identity.vendor_id);
  config_.Set16(kRegDeviceId, identity.device_id);
  config_.Set8(kRegRevision, identity.revision);
  config_.Set8(kRegClass, static_cast<uint8_t>(identity.class_code));
  config_.Set8(kRegClass + 1, static_cast<uint8_t>(identity.class_code >> 8));
  config_.Set8(kRegClass + 2, static_cast<uint8_t>(identity.class_code >> 16));
  config_.Set16(kRegSubsystemVendorId, identity.subsystem_vendor_id);
  config_.Set16(kRegSubsystemId, identity.subsystem_id);
  config_.SetWritable16(kRegCommand,
                        kCommandMemory | kCommandBusMaster | kCommandParity | kCommandSerr | kCommandIntxDisable);
  config_.SetWritable8(kRegCacheLineSize, 0xff);
  config_.SetWritable8(kRegInterruptLine, 0xff);
}

absl::Status PciDevice::AddBar(const BarSpec& spec) {
  const bool wide = spec.kind == BarKind::kMemory64Prefetchable;
  const std::string where = absl::StrCat(name_, ", BAR ", spec.index);
  if (spec.index >= kBarCount || (wide && spec.index + 1 >= kBarCount)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": no such index"));
  }
  for (const auto& bar : bars_) {
    if (!bar.has_value()) continue;
    const uint8_t end = bar->index + (bar->kind == BarKind::kMemory64Prefetchable ? 2 : 1);
    if (spec.index < end && bar->index < spec.index + (wide ? 2 : 1)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": index taken"));
    }
  }
  if (!IsPowerOfTwo(spec.size) || spec.size < kPageSize || spec.size > (wide ? kMaxBar64 : kMaxBar32)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": size ", spec.size, " is not a power of two from 4 KiB on"));
  }
  bars_[spec.index] = spec;
  MutexLock lock(&mu_);
  const uint64_t mask = ~(spec.size - 1);
  config_.Set32(BarRegister(spec.index), wide ? kBarMemory64 | kBarPrefetchable : 0);
  config_.SetWritable32(BarRegister(spec.index), static_cast<uint32_t>(mask));
  if (wide) config_.SetWritable32(BarRegister(spec.index + 1), static_cast<uint32_t>(mask >> 32));
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> PciDevice::AddCapability(uint8_t id, absl::Span<const uint8_t> body) {
  MutexLock lock(&mu_);
  auto offset = config_.AddCapability(id, body);
  if (!offset.ok()) return Annotate(offset.status(), name_);
  return offset;
}

absl::Status PciDevice::EnableMsix(uint16_t vectors, uint8_t bar, uint32_t table_offset, uint32_t pba_offset,
                                   MsixNotifier* notifier) {
  if (vectors == 0 || vectors > kMaxMsixVectors || !ImplementsBar(bar)) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": MSI-X with ", vectors, " vectors in BAR ", bar));
  }
  auto table = std::make_unique<MsixTable>(vectors, notifier);
  const uint64_t size = bars_[bar]->size;
  if (table_offset % 8 != 0 || pba_offset % 8 != 0 || !RangeFits(table_offset, table->table_bytes(), size) ||
      !RangeFits(pba_offset, table->pba_bytes(), size) ||
      Overlaps(table_offset, table->table_bytes(), pba_offset, table->pba_bytes())) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": MSI-X table or pending bits do not fit into BAR ", bar));
  }
  std::array<uint8_t, kMsixCapabilityBytes - 2> body = {};
  SLUICE_ASSIGN_OR_RETURN(msix_capability_, AddCapability(kCapabilityMsix, body));
  MutexLock lock(&mu_);
  config_.Set16(msix_capability_ + kMsixControl, static_cast<uint16_t>(vectors - 1));
  config_.SetWritable16(msix_capability_ + kMsixControl, kMsixEnable | kMsixFunctionMask);
  config_.Set32(msix_capability_ + kMsixTableOffset, table_offset | bar);
  config_.Set32(msix_capability_ + kMsixPbaOffset, pba_offset | bar);
  msix_table_offset_ = table_offset;
  msix_pba_offset_ = pba_offset;
  msix_ = std::move(table);
  return absl::OkStatus();
}

void PciDevice::MsixRead(uint64_t bar_offset, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0);
  if (msix_ == nullptr) return;
  if (Overlaps(bar_offset, to.size(), msix_table_offset_, msix_->table_bytes())) {
    msix_->ReadTable(bar_offset - msix_table_offset_, to);  // wraps, and so is refused, when it begins before the table
  } else if (Overlaps(bar_offset, to.size(), msix_pba_offset_, msix_->pba_bytes())) {
    msix_->ReadPba(bar_offset - msix_pba_offset_, to);
  }
}

void PciDevice::MsixWrite(uint64_t bar_offset, absl::Span<const uint8_t> from) {
  if (msix_ == nullptr || bar_offset < msix_table_offset_) return;
  msix_->WriteTable(bar_offset - msix_table_offset_, from);  // pending bits are read-only
}

void PciDevice::SetConfigWritable8(uint16_t offset, uint8_t mask) {
  MutexLock lock(&mu_);
  config_.SetWritable8(offset, mask);
}

void PciDevice::SetConfigWritable32(uint16_t offset, uint32_t mask) {
  MutexLock lock(&mu_);
  config_.SetWritable32(offset, mask);
}

void PciDevice::PeekConfig(uint16_t offset, absl::Span<uint8_t> to) const {
  MutexLock lock(&mu_);
  config_.Read(offset, to);
}

void PciDevice::PokeConfig(uint16_t offset, absl::Span<const uint8_t> from) {
  MutexLock lock(&mu_);
  for (size_t i = 0; i < from.size() && offset + i < kExtendedConfigSpaceBytes; ++i) {
    config_.Set8(static_cast<uint16_t>(offset + i), from[i]);
  }
}

void PciDevice::ConfigRead(uint16_t offset, absl::Span<uint8_t> to) {
  OnConfigRead(offset, to.size());
  MutexLock lock(&mu_);
  config_.Read(offset, to);
}

void PciDevice::ConfigWrite(uint16_t offset, absl::Span<const uint8_t> from) {
  {
    MutexLock lock(&mu_);
    config_.Write(offset, from);
    if (Overlaps(offset, from.size(), kRegCommand, 2) || Overlaps(offset, from.size(), kRegBar0, 4 * kBarCount)) {
      UpdateBars();
    }
    if (msix_ != nullptr && Overlaps(offset, from.size(), msix_capability_ + kMsixControl, 2)) {
      msix_->SetControl(config_.Get16(msix_capability_ + kMsixControl));
    }
  }
  OnConfigWritten(offset, from.size());
}

std::optional<GuestRange> PciDevice::Decoded(const BarSpec& bar) const {
  if ((config_.Get16(kRegCommand) & kCommandMemory) == 0) return std::nullopt;
  uint64_t address = config_.Get32(BarRegister(bar.index)) & ~kBarFlagMask;
  if (bar.kind == BarKind::kMemory64Prefetchable) address |= uint64_t{config_.Get32(BarRegister(bar.index + 1))} << 32;
  if (address == 0) return std::nullopt;  // nobody has given it an address
  const auto range = GuestRange::Create(GuestAddress(address), bar.size);
  if (!range.has_value()) return std::nullopt;
  if (windows_.empty()) return range;
  const bool forwarded = std::any_of(windows_.begin(), windows_.end(), [&](const GuestRange& window) {
    return window.Contains(range->start(), range->size());
  });
  return forwarded ? range : std::nullopt;
}

void PciDevice::UpdateBars() {
  std::array<std::optional<GuestRange>, kBarCount> now;
  for (uint8_t i = 0; i < kBarCount; ++i) {
    if (bars_[i].has_value()) now[i] = Decoded(*bars_[i]);
  }
  const auto before = mapped_;
  mapped_ = now;
  if (observer_ == nullptr) return;
  for (uint8_t i = 0; i < kBarCount; ++i) {
    if (before[i].has_value() && before[i] != now[i]) observer_->BarUnmapped(*this, i, *before[i]);
  }
  for (uint8_t i = 0; i < kBarCount; ++i) {
    if (now[i].has_value() && before[i] != now[i]) observer_->BarMapped(*this, i, *now[i]);
  }
}

std::optional<BarHit> PciDevice::FindBar(GuestAddress address, uint64_t bytes) const {
  MutexLock lock(&mu_);
  for (uint8_t i = 0; i < kBarCount; ++i) {
    if (mapped_[i].has_value() && mapped_[i]->Contains(address, bytes)) {
      return BarHit{i, *address.OffsetFrom(mapped_[i]->start())};
    }
  }
  return std::nullopt;
}

std::optional<GuestRange> PciDevice::BarRange(uint8_t bar) const {
  if (bar >= kBarCount) return std::nullopt;
  MutexLock lock(&mu_);
  return mapped_[bar];
}

uint64_t PciDevice::BarSize(uint8_t bar) const {
  return ImplementsBar(bar) ? bars_[bar]->size : 0;
}

std::vector<BarSpec> PciDevice::bars() const {
  std::vector<BarSpec> result;
  for (const auto& bar : bars_) {
    if (bar.has_value()) result.push_back(*bar);
  }
  return result;
}

void PciDevice::SetBarObserver(BarObserver* observer) {
  MutexLock lock(&mu_);
  observer_ = observer;
  if (observer_ == nullptr) return;
  for (uint8_t i = 0; i < kBarCount; ++i) {
    if (mapped_[i].has_value()) observer_->BarMapped(*this, i, *mapped_[i]);
  }
}

absl::Status PciDevice::AssignBar(uint8_t bar, GuestAddress address) {
  if (!ImplementsBar(bar)) return absl::InvalidArgumentError(absl::StrCat(name_, ": no BAR ", bar));
  const BarSpec& spec = *bars_[bar];
  const bool wide = spec.kind == BarKind::kMemory64Prefetchable;
  if (!address.IsAligned(spec.size) || (!wide && address.value() > 0xffffffff)) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": BAR ", bar, " cannot be at ", address.ToString()));
  }
  MutexLock lock(&mu_);
  config_.Set32(BarRegister(bar),
                static_cast<uint32_t>(address.value()) | (config_.Get32(BarRegister(bar)) & kBarFlagMask));
  if (wide) config_.Set32(BarRegister(bar + 1), static_cast<uint32_t>(address.value() >> 32));
  UpdateBars();
  return absl::OkStatus();
}

void PciDevice::EnableDecoding() {
  MutexLock lock(&mu_);
  config_.Set16(kRegCommand, config_.Get16(kRegCommand) | kCommandMemory | kCommandBusMaster);
  UpdateBars();
}

void PciDevice::SetWindows(std::vector<GuestRange> windows) {
  MutexLock lock(&mu_);
  windows_ = std::move(windows);
  UpdateBars();
}

}  // namespace sluice::pci
