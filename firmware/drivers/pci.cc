#include "firmware/drivers/pci.h"

#include "firmware/lib/cpu.h"
#include "firmware/lib/interrupts.h"

namespace sluice::firmware {
namespace {

constexpr uint16_t kCommand = 0x04, kStatus = 0x06, kBar0 = 0x10, kCapabilities = 0x34;
constexpr uint16_t kCommandMemory = 1 << 1, kCommandBusMaster = 1 << 2, kCommandNoIntx = 1 << 10;
constexpr uint16_t kStatusCapabilities = 1 << 4;
constexpr uint8_t kMaxCapabilities = 48;  // (256 - 64) / 4
constexpr uint8_t kDevices = 32;

// MSI-X capability and table entry (PCI 3.0, 6.8.2).
constexpr uint16_t kMsixControl = 2, kMsixTable = 4;
constexpr uint16_t kMsixEnable = 1 << 15, kMsixMaskAll = 1 << 14;
constexpr uint64_t kMsixEntryBytes = 16;

}  // namespace

uint8_t PciFunction::Read8(uint16_t offset) const {
  return Mmio<uint8_t>(base_ + offset).Read();
}
uint16_t PciFunction::Read16(uint16_t offset) const {
  return Mmio<uint16_t>(base_ + offset).Read();
}
uint32_t PciFunction::Read32(uint16_t offset) const {
  return Mmio<uint32_t>(base_ + offset).Read();
}
void PciFunction::Write8(uint16_t offset, uint8_t value) const {
  Mmio<uint8_t>(base_ + offset).Write(value);
}
void PciFunction::Write16(uint16_t offset, uint16_t value) const {
  Mmio<uint16_t>(base_ + offset).Write(value);
}
void PciFunction::Write32(uint16_t offset, uint32_t value) const {
  Mmio<uint32_t>(base_ + offset).Write(value);
}

uint8_t PciFunction::FindCapability(uint8_t id, uint8_t after) const {
  if ((Read16(kStatus) & kStatusCapabilities) == 0) return 0;
  uint8_t at = after != 0 ? Read8(after + 1) : Read8(kCapabilities);
  for (uint8_t steps = 0; at != 0 && steps < kMaxCapabilities; steps++) {
    at &= 0xfc;
    if (Read8(at) == id) return at;
    at = Read8(at + 1);
  }
  return 0;
}

PciBar PciFunction::GetBar(uint8_t index) const {
  PciBar bar;
  const uint32_t low = Read32(static_cast<uint16_t>(kBar0 + index * 4));
  bar.io = (low & 1) != 0;
  if (bar.io) {
    bar.address = low & ~3u;
    return bar;
  }
  bar.wide = ((low >> 1) & 3) == 2 && index < 5;
  bar.prefetchable = (low & 8) != 0;
  bar.address = low & ~15u;
  if (bar.wide) bar.address |= uint64_t{Read32(static_cast<uint16_t>(kBar0 + index * 4 + 4))} << 32;
  return bar;
}

uint64_t PciFunction::BarSize(uint8_t index) const {
  const PciBar bar = GetBar(index);
  if (bar.io) return 0;
  const auto low_offset = static_cast<uint16_t>(kBar0 + index * 4);
  const auto high_offset = static_cast<uint16_t>(low_offset + 4);
  const uint16_t command = Read16(kCommand);
  Write16(kCommand, command & ~kCommandMemory);
  const uint32_t low = Read32(low_offset);
  Write32(low_offset, 0xffffffff);
  uint64_t mask = Read32(low_offset) & ~15u;
  if (mask == 0 && !bar.wide) {
    Write32(low_offset, low);
    Write16(kCommand, command);
    return 0;
  }
  mask |= 0xffffffff00000000;
  if (bar.wide) {
    const uint32_t high = Read32(high_offset);
    Write32(high_offset, 0xffffffff);
    mask = (mask & 0xffffffff) | (uint64_t{Read32(high_offset)} << 32);
    Write32(high_offset, high);
  }
  Write32(low_offset, low);
  Write16(kCommand, command);
  return 0 - mask;
}

void PciFunction::EnableMemoryAndBusMaster() const {
  Write16(kCommand, Read16(kCommand) | kCommandMemory | kCommandBusMaster | kCommandNoIntx);
}

bool FindPciFunction(uint16_t vendor, uint16_t device, PciFunction* found) {
  for (uint8_t slot = 0; slot < kDevices; slot++) {
    const PciFunction function(slot);
    if (function.Read32(0) != (uint32_t{device} << 16 | vendor)) continue;
    *found = function;
    return true;
  }
  return false;
}

bool Msix::Enable(const PciFunction& function) {
  const uint8_t capability = function.FindCapability(kPciCapMsix);
  if (capability == 0) return false;
  const uint16_t control = function.Read16(static_cast<uint16_t>(capability + kMsixControl));
  const uint32_t table = function.Read32(static_cast<uint16_t>(capability + kMsixTable));
  const PciBar bar = function.GetBar(table & 7);
  if (bar.address == 0 || bar.io) return false;
  entries_ = static_cast<uint16_t>((control & 0x7ff) + 1);
  table_ = bar.address + (table & ~7u);
  function.Write16(static_cast<uint16_t>(capability + kMsixControl),
                   static_cast<uint16_t>((control & ~kMsixMaskAll) | kMsixEnable));
  return true;
}

void Msix::Route(uint16_t entry, uint8_t vector) const {
  const uint64_t at = table_ + entry * kMsixEntryBytes;
  Mmio<uint32_t>(at + 12).Write(1);  // masked while it changes
  Mmio<uint32_t>(at).Write(static_cast<uint32_t>(kMsiAddress));
  Mmio<uint32_t>(at + 4).Write(0);
  Mmio<uint32_t>(at + 8).Write(vector);
  Mmio<uint32_t>(at + 12).Write(0);
}

}  // namespace sluice::firmware
