// File: bus.h
//
// One address space (I/O ports, or memory-mapped devices): ranges and who answers for them. Filled before the first
// vCPU runs and never changed after, so that vCPU threads look up without a lock.
//
//   Bus ports;
//   SLUICE_RETURN_IF_ERROR(ports.Add(0x3f8, 8, "serial", &serial_ports));
//   ports.Write(0x3f8, bytes);
//   if (!ports.Read(0x80, bytes)) ...   // nobody there: bytes are 0xff
#ifndef SLUICE_VMM_MACHINE_BUS_H_
#define SLUICE_VMM_MACHINE_BUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice::machine {

// A device's answers. Any vCPU thread, several at once: the device locks its own state. 1..8 bytes, any alignment;
// [offset, offset + size) lies within the range that was added.
class BusHandler {
 public:
  virtual ~BusHandler() = default;
  // Fill all of `to`.
  virtual void Read(uint64_t offset, absl::Span<uint8_t> to) = 0;
  virtual void Write(uint64_t offset, absl::Span<const uint8_t> from) = 0;
};

class Bus {
 public:
  // Set-up only. `handler` outlives the bus. INVALID_ARGUMENT: empty, wraps, or overlaps another range (which is
  // named).
  absl::Status Add(uint64_t start, uint64_t size, absl::string_view name, BusHandler* handler);

  // A guest's access to [address, address + size). False: no range contains all of it; then `to` is all-ones.
  bool Read(uint64_t address, absl::Span<uint8_t> to) const;
  bool Write(uint64_t address, absl::Span<const uint8_t> from) const;

 private:
  struct Range {
    uint64_t start;
    uint64_t last;  // inclusive
    std::string name;
    BusHandler* handler;
  };
  const Range* Find(uint64_t address, uint64_t size) const;
  std::vector<Range> ranges_;  // ascending, disjoint
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_BUS_H_
