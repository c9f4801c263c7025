// File: ioapic.h
//
// The I/O APIC of a machine with a split irqchip (local APICs in the kernel, this one here): turns interrupt lines into
// MSIs as the guest's redirection table says. Intel 82093AA data sheet, ICH9 for the version register.
//
//   Ioapic ioapic([&](const kvm::MsiMessage& message) { (void)vm.SignalMsi(message); });
//   mmio.Add(kIoapic.value(), kIoapicBytes, "ioapic", &ioapic);
//   ioapic.SetLine(4, true);
//
// A kernel irqchip with PIC and IOAPIC would cost a VM about 10 ms of its start (docs/decisions/0007-split-irqchip.md).
// Lines are edge-triggered here (ISA): a level-triggered entry delivers once per assertion and is never re-delivered at
// end of interrupt. PCI devices use MSI-X and do not pass here.
#ifndef SLUICE_VMM_MACHINE_IOAPIC_H_
#define SLUICE_VMM_MACHINE_IOAPIC_H_

#include <array>
#include <cstdint>
#include <functional>

#include "vmm/base/mutex.h"
#include "vmm/kvm/types.h"
#include "vmm/machine/bus.h"

namespace sluice::machine {

inline constexpr uint32_t kIoapicPins = 24;
inline constexpr uint64_t kIoapicBytes = 0x1000;

// Thread-safe. `deliver` runs with the lock held and must not call back.
class Ioapic final : public BusHandler {
 public:
  explicit Ioapic(std::function<void(const kvm::MsiMessage&)> deliver);

  // Drives pin 0..23; a rising edge is delivered if the entry is not masked, and lost if it is (as the data sheet says
  // of edges).
  void SetLine(uint32_t pin, bool level);

  // As after power-on: every entry masked. Lines stay where they are.
  void Reset();

  // The register window: index at offset 0, data at 0x10; 4-byte accesses. Others read as zero and are ignored.
  void Read(uint64_t offset, absl::Span<uint8_t> to) override;
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override;

 private:
  uint32_t ReadRegister(uint32_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteRegister(uint32_t index, uint32_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<void(const kvm::MsiMessage&)> deliver_;
  Mutex mu_;
  uint32_t select_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t id_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<uint64_t, kIoapicPins> entries_ ABSL_GUARDED_BY(mu_);
  uint32_t lines_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_IOAPIC_H_
