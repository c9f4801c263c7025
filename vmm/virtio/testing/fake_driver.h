// File: fake_driver.h
//
// The driver's side of one split virtqueue over GuestMemory: what unit tests, fuzzers and benchmarks drive devices
// with. It builds chains, direct or indirect, makes them available and collects what the device used. It can also
// misbehave: the raw functions write whatever the test wants into the rings.
//
//   SLUICE_ASSIGN_OR_RETURN(FakeDriver driver, FakeDriver::Create(ram, {.size = 16}));
//   auto queue = Queue::Create(ram, driver.layout());
//   SLUICE_ASSIGN_OR_RETURN(uint16_t head, driver.Chain().ReadableObject(request).Writable(24).Submit());
//   ... the device works ...
//   std::optional<Completion> done = driver.Collect();   // done->head == head; done->data: what the device wrote
#ifndef SLUICE_VMM_VIRTIO_TESTING_FAKE_DRIVER_H_
#define SLUICE_VMM_VIRTIO_TESTING_FAKE_DRIVER_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/queue.h"
#include "vmm/virtio/spec.h"

namespace sluice::virtio::testing {

// One used-ring element, with the bytes that it says were written.
struct Completion {
  uint16_t head = 0;
  uint32_t written = 0;
  std::vector<uint8_t> data;  // the first `written` bytes of the chain's writable part (all of it if `written` is more)
};

// Single-threaded. Any misuse of its own (no free descriptor, no memory left) is an error status, never a crash.
class FakeDriver {
 public:
  struct Options {
    uint16_t size = 16;                      // queue size, a power of two
    memory::GuestAddress rings{0x10000};     // the three rings, from here on; 4 KiB aligned
    memory::GuestAddress buffers{0x100000};  // buffers and indirect tables
    uint64_t buffer_bytes = 0x100000;
    bool event_idx = false;
  };
  static absl::StatusOr<FakeDriver> Create(memory::GuestMemory memory, const Options& options);

  // What to hand to Queue::Create (or to write into a transport's queue registers).
  const QueueLayout& layout() const { return layout_; }
  const memory::GuestMemory& memory() const { return memory_; }

  // Collects the pieces of one chain, readable ones first unless the test wants to break the rule.
  class ChainBuilder {
   public:
    // A readable piece with these contents.
    ChainBuilder& Readable(absl::Span<const uint8_t> bytes);
    template <typename T>
    ChainBuilder& ReadableObject(const T& value) {
      std::vector<uint8_t> bytes(sizeof(T));
      std::memcpy(bytes.data(), &value, sizeof(T));
      return Readable(bytes);
    }
    // A writable piece, filled with 0xaa beforehand.
    ChainBuilder& Writable(uint32_t size);
    // Any descriptor the test likes: `address` and `size` need not be RAM; `flags` is kDescWrite or 0 (NEXT is added).
    ChainBuilder& Raw(uint64_t address, uint32_t size, uint16_t flags);
    // Put the pieces into an indirect table. `after` pieces stay direct descriptors before it.
    ChainBuilder& Indirect(size_t after = 0);
    // Writes the descriptors and makes the chain available. Returns its head. Does not notify.
    absl::StatusOr<uint16_t> Submit();

   private:
    friend class FakeDriver;
    explicit ChainBuilder(FakeDriver* driver) : driver_(driver) {}
    FakeDriver* driver_;
    std::vector<VirtqDesc> pieces_;
    absl::Status status_;
    std::optional<size_t> indirect_after_;
  };
  ChainBuilder Chain();

  // The next element of the used ring; nullopt: none new. With event indices, asks for an interrupt of the next one.
  std::optional<Completion> Collect();
  // True if the device wants to be notified of what was made available since the last call.
  bool NeedsNotify();
  // Sets VIRTQ_AVAIL_F_NO_INTERRUPT, or clears it.
  void SetNoInterrupt(bool on);
  // Sets used_event (with event indices): interrupt me when used index passes `event`.
  void SetUsedEvent(uint16_t event);

  // Chains made available and not collected.
  size_t outstanding() const { return chains_.size(); }
  uint16_t avail_idx() const { return avail_idx_; }
  uint16_t used_idx() const;

  // --- Misbehaving ---
  void WriteDescriptor(uint16_t index, const VirtqDesc& descriptor);
  // Puts `head` into the next slot and publishes it, whether or not such a chain exists.
  void Publish(uint16_t head);
  void SetAvailIdx(uint16_t idx);
  // Buffer space: `bytes` of it, 16-byte aligned. It is free again at the first Chain() with no chain outstanding;
  // until then RESOURCE_EXHAUSTED when it is used up.
  absl::StatusOr<memory::GuestAddress> Allocate(uint64_t bytes);

 private:
  struct InFlight {
    std::vector<uint16_t> descriptors;
    std::vector<Segment> writable;
  };
  FakeDriver(memory::GuestMemory memory, const Options& options);

  memory::GuestMemory memory_;
  Options options_;
  QueueLayout layout_;
  std::deque<uint16_t> free_;
  std::map<uint16_t, InFlight> chains_;  // by head
  uint64_t allocated_ = 0;
  uint16_t avail_idx_ = 0;
  uint16_t notified_idx_ = 0;
  uint16_t used_seen_ = 0;
};

}  // namespace sluice::virtio::testing

#endif  // SLUICE_VMM_VIRTIO_TESTING_FAKE_DRIVER_H_
