// Attacks on what a vCPU reaches directly: configuration space, device registers, MSI-X, ports, addresses.
#include "firmware/drivers/pci.h"
#include "firmware/drivers/virtio_pci.h"
#include "firmware/guests/hostile/attack.h"
#include "firmware/lib/cpu.h"

namespace sluice::firmware {
namespace {

constexpr uint64_t kBar0Bytes = 0x4000, kBar2Bytes = 0x1000;

// One access of 1, 2, 4 or 8 bytes, a read or a write.
void Poke(uint64_t address, Attack* attack) {
  const bool write = !attack->OneIn(4);
  const uint64_t value = attack->Odd64();
  switch (attack->Below(4)) {
    case 0:
      write ? Mmio<uint8_t>(address).Write(static_cast<uint8_t>(value)) : void(Mmio<uint8_t>(address).Read());
      break;
    case 1:
      write ? Mmio<uint16_t>(address).Write(static_cast<uint16_t>(value)) : void(Mmio<uint16_t>(address).Read());
      break;
    case 2:
      write ? Mmio<uint32_t>(address).Write(static_cast<uint32_t>(value)) : void(Mmio<uint32_t>(address).Read());
      break;
    default:
      write ? Mmio<uint64_t>(address).Write(value) : void(Mmio<uint64_t>(address).Read());
  }
}

// Interrupt messages that would end this guest rather than trouble the machine: INIT and friends to the own processor,
// and vectors of exceptions.
uint32_t TameMessage(uint32_t data) {
  data &= ~0x700u;  // delivery mode: fixed
  if ((data & 0xff) < 0x20) data |= 0x40;
  return data;
}

void PortAccess(uint16_t port, Attack* attack) {
  const auto value = static_cast<uint32_t>(attack->Odd64());
  switch (attack->Below(6)) {
    case 0:
      Out8(port, static_cast<uint8_t>(value));
      break;
    case 1:
      Out16(port, static_cast<uint16_t>(value));
      break;
    case 2:
      Out32(port, value);
      break;
    case 3:
      In8(port);
      break;
    case 4:
      In16(port);
      break;
    default:
      In32(port);
  }
}

}  // namespace

void AttackConfigSpace(Attack* attack) {
  KeepPciFunction keep;
  uint64_t n = 20 + attack->Below(60);
  while (attack->Go(&n)) {
    // Mostly the devices that are there, else any of the bus, and what lies behind the bus.
    const uint64_t function = attack->OneIn(4) ? attack->Below(256) : attack->Below(2) * 8;
    const uint64_t offset = attack->OneIn(3) ? attack->Below(4096) : attack->Below(0x100);
    if (attack->OneIn(3)) {
      const uint32_t address = 0x80000000 | static_cast<uint32_t>(function << 8 | (offset & 0xfc));
      Out32(0xcf8, attack->OneIn(8) ? attack->Odd32() : address);
      PortAccess(static_cast<uint16_t>(0xcfc + attack->Below(4)), attack);
    } else {
      Poke(kEcamBase + (function << 12) + offset, attack);
    }
  }
}

void AttackRegisters(Attack* attack) {
  KeepPciFunction keep;
  if (!keep.present()) return;
  keep.function().EnableMemoryAndBusMaster();
  const uint64_t bar = keep.function().GetBar(0).address;
  if (bar == 0) return;
  uint64_t n = 20 + attack->Below(80);
  while (attack->Go(&n)) {
    switch (attack->Below(6)) {
      case 0:
      case 1:  // a register of the common configuration, at its place
        Poke(bar + (attack->Below(kCommonBytes) & ~uint64_t{1}), attack);
        break;
      case 2:  // status: what drivers write, in any order
        Mmio<uint8_t>(bar + kCommonStatus)
            .Write(static_cast<uint8_t>(attack->OneIn(2) ? attack->Below(16) : attack->Odd64()));
        break;
      case 3:  // ISR and device configuration
        Poke(bar + 0x1000 + attack->Below(0x1040), attack);
        break;
      case 4:  // notifications
        Poke(bar + 0x3000 + attack->Below(16), attack);
        break;
      default:
        Poke(bar + attack->Below(kBar0Bytes), attack);
    }
  }
}

void AttackMsix(Attack* attack) {
  KeepPciFunction keep;
  if (!keep.present()) return;
  keep.function().EnableMemoryAndBusMaster();
  const uint64_t bar = keep.function().GetBar(2).address;
  if (bar == 0) return;
  uint64_t n = 10 + attack->Below(40);
  while (attack->Go(&n)) {
    const uint64_t entry = attack->Below(attack->OneIn(4) ? 256 : 4);
    const uint64_t field = attack->Below(4) * 4;
    switch (attack->Below(4)) {
      case 0:  // the data is where an own INIT could hide
        Mmio<uint32_t>(bar + entry * 16 + 8).Write(TameMessage(attack->Odd32()));
        break;
      case 1:
        Mmio<uint32_t>(bar + (entry * 16 + field) % kBar2Bytes).Write(field == 8 ? 0x41 : attack->Odd32());
        break;
      case 2:
        Poke(bar + 0x800 + attack->Below(0x800 - 8), attack);
        break;
      default:
        Mmio<uint32_t>(bar + (attack->Below(kBar2Bytes) & ~uint64_t{3})).Read();
    }
  }
}

void AttackPorts(Attack* attack) {
  uint64_t n = 10 + attack->Below(40);
  while (attack->Go(&n)) {
    switch (attack->Below(4)) {
      case 0:  // serial: every register
        PortAccess(static_cast<uint16_t>(0x3f8 + attack->Below(8)), attack);
        break;
      case 1:  // not the exit port, nor the interrupt controllers and timers inside the kernel
        PortAccess(static_cast<uint16_t>(0x100 + attack->Below(0xff00 - 8)), attack);
        break;
      case 2:
        Out32(0xe1, attack->Odd32());
        break;
      default:  // the hole below 4 GiB, without the interrupt controllers at its end
        Poke(0xe0000000 + attack->Below(0x1e000000), attack);
    }
  }
}

}  // namespace sluice::firmware
