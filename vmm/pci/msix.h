// File: msix.h
//
// MSI-X: the vector table and the pending bits of one function (PCI Local Bus 3.0 section 6.8.2), and the interface
// behind which the machine turns vectors into interrupts.
//
//   class KvmNotifier : public MsixNotifier { ... eventfd per vector, irqfd, MSI route ... };
//   MsixTable table(3, &notifier);
//   table.WriteTable(offset, bytes);     // guest, vCPU thread
//   table.Signal(1);                     // device, loop thread: sent, or pending while masked
#ifndef SLUICE_VMM_PCI_MSIX_H_
#define SLUICE_VMM_PCI_MSIX_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vmm/base/mutex.h"
#include "vmm/pci/registers.h"

namespace sluice::pci {

// Most vectors of one function here: the table then ends at 0x800 of its BAR, where the pending bits start.
inline constexpr uint16_t kMaxMsixVectors = 128;

// What a vector writes when it fires. Values are the guest's: unchecked.
struct MsiMessage {
  uint64_t address = 0;
  uint32_t data = 0;
  friend bool operator==(const MsiMessage&, const MsiMessage&) = default;
};

// What the machine implements. All calls come with the table's lock held, thus one at a time and in order, from vCPU
// threads (SetVector, Signal of a pending vector on unmasking) and the loop thread (Signal). Must not call back into
// the table.
class MsixNotifier {
 public:
  virtual ~MsixNotifier() = default;
  // Vector `vector` is deliverable with `message` (MSI-X on, neither the vector nor the function masked) or it is not.
  // Called on every change of either; a guest chooses how often, so keep it cheap: drop what does not change a route.
  virtual void SetVector(uint16_t vector, bool deliverable, const MsiMessage& message) = 0;
  // Sends the interrupt. Only called while the vector is deliverable.
  virtual void Signal(uint16_t vector) = 0;
};

// Thread-safe: one lock over everything.
class MsixTable {
 public:
  // `vectors` is 1 .. kMaxMsixVectors. All start masked. `notifier` outlives the table; nullptr: interrupts go nowhere.
  MsixTable(uint16_t vectors, MsixNotifier* notifier);

  uint16_t vectors() const { return vectors_; }
  // Size of the table in its BAR, bytes.
  uint64_t table_bytes() const { return uint64_t{vectors()} * kMsixEntryBytes; }
  // Size of the pending-bit array, bytes (a multiple of 8).
  uint64_t pba_bytes() const { return (uint64_t{vectors()} + 63) / 64 * 8; }

  // Guest accesses at an offset in the table or the pending bits. Anything outside, and table writes that are not an
  // aligned 4 or 8 bytes ("undefined" in the specification): all-ones, or nothing happens.
  void ReadTable(uint64_t offset, absl::Span<uint8_t> to) const;
  void WriteTable(uint64_t offset, absl::Span<const uint8_t> from);
  void ReadPba(uint64_t offset, absl::Span<uint8_t> to) const;
  // The capability's Message Control changed (kMsixEnable, kMsixFunctionMask).
  void SetControl(uint16_t control);

  // The device wants vector `vector`: sent at once if deliverable; remembered in the pending bits if masked; dropped
  // when MSI-X is off or there is no such vector. Any thread. True if it was sent.
  bool Signal(uint16_t vector);

  bool enabled() const;
  // How many interrupts were sent.
  uint64_t sent() const;

 private:
  struct Entry {
    MsiMessage message;
    uint32_t control = kMsixEntryMasked;
    bool pending = false;
    bool announced = false;  // what the notifier was told last
    MsiMessage announced_message;
  };
  bool Deliverable(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the notifier what changed, then sends what was pending.
  void Update(uint16_t vector) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint16_t vectors_;
  MsixNotifier* const notifier_;
  mutable Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
  uint16_t control_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice::pci

#endif  // SLUICE_VMM_PCI_MSIX_H_
