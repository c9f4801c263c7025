// File: platform.h
//
// What a machine has besides devices on the PCI bus: where its RAM is, how a guest powers it off or resets it, how it
// tells of a panic, and the ACPI tables that say all this to an operating system.
//
//   SLUICE_ASSIGN_OR_RETURN(ram, memory::GuestMemory::Create(RamRegions(mem_mib)));
//   SLUICE_ASSIGN_OR_RETURN(GuestAddress rsdp, WriteAcpiTables(ram, vcpus));
#ifndef SLUICE_VMM_MACHINE_PLATFORM_H_
#define SLUICE_VMM_MACHINE_PLATFORM_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/machine/address_map.h"
#include "vmm/machine/bus.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::machine {

// RAM below the device hole, and what is left of it from 4 GiB on.
std::vector<memory::RegionConfig> RamRegions(uint64_t mem_mib);

// Writes the tables of a machine with that many vCPUs (APIC ids from 0 on) to boot::kAcpiStart and returns where the
// root pointer is.
absl::StatusOr<GuestAddress> WriteAcpiTables(const memory::GuestMemory& ram, uint32_t vcpus);

// What a guest writes to the third of kPowerPorts to be reset.
inline constexpr uint16_t kResetPort = kPowerPorts + 2;
inline constexpr uint8_t kResetValue = 0x01;

// What a guest asked for.
enum class PowerRequest { kOff, kReset };

// The ACPI registers of a hardware-reduced platform (ACPI 6.5, 4.8.3.7 and 4.8.3.6): sleep control, sleep status and
// reset, a byte each, at kPowerPorts. `on_request` runs on the vCPU's thread.
class PowerPorts final : public BusHandler {
 public:
  explicit PowerPorts(std::function<void(PowerRequest)> on_request) : on_request_(std::move(on_request)) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override;
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override;

 private:
  const std::function<void(PowerRequest)> on_request_;
};

// The pvpanic device (QEMU's docs/specs/pvpanic): a read says which events it takes, a write tells of one.
enum class PanicEvent {
  kPanicked,     // the kernel panicked and will do nothing about it
  kCrashLoaded,  // it panicked and now runs its crash kernel
};
class PanicPort final : public BusHandler {
 public:
  explicit PanicPort(std::function<void(PanicEvent)> on_event) : on_event_(std::move(on_event)) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override;
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override;

 private:
  const std::function<void(PanicEvent)> on_event_;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_PLATFORM_H_
