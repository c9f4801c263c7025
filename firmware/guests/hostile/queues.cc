// Attacks on the virtqueues: rings and descriptors that lie, behind a device that was brought up properly.
#include <string.h>

#include "firmware/drivers/virtio_pci.h"
#include "firmware/guests/hostile/attack.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/interrupts.h"

namespace sluice::firmware {
namespace {

struct Descriptor {
  uint64_t address;
  uint32_t length;
  uint16_t flags;
  uint16_t next;
};

// A queue's memory inside the scratch area, at places of our own choice.
struct RawQueue {
  uint16_t size;
  Descriptor* descriptors;
  volatile uint16_t* available;  // flags, idx, ring
  uint8_t* used;
};

RawQueue Place(Attack* attack, uint16_t index) {
  uint8_t* base = attack->scratch() + index * (Attack::kScratchBytes / 2);
  const auto size = static_cast<uint16_t>(1u << attack->Below(7));
  return {size, reinterpret_cast<Descriptor*>(base), reinterpret_cast<volatile uint16_t*>(base + 0x4000),
          base + 0x8000};
}

void WriteQueue(uint64_t common, uint16_t index, const RawQueue& queue, Attack* attack) {
  Mmio<uint16_t>(common + kCommonQueueSelect).Write(index);
  Mmio<uint16_t>(common + kCommonQueueSize)
      .Write(attack->OneIn(12) ? static_cast<uint16_t>(attack->Odd64()) : queue.size);
  const auto address = [&](uint64_t offset, const volatile void* place) {
    uint64_t value = reinterpret_cast<uint64_t>(place);
    if (attack->OneIn(12)) value = attack->OddAddress();
    Mmio<uint32_t>(common + offset).Write(static_cast<uint32_t>(value));
    Mmio<uint32_t>(common + offset + 4).Write(static_cast<uint32_t>(value >> 32));
  };
  address(kCommonQueueDescriptors, queue.descriptors);
  address(kCommonQueueDriver, queue.available);
  address(kCommonQueueDevice, queue.used);
  Mmio<uint16_t>(common + kCommonQueueVector).Write(attack->OneIn(4) ? static_cast<uint16_t>(attack->Odd64()) : index);
  Mmio<uint16_t>(common + kCommonQueueEnable).Write(1);
}

Descriptor OddDescriptor(Attack* attack, uint16_t size) {
  Descriptor d;
  d.address = attack->OneIn(3) ? attack->OddAddress()
                               : reinterpret_cast<uint64_t>(attack->scratch()) + 0x10000 + attack->Below(0x8000);
  d.length = attack->OneIn(3) ? attack->Odd32() : static_cast<uint32_t>(attack->Below(2048));
  d.flags = static_cast<uint16_t>(attack->OneIn(8) ? attack->Odd64() : attack->Below(8));
  d.next = static_cast<uint16_t>(attack->OneIn(6) ? attack->Odd64() : attack->Below(size));
  // An indirect table of a sensible length, mostly.
  if ((d.flags & 4) != 0 && !attack->OneIn(4)) d.length = static_cast<uint32_t>(attack->Below(64)) * 16;
  return d;
}

}  // namespace

void AttackQueues(Attack* attack) {
  KeepPciFunction keep;
  VirtioPci device;
  if (!keep.present() || !device.Open(keep.function(), 200'000'000)) return;
  if (device.Negotiate(attack->OneIn(2) ? UINT64_MAX : attack->random().Next()) == 0) return;
  const uint64_t common = device.common_address();
  RawQueue queues[2] = {Place(attack, 0), Place(attack, 1)};
  attack->random().Fill(attack->scratch(), Attack::kScratchBytes);
  for (uint16_t i = 0; i < 2; i++) WriteQueue(common, i, queues[i], attack);
  const uint64_t notify[2] = {device.notify_address(0), device.notify_address(1)};
  device.DriverOk();

  uint64_t n = 30 + attack->Below(100);
  while (attack->Go(&n)) {
    const uint64_t which = attack->Below(2);
    RawQueue& queue = queues[which];
    switch (attack->Below(8)) {
      case 0:
      case 1:
      case 2:
        queue.descriptors[attack->Below(queue.size)] = OddDescriptor(attack, queue.size);
        break;
      case 3:  // a descriptor that a chain could really use, for a request that says something
      {
        const uint32_t type = 0x100 + static_cast<uint32_t>(attack->Below(14)) + (attack->OneIn(2) ? 0x100 : 0);
        memcpy(attack->scratch() + 0x10000 + attack->Below(64) * 64, &type, sizeof(type));
        queue.descriptors[attack->Below(queue.size)] = {reinterpret_cast<uint64_t>(attack->scratch()) + 0x10000, 64,
                                                        static_cast<uint16_t>(attack->Below(2)),
                                                        static_cast<uint16_t>(attack->Below(queue.size))};
        break;
      }
      case 4:
        queue.available[2 + attack->Below(queue.size)] =
            static_cast<uint16_t>(attack->OneIn(6) ? attack->Odd64() : attack->Below(queue.size));
        break;
      case 5:
        queue.available[1] = static_cast<uint16_t>(
            attack->OneIn(6) ? attack->Odd64() : queue.available[1] + attack->Below(queue.size + 1));
        break;
      case 6:
        Mmio<uint16_t>(notify[which]).Write(static_cast<uint16_t>(which));
        break;
      default:  // while the device is at it
        attack->Mutate(attack->scratch(), Attack::kScratchBytes);
        if (attack->OneIn(4)) WriteQueue(common, static_cast<uint16_t>(attack->Below(4)), queue, attack);
    }
  }
  for (uint64_t address : notify) Mmio<uint16_t>(address).Write(0);
  SleepNs(200'000);
  device.Reset();
}

}  // namespace sluice::firmware
