// File: platform_ports.h
//
// Small adapters between a Bus and who answers: the serial port, the PCI bus, and ports that are only written.
#ifndef SLUICE_VMM_MACHINE_PLATFORM_PORTS_H_
#define SLUICE_VMM_MACHINE_PLATFORM_PORTS_H_

#include <algorithm>
#include <functional>
#include <utility>

#include "devices/serial/serial.h"
#include "vmm/machine/bus.h"
#include "vmm/pci/bus.h"

namespace sluice::machine {

class SerialPorts final : public BusHandler {
 public:
  explicit SerialPorts(serial::Serial* serial) : serial_(serial) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override { serial_->ReadBytes(static_cast<uint16_t>(offset), to); }
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override {
    serial_->WriteBytes(static_cast<uint16_t>(offset), from);
  }

 private:
  serial::Serial* const serial_;
};

// Configuration mechanism #1: added at pci::kConfigAddressPort.
class PciPorts final : public BusHandler {
 public:
  explicit PciPorts(pci::PciBus* bus) : bus_(bus) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override { bus_->IoRead(Port(offset), to); }
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override { bus_->IoWrite(Port(offset), from); }

 private:
  static uint16_t Port(uint64_t offset) { return static_cast<uint16_t>(pci::kConfigAddressPort + offset); }
  pci::PciBus* const bus_;
};

// ECAM or a range where BARs may be: added at `start`.
class PciMmio final : public BusHandler {
 public:
  PciMmio(pci::PciBus* bus, memory::GuestAddress start) : bus_(bus), start_(start) {}
  void Read(uint64_t offset, absl::Span<uint8_t> to) override {
    bus_->MmioRead(memory::GuestAddress(start_.value() + offset), to);
  }
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override {
    bus_->MmioWrite(memory::GuestAddress(start_.value() + offset), from);
  }

 private:
  pci::PciBus* const bus_;
  const memory::GuestAddress start_;
};

// Reads as ones; a write calls back with the little-endian value of at most 4 bytes.
class WritePort final : public BusHandler {
 public:
  explicit WritePort(std::function<void(uint32_t)> on_write) : on_write_(std::move(on_write)) {}
  void Read(uint64_t, absl::Span<uint8_t> to) override { std::fill(to.begin(), to.end(), 0xff); }
  void Write(uint64_t offset, absl::Span<const uint8_t> from) override {
    if (offset != 0) return;
    uint32_t value = 0;
    for (size_t i = 0; i < std::min<size_t>(from.size(), 4); ++i) value |= uint32_t{from[i]} << (8 * i);
    on_write_(value);
  }

 private:
  const std::function<void(uint32_t)> on_write_;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_PLATFORM_PORTS_H_
