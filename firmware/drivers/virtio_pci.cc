#include "firmware/drivers/virtio_pci.h"

#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/interrupts.h"

namespace sluice::firmware {
namespace {

// struct virtio_pci_cap (4.1.4).
constexpr uint8_t kCapType = 3, kCapBar = 4, kCapId = 5, kCapOffset = 8, kCapLength = 12, kCapExtra = 16,
                  kCapLengthHigh = 20;
constexpr uint8_t kTypeCommon = 1, kTypeNotify = 2, kTypeIsr = 3, kTypeDevice = 4, kTypeSharedMemory = 8;

constexpr uint64_t kResetPollNs = 200'000;

uint16_t At(uint8_t capability, uint8_t field) {
  return static_cast<uint16_t>(capability + field);
}

}  // namespace

bool VirtioPci::Open(const PciFunction& function, uint64_t reset_timeout_ns) {
  reset_timeout_ns_ = reset_timeout_ns;
  function_ = function;
  function.EnableMemoryAndBusMaster();
  for (uint8_t cap = function.FindCapability(kPciCapVendor); cap != 0;
       cap = function.FindCapability(kPciCapVendor, cap)) {
    const PciBar bar = function.GetBar(function.Read8(At(cap, kCapBar)) % 6);
    const uint64_t address = bar.address + function.Read32(At(cap, kCapOffset));
    if (bar.address == 0 || bar.io) continue;
    switch (function.Read8(At(cap, kCapType))) {
      case kTypeCommon:
        common_ = address;
        break;
      case kTypeNotify:
        notify_ = address;
        notify_multiplier_ = function.Read32(At(cap, kCapExtra));
        break;
      case kTypeIsr:
        isr_ = address;
        break;
      case kTypeDevice:
        config_ = address;
        break;
      default:
        break;
    }
  }
  if (common_ == 0 || notify_ == 0 || isr_ == 0) return false;
  return Reset() && msix_.Enable(function);
}

bool VirtioPci::Reset() {
  Mmio<uint8_t>(common_ + kCommonStatus).Write(0);
  const uint64_t deadline = NowNs() + reset_timeout_ns_;
  while (status() != 0) {
    if (NowNs() > deadline) return false;
    SleepNs(kResetPollNs);
  }
  return true;
}

uint8_t VirtioPci::status() const {
  return Mmio<uint8_t>(common_ + kCommonStatus).Read();
}

uint64_t VirtioPci::Negotiate(uint64_t wanted) {
  const Mmio<uint8_t> status_register(common_ + kCommonStatus);
  status_register.Write(kVirtioAcknowledge);
  status_register.Write(kVirtioAcknowledge | kVirtioDriver);
  uint64_t offered = 0;
  for (uint32_t half = 0; half < 2; half++) {
    Mmio<uint32_t>(common_ + kCommonDeviceFeatureSelect).Write(half);
    offered |= uint64_t{Mmio<uint32_t>(common_ + kCommonDeviceFeature).Read()} << (32 * half);
  }
  if ((offered & kVirtioFeatureVersion1) == 0) return 0;
  const uint64_t features = (wanted | kVirtioFeatureVersion1) & offered;
  for (uint32_t half = 0; half < 2; half++) {
    Mmio<uint32_t>(common_ + kCommonDriverFeatureSelect).Write(half);
    Mmio<uint32_t>(common_ + kCommonDriverFeature).Write(static_cast<uint32_t>(features >> (32 * half)));
  }
  status_register.Write(kVirtioAcknowledge | kVirtioDriver | kVirtioFeaturesOk);
  return (status_register.Read() & kVirtioFeaturesOk) != 0 ? features : 0;
}

uint16_t VirtioPci::MaxQueueSize(uint16_t index) const {
  Mmio<uint16_t>(common_ + kCommonQueueSelect).Write(index);
  return Mmio<uint16_t>(common_ + kCommonQueueSize).Read();
}

bool VirtioPci::SetUpQueue(uint16_t index, const Virtqueue& queue, uint8_t vector) {
  if (index >= kMaxQueues || index + 1 >= msix_.entries() || queue.size() > MaxQueueSize(index)) return false;
  const auto entry = static_cast<uint16_t>(index + 1);
  msix_.Route(entry, vector);
  Mmio<uint16_t>(common_ + kCommonQueueVector).Write(entry);
  if (Mmio<uint16_t>(common_ + kCommonQueueVector).Read() != entry) return false;
  Mmio<uint16_t>(common_ + kCommonQueueSize).Write(queue.size());
  const auto write64 = [&](uint64_t offset, uint64_t value) {
    Mmio<uint32_t>(common_ + offset).Write(static_cast<uint32_t>(value));
    Mmio<uint32_t>(common_ + offset + 4).Write(static_cast<uint32_t>(value >> 32));
  };
  write64(kCommonQueueDescriptors, queue.descriptor_address());
  write64(kCommonQueueDriver, queue.driver_address());
  write64(kCommonQueueDevice, queue.device_address());
  notify_at_[index] = notify_address(index);
  Mmio<uint16_t>(common_ + kCommonQueueEnable).Write(1);
  return Mmio<uint16_t>(common_ + kCommonQueueEnable).Read() == 1;
}

uint64_t VirtioPci::notify_address(uint16_t queue) const {
  Mmio<uint16_t>(common_ + kCommonQueueSelect).Write(queue);
  return notify_ + uint64_t{Mmio<uint16_t>(common_ + kCommonQueueNotifyOffset).Read()} * notify_multiplier_;
}

void VirtioPci::RouteConfig(uint8_t vector) {
  msix_.Route(0, vector);
  Mmio<uint16_t>(common_ + kCommonConfigVector).Write(0);
}

void VirtioPci::DriverOk() {
  Mmio<uint8_t>(common_ + kCommonStatus)
      .Write(kVirtioAcknowledge | kVirtioDriver | kVirtioFeaturesOk | kVirtioDriverOk);
}

void VirtioPci::Notify(uint16_t queue) const {
  Mmio<uint16_t>(notify_at_[queue]).Write(queue);
}

uint32_t VirtioPci::ReadConfig32(uint16_t offset) const {
  return config_ == 0 ? 0 : Mmio<uint32_t>(config_ + offset).Read();
}

void VirtioPci::WriteConfig32(uint16_t offset, uint32_t value) const {
  if (config_ != 0) Mmio<uint32_t>(config_ + offset).Write(value);
}

SharedRegion VirtioPci::FindSharedRegion(uint8_t id) const {
  SharedRegion region;
  for (uint8_t cap = function_.FindCapability(kPciCapVendor); cap != 0;
       cap = function_.FindCapability(kPciCapVendor, cap)) {
    if (function_.Read8(At(cap, kCapType)) != kTypeSharedMemory || function_.Read8(At(cap, kCapId)) != id) continue;
    const PciBar bar = function_.GetBar(function_.Read8(At(cap, kCapBar)) % 6);
    // struct virtio_pci_cap64: the upper halves of offset and length follow.
    const uint64_t offset = function_.Read32(At(cap, kCapOffset)) | uint64_t{function_.Read32(At(cap, kCapExtra))}
                                                                        << 32;
    region.bytes = function_.Read32(At(cap, kCapLength)) | uint64_t{function_.Read32(At(cap, kCapLengthHigh))} << 32;
    region.address = bar.address + offset;
    if (bar.address == 0) region = {};
    break;
  }
  return region;
}

}  // namespace sluice::firmware
