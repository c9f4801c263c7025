#include "vmm/machine/platform.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/acpi.h"
#include "vmm/boot/linux_boot.h"

namespace sluice::machine {
namespace {

// Offsets at kPowerPorts.
enum : uint64_t { kSleepControl = 0, kSleepStatus = 1, kReset = 2 };
// Sleep control: SLP_TYP, SLP_EN.
constexpr uint8_t kSleepTypeMask = 0x1c;
constexpr int kSleepTypeShift = 2;

constexpr uint8_t kPanickedBit = 1 << 0;
constexpr uint8_t kCrashLoadedBit = 1 << 1;

}  // namespace

std::vector<memory::RegionConfig> RamRegions(uint64_t mem_mib) {
  const uint64_t low = std::min(mem_mib, kMaxLowRamMib);
  std::vector<memory::RegionConfig> regions(low < mem_mib ? 2 : 1);
  regions[0] = {.start = kRamStart, .size = low * kMiB, .name = "guest-ram"};
  if (low < mem_mib) {
    regions[1] = {.start = kHighRamStart, .size = (mem_mib - low) * kMiB, .name = "guest-ram-high"};
  }
  return regions;
}

absl::StatusOr<GuestAddress> WriteAcpiTables(const memory::GuestMemory& ram, uint32_t vcpus) {
  boot::AcpiOptions options;
  options.apic_ids.resize(vcpus);
  std::iota(options.apic_ids.begin(), options.apic_ids.end(), 0);
  options.local_apic = kLocalApic;
  options.ioapic = kIoapic;
  options.ecam = kEcamStart;
  options.window32 = memory::GuestRange::Create(kBar32Start, kBar32Bytes);
  options.window64 = memory::GuestRange::Create(kBar64Start, kBar64Bytes);
  options.sleep_control_port = kPowerPorts + kSleepControl;
  options.sleep_status_port = kPowerPorts + kSleepStatus;
  options.reset_port = kResetPort;
  options.reset_value = kResetValue;
  options.serial_port = kSerialPort;
  options.serial_gsi = kSerialIrq;
  options.panic_port = kPanicPort;
  SLUICE_ASSIGN_OR_RETURN(const boot::AcpiTables tables,
                          boot::BuildAcpiTables(options, GuestAddress(boot::kAcpiStart)));
  if (tables.bytes.size() > boot::kAcpiEnd - boot::kAcpiStart) {
    return absl::InternalError(absl::StrCat("ACPI tables of ", tables.bytes.size(), " bytes"));
  }
  SLUICE_RETURN_IF_ERROR(ram.CopyTo(GuestAddress(boot::kAcpiStart), tables.bytes));
  return tables.rsdp;
}

void PowerPorts::Read(uint64_t, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0);
}

void PowerPorts::Write(uint64_t offset, absl::Span<const uint8_t> from) {
  if (from.size() != 1) return;
  const uint8_t value = from[0];
  if (offset == kReset && value == kResetValue) on_request_(PowerRequest::kReset);
  if (offset == kSleepControl && (value & boot::kSleepEnable) != 0 &&
      (value & kSleepTypeMask) >> kSleepTypeShift == boot::kSleepTypeOff) {
    on_request_(PowerRequest::kOff);
  }
}

void PanicPort::Read(uint64_t, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0);
  to[0] = kPanickedBit | kCrashLoadedBit;
}

void PanicPort::Write(uint64_t, absl::Span<const uint8_t> from) {
  if ((from[0] & kPanickedBit) != 0) on_event_(PanicEvent::kPanicked);
  if ((from[0] & kCrashLoadedBit) != 0) on_event_(PanicEvent::kCrashLoaded);
}

}  // namespace sluice::machine
