// Fuzz target: the walk of a split virtqueue whose rings and buffers a hostile guest writes.
//
// Threat model: the guest chooses the layout and every byte of RAM, at any time between two calls of the device; the
// device pops, reads, writes and completes in any order, resets, and uses chains of before a reset. Nothing may crash,
// loop or reach outside RAM, and the invariants at the bottom hold.
//
// Grammar: size exponent, flags (1: event_idx, 2: indirect), then operations of one byte plus operands; see Run().
#include <cstdlib>
#include <optional>
#include <vector>

#include "vmm/virtio/queue.h"
#include "vmm/virtio/testing/byte_source.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::ByteSource;

constexpr uint64_t kRamBytes = 64 << 10;
constexpr uint64_t kDescriptors = 0x1000;
constexpr uint64_t kDriverArea = 0x3000;
constexpr uint64_t kDeviceArea = 0x4000;
constexpr size_t kMaxOperations = 4096;

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckChain(const DescriptorChain& chain, const GuestMemory& ram, uint16_t queue_size) {
  uint64_t readable = 0;
  uint64_t writable = 0;
  for (const Segment& s : chain.readable()) {
    Require(s.size > 0 && ram.Contains(s.address, s.size));
    readable += s.size;
  }
  for (const Segment& s : chain.writable()) {
    Require(s.size > 0 && ram.Contains(s.address, s.size));
    writable += s.size;
  }
  Require(readable == chain.ReadableSize() && writable == chain.WritableSize());
  Require(readable + writable <= UINT32_MAX);
  Require(chain.readable().size() + chain.writable().size() <= kMaxChainDescriptors);
  Require(chain.head() < queue_size);
}

void Run(const GuestMemory& ram, ByteSource in) {
  const uint8_t exponent = in.Byte() % 9;
  const uint8_t flags = in.Byte();
  const QueueLayout layout = {.size = static_cast<uint16_t>(1u << exponent),
                              .descriptors = GuestAddress(kDescriptors),
                              .driver_area = GuestAddress(kDriverArea),
                              .device_area = GuestAddress(kDeviceArea),
                              .event_idx = (flags & 1) != 0,
                              .indirect = (flags & 2) != 0};
  auto created = Queue::Create(ram, layout);
  Require(created.ok());
  Queue queue = *std::move(created);
  std::vector<DescriptorChain> held;
  uint32_t stale = 0;  // of `held`, those of before a reset (they come first)
  uint16_t avail_idx = 0;
  const auto complete = [&](size_t index, uint64_t written) {
    const bool current = index >= stale;
    const absl::Status status = queue.Complete(std::move(held[index]), written);
    Require(status.ok() == current);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
    if (!current) --stale;
  };

  for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) {
    switch (in.Byte() % 10) {
      case 0: {  // any bytes anywhere
        const GuestAddress at(in.U16());
        ram.CopyTo(at, in.Bytes(in.Byte() % 17)).IgnoreError();
        break;
      }
      case 1: {  // a descriptor in the table, or in an indirect table at 0x8000
        const uint64_t base = (in.Byte() & 1) != 0 ? 0x8000 : kDescriptors;
        const uint64_t index = in.Byte();
        const VirtqDesc descriptor = {in.U32(), in.U32() & 0xffff, static_cast<uint16_t>(in.Byte() & 7), in.Byte()};
        ram.Write(GuestAddress(base + 16 * index), descriptor).IgnoreError();
        break;
      }
      case 2: {  // publish a head
        const uint16_t head = in.Byte();
        ram.Write(GuestAddress(kDriverArea + kRingEntries + 2 * (avail_idx % layout.size)), head).IgnoreError();
        ram.Store<uint16_t>(GuestAddress(kDriverArea + kRingIdx), ++avail_idx).IgnoreError();
        break;
      }
      case 3: {
        auto chain = queue.Pop();
        if (!chain.ok() || !chain->has_value()) break;
        CheckChain(**chain, ram, layout.size);
        held.push_back(**std::move(chain));
        break;
      }
      case 4:
        if (!held.empty()) complete(in.Byte() % held.size(), in.U32());
        break;
      case 5: {
        if (held.empty()) break;
        const DescriptorChain& chain = held[in.Byte() % held.size()];
        const uint64_t offset = in.U32();
        std::vector<uint8_t> bytes(in.U16());
        const bool fits = offset <= chain.ReadableSize() && bytes.size() <= chain.ReadableSize() - offset;
        Require(chain.Read(offset, absl::MakeSpan(bytes)).ok() == fits);
        break;
      }
      case 6: {
        if (held.empty()) break;
        const DescriptorChain& chain = held[in.Byte() % held.size()];
        const uint64_t offset = in.Byte();
        const std::vector<uint8_t> bytes(in.U16(), in.Byte());
        const bool fits = offset <= chain.WritableSize() && bytes.size() <= chain.WritableSize() - offset;
        Require(chain.Write(offset, bytes).ok() == fits);
        break;
      }
      case 7:
        queue
            .Drain(in.Byte(),
                   [&](DescriptorChain chain) {
                     CheckChain(chain, ram, layout.size);
                     if ((chain.head() & 1) != 0) {
                       held.push_back(std::move(chain));
                     } else {
                       Require(queue.Complete(std::move(chain), chain.WritableSize()).ok());
                     }
                   })
            .IgnoreError();
        break;
      case 8:
        queue.NeedsInterrupt();
        queue.EnableNotifications();
        break;
      default: {  // reset: the same rings, a new queue
        queue = *Queue::Create(ram, layout);
        stale = static_cast<uint32_t>(held.size());
        ram.Fill(GuestAddress(kDriverArea), 0, 4).IgnoreError();
        avail_idx = 0;
        break;
      }
    }
    Require(queue.in_flight() <= layout.size);
    Require(queue.in_flight() == held.size() - stale);
    if (held.size() > 1024) held.clear(), stale = 0, queue = *Queue::Create(ram, layout);
  }
}

}  // namespace
}  // namespace sluice::virtio

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const ram =
      new sluice::memory::GuestMemory(*sluice::memory::GuestMemory::CreateSimple(sluice::virtio::kRamBytes));
  ram->Fill(sluice::memory::GuestAddress(0), 0, sluice::virtio::kRamBytes).IgnoreError();
  sluice::virtio::Run(*ram, sluice::virtio::testing::ByteSource(data, size));
  return 0;
}
