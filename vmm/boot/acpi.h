// File: acpi.h
//
// ACPI tables of a machine without legacy hardware (ACPI 6.5, "hardware-reduced"): RSDP, XSDT, FADT, MADT, MCFG, DSDT,
// and SRAT where there are several memory nodes. Pure: from numbers to bytes.
//
//   AcpiOptions options;
//   options.apic_ids = {0, 1};
//   options.ecam = ...; options.sleep_control_port = 0x600; ...
//   SLUICE_ASSIGN_OR_RETURN(AcpiTables acpi, BuildAcpiTables(options, GuestAddress(kAcpiStart)));
//   SLUICE_RETURN_IF_ERROR(ram.CopyTo(GuestAddress(kAcpiStart), acpi.bytes));
//
// What a guest learns: no PIC, PIT, RTC, VGA or keyboard controller is there; power-off is a write of
// kSleepOff to the sleep control port, reset one of `reset_value` to the reset port; PCI has one bus.
#ifndef SLUICE_VMM_BOOT_ACPI_H_
#define SLUICE_VMM_BOOT_ACPI_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/memory/address.h"

namespace sluice::boot {

// The sleep type of S5 (\_S5), and the sleep control register's value for it: SLP_EN | SLP_TYP << 2 (section 4.8.3.7).
inline constexpr uint8_t kSleepTypeOff = 5;
inline constexpr uint8_t kSleepEnable = 1 << 5;
inline constexpr uint8_t kSleepOff = kSleepEnable | kSleepTypeOff << 2;

struct AcpiMemoryRange {
  memory::GuestRange range;
  uint32_t node = 0;
};

struct AcpiOptions {
  // The vCPUs' APIC ids, the boot vCPU's first; at least one, all different. Ids above 254 are told as x2APICs.
  std::vector<uint32_t> apic_ids;
  memory::GuestAddress local_apic;  // below 4 GiB
  memory::GuestAddress ioapic;      // below 4 GiB; its pins are GSIs from 0 on
  memory::GuestAddress ecam;        // of bus 0, pci::kEcamBytes long, below 4 GiB
  // Where BARs may be: one window below 4 GiB, one anywhere.
  std::optional<memory::GuestRange> window32;
  std::optional<memory::GuestRange> window64;
  uint16_t sleep_control_port = 0;
  uint16_t sleep_status_port = 0;
  uint16_t reset_port = 0;
  uint8_t reset_value = 0;
  // A 16550 at this port, with an edge-triggered interrupt. 0: none.
  uint16_t serial_port = 0;
  uint32_t serial_gsi = 0;
  // A pvpanic device (QEMU0001) at this port. 0: none.
  uint16_t panic_port = 0;
  // More than one node: SRAT has these ranges and, per vCPU, its node (as many as apic_ids).
  std::vector<AcpiMemoryRange> memory;
  std::vector<uint32_t> cpu_nodes;
};

struct AcpiTables {
  std::vector<uint8_t> bytes;  // for the place that was given
  memory::GuestAddress rsdp;
};

// Lays the tables out from `place` (16-byte aligned, below 4 GiB) on. INVALID_ARGUMENT names the option that is wrong.
absl::StatusOr<AcpiTables> BuildAcpiTables(const AcpiOptions& options, memory::GuestAddress place);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_ACPI_H_
