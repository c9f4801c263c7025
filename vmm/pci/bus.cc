#include "vmm/pci/bus.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::pci {
namespace {

using memory::GuestAddress;
using memory::GuestRange;

constexpr uint64_t kFourGiB = uint64_t{1} << 32;

void AllOnes(absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0xff);
}

// A configuration request carries byte enables of one dword; anything else has no configuration cycle.
bool IsConfigAccess(uint32_t offset, size_t size) {
  return (size == 1 || size == 2 || size == 4) && (offset & 3) + size <= 4;
}

}  // namespace

absl::Status PciBus::Add(uint8_t slot, PciDevice* device) {
  if (slot >= kSlotCount || devices_[slot] != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("PCI slot ", slot, " for ", device->name(), " is taken or none"));
  }
  devices_[slot] = device;
  device->SetWindows(options_.windows);
  return absl::OkStatus();
}

absl::Status PciBus::AssignBars() {
  // What is free of each window starts here.
  std::vector<uint64_t> next;
  next.reserve(options_.windows.size());
  for (const GuestRange& window : options_.windows) next.push_back(window.start().value());

  for (PciDevice* device : devices_) {
    if (device == nullptr) continue;
    for (const BarSpec& bar : device->bars()) {
      bool placed = false;
      for (size_t i = 0; i < next.size() && !placed; ++i) {
        const GuestRange& window = options_.windows[i];
        const bool high = window.start().value() >= kFourGiB;
        if (high != (bar.kind == BarKind::kMemory64Prefetchable)) continue;
        const auto start = CheckedAlignUp(next[i], bar.size);
        if (!start.has_value() || !window.Contains(GuestAddress(*start), bar.size)) continue;
        SLUICE_RETURN_IF_ERROR(device->AssignBar(bar.index, GuestAddress(*start)));
        next[i] = *start + (bar.size - 1);
        if (next[i] != UINT64_MAX) ++next[i];
        placed = true;
      }
      if (!placed) {
        return absl::ResourceExhaustedError(absl::StrCat("no room in the PCI windows for BAR ", bar.index, " of ",
                                                         device->name(), " (", memory::Hex(bar.size), " bytes)"));
      }
    }
    device->EnableDecoding();
  }
  return absl::OkStatus();
}

void PciBus::ConfigRead(uint32_t bdf, uint32_t offset, absl::Span<uint8_t> to) {
  AllOnes(to);
  PciDevice* device = devices_[(bdf >> 3) % kSlotCount];
  if ((bdf >> 8) != 0 || (bdf & 7) != 0 || device == nullptr || !IsConfigAccess(offset, to.size())) return;
  device->ConfigRead(static_cast<uint16_t>(offset), to);
}

void PciBus::ConfigWrite(uint32_t bdf, uint32_t offset, absl::Span<const uint8_t> from) {
  PciDevice* device = devices_[(bdf >> 3) % kSlotCount];
  if ((bdf >> 8) != 0 || (bdf & 7) != 0 || device == nullptr || !IsConfigAccess(offset, from.size())) return;
  device->ConfigWrite(static_cast<uint16_t>(offset), from);
}

bool PciBus::MmioRead(GuestAddress address, absl::Span<uint8_t> to) {
  AllOnes(to);
  const auto ecam = address.OffsetFrom(options_.ecam);
  if (ecam.has_value() && *ecam < kEcamBytes) {
    ConfigRead(static_cast<uint32_t>(*ecam >> 12), static_cast<uint32_t>(*ecam & 0xfff), to);
    return true;
  }
  for (PciDevice* device : devices_) {
    if (device == nullptr) continue;
    if (const auto hit = device->FindBar(address, to.size()); hit.has_value()) {
      device->BarRead(hit->bar, hit->offset, to);
      return true;
    }
  }
  return false;
}

bool PciBus::MmioWrite(GuestAddress address, absl::Span<const uint8_t> from) {
  const auto ecam = address.OffsetFrom(options_.ecam);
  if (ecam.has_value() && *ecam < kEcamBytes) {
    ConfigWrite(static_cast<uint32_t>(*ecam >> 12), static_cast<uint32_t>(*ecam & 0xfff), from);
    return true;
  }
  for (PciDevice* device : devices_) {
    if (device == nullptr) continue;
    if (const auto hit = device->FindBar(address, from.size()); hit.has_value()) {
      device->BarWrite(hit->bar, hit->offset, from);
      return true;
    }
  }
  return false;
}

bool PciBus::IoRead(uint16_t port, absl::Span<uint8_t> to) {
  AllOnes(to);
  if (!ClaimsPort(port)) return false;
  uint32_t address;
  {
    MutexLock lock(&mu_);
    address = config_address_;
  }
  if (port < kConfigDataPort) {
    // CONFIG_ADDRESS is a dword register; narrower accesses are not for it.
    if (port == kConfigAddressPort && to.size() == 4) {
      for (size_t i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(address >> (8 * i));
    }
    return true;
  }
  if ((address & kConfigEnable) != 0) {
    ConfigRead((address >> 8) & 0xffff, (address & 0xfc) + (port & 3u), to);
  }
  return true;
}

bool PciBus::IoWrite(uint16_t port, absl::Span<const uint8_t> from) {
  if (!ClaimsPort(port)) return false;
  if (port < kConfigDataPort) {
    if (port == kConfigAddressPort && from.size() == 4) {
      uint32_t address = 0;
      for (size_t i = 0; i < 4; ++i) address |= uint32_t{from[i]} << (8 * i);
      MutexLock lock(&mu_);
      config_address_ = address & 0x80fffffc;  // the rest is reserved and reads as zero
    }
    return true;
  }
  uint32_t address;
  {
    MutexLock lock(&mu_);
    address = config_address_;
  }
  if ((address & kConfigEnable) != 0) {
    ConfigWrite((address >> 8) & 0xffff, (address & 0xfc) + (port & 3u), from);
  }
  return true;
}

}  // namespace sluice::pci
