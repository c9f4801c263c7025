// File: device.h
//
// One PCI function: its configuration space, BARs and MSI-X capability. A device model derives from it, declares BARs
// and capabilities in its constructor, and answers BarRead and BarWrite.
//
//   class Lamp : public PciDevice {
//    public:
//     Lamp() : PciDevice("lamp", {.vendor_id = 0x1234, .device_id = 1, .class_code = 0xff0000}) {
//       AddBar({.index = 0, .kind = BarKind::kMemory32, .size = 4096}).IgnoreError();
//     }
//     void BarRead(uint8_t bar, uint64_t offset, absl::Span<uint8_t> to) override { ... }
//     void BarWrite(uint8_t bar, uint64_t offset, absl::Span<const uint8_t> from) override { ... }
//   };
//
// Threads and locks. Set-up (AddBar, AddCapability, EnableMsix, PciBus::Add) happens before any vCPU runs. After that
// ConfigRead, ConfigWrite, FindBar and BarAddress may come from any vCPU thread; `mu_` covers the configuration space
// and the BAR state. BarObserver is called with `mu_` held, so its calls come in order; it must not call back into the
// device. BarRead, BarWrite, OnConfigRead and OnConfigWritten are called without `mu_`: the device model locks its own
// state.
#ifndef SLUICE_VMM_PCI_DEVICE_H_
#define SLUICE_VMM_PCI_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/base/mutex.h"
#include "vmm/memory/address.h"
#include "vmm/pci/config_space.h"
#include "vmm/pci/msix.h"
#include "vmm/pci/registers.h"

namespace sluice::pci {

struct PciIdentity {
  uint16_t vendor_id = 0xffff;
  uint16_t device_id = 0xffff;
  uint8_t revision = 0;
  uint32_t class_code = 0;  // 24 bits: base class, subclass, programming interface; 0x038000 is "display, other"
  uint16_t subsystem_vendor_id = 0;
  uint16_t subsystem_id = 0;
};

enum class BarKind {
  kMemory32,              // not prefetchable, below 4 GiB
  kMemory64Prefetchable,  // takes the next index as well
};

struct BarSpec {
  uint8_t index = 0;  // 0 .. 5
  BarKind kind = BarKind::kMemory32;
  uint64_t size = 0;  // bytes, a power of two, at least 4096 (so that a BAR is its pages' only owner)
};

class PciDevice;

// Follows where BARs are, to move ioeventfds and memslots with them. Called on the thread of whoever moved the BAR (the
// vCPU whose guest wrote the register), with the device's lock held.
class BarObserver {
 public:
  virtual ~BarObserver() = default;
  // The BAR decodes `range` from now on. The guest may have put it over RAM or another BAR: fail quietly then.
  virtual void BarMapped(const PciDevice& device, uint8_t bar, memory::GuestRange range) = 0;
  virtual void BarUnmapped(const PciDevice& device, uint8_t bar, memory::GuestRange range) = 0;
};

struct BarHit {
  uint8_t bar;
  uint64_t offset;
};

class PciDevice {
 public:
  PciDevice(std::string name, const PciIdentity& identity);
  virtual ~PciDevice() = default;
  PciDevice(const PciDevice&) = delete;
  PciDevice& operator=(const PciDevice&) = delete;

  const std::string& name() const { return name_; }

  // --- The guest's side: any vCPU thread ---

  // One configuration access of 1, 2 or 4 bytes that lies within an aligned dword (PciBus has checked that).
  void ConfigRead(uint16_t offset, absl::Span<uint8_t> to);
  void ConfigWrite(uint16_t offset, absl::Span<const uint8_t> from);
  // An access within a decoded BAR; offset + size <= the BAR's size; 1 .. 8 bytes, any alignment. Fill all of `to`.
  virtual void BarRead(uint8_t bar, uint64_t offset, absl::Span<uint8_t> to) = 0;
  virtual void BarWrite(uint8_t bar, uint64_t offset, absl::Span<const uint8_t> from) = 0;

  // The BAR that decodes [address, address + bytes) now, if one does.
  std::optional<BarHit> FindBar(memory::GuestAddress address, uint64_t bytes) const;
  // Where `bar` is decoded now; nullopt while COMMAND.MEM is off, it has no address, or lies outside the bus's windows.
  std::optional<memory::GuestRange> BarRange(uint8_t bar) const;
  // Size of `bar`, bytes; 0 if there is none.
  uint64_t BarSize(uint8_t bar) const;

  // --- Set-up: before the first vCPU runs ---

  // Tells `observer` (nullptr: nobody) about BARs from now on, starting with those that are mapped. It outlives the
  // device.
  void SetBarObserver(BarObserver* observer);
  // Gives a BAR its address, as firmware would. `address` is a multiple of the size, below 4 GiB for a 32-bit BAR.
  absl::Status AssignBar(uint8_t bar, memory::GuestAddress address);
  // Sets COMMAND.MEM and COMMAND.MASTER, as firmware would.
  void EnableDecoding();
  // BARs decode only inside these ranges (what the host bridge forwards). PciBus::Add sets them; none: anywhere.
  void SetWindows(std::vector<memory::GuestRange> windows);

  // The BARs that exist, ascending by index.
  std::vector<BarSpec> bars() const;
  // nullptr if the device has no MSI-X. Valid as long as the device.
  MsixTable* msix() const { return msix_.get(); }

 protected:
  absl::Status AddBar(const BarSpec& spec);
  absl::StatusOr<uint8_t> AddCapability(uint8_t id, absl::Span<const uint8_t> body);
  // Adds the MSI-X capability: table at `table_offset` and pending bits at `pba_offset` of `bar` (multiples of 8,
  // disjoint, within the BAR). The device's BarRead and BarWrite pass accesses of that BAR to MsixRead and MsixWrite.
  absl::Status EnableMsix(uint16_t vectors, uint8_t bar, uint32_t table_offset, uint32_t pba_offset,
                          MsixNotifier* notifier);
  void MsixRead(uint64_t bar_offset, absl::Span<uint8_t> to);
  void MsixWrite(uint64_t bar_offset, absl::Span<const uint8_t> from);
  // Makes bits of configuration space writable. Set-up only.
  void SetConfigWritable8(uint16_t offset, uint8_t mask);
  void SetConfigWritable32(uint16_t offset, uint32_t mask);

  // Before a guest's read, and after a guest's write, of [offset, offset + size).
  virtual void OnConfigRead(uint16_t offset, size_t size) {}
  virtual void OnConfigWritten(uint16_t offset, size_t size) {}
  // The device model's own look at its configuration space, past the write masks. In range.
  void PeekConfig(uint16_t offset, absl::Span<uint8_t> to) const;
  void PokeConfig(uint16_t offset, absl::Span<const uint8_t> from);

 private:
  bool ImplementsBar(uint8_t bar) const { return bar < kBarCount && bars_[bar].has_value(); }
  // What the registers say about a BAR: its range if decoding is on and allowed there.
  std::optional<memory::GuestRange> Decoded(const BarSpec& bar) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Brings `mapped_` up to date and tells the observer: first what went, then what came.
  void UpdateBars() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  std::array<std::optional<BarSpec>, kBarCount> bars_;  // fixed after set-up
  std::unique_ptr<MsixTable> msix_;
  uint8_t msix_capability_ = 0;
  uint32_t msix_table_offset_ = 0;
  uint32_t msix_pba_offset_ = 0;

  mutable Mutex mu_;
  ConfigSpace config_ ABSL_GUARDED_BY(mu_);
  std::array<std::optional<memory::GuestRange>, kBarCount> mapped_ ABSL_GUARDED_BY(mu_);
  std::vector<memory::GuestRange> windows_ ABSL_GUARDED_BY(mu_);
  BarObserver* observer_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_DEVICE_H_
