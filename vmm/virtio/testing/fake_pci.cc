#include "vmm/virtio/testing/fake_pci.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"

namespace sluice::virtio::testing {

using memory::GuestAddress;

void TaskQueue::Post(std::function<void()> task) {
  MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

size_t TaskQueue::Run() {
  size_t ran = 0;
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mu_);
      if (tasks_.empty()) return ran;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    ++ran;
  }
}

size_t TaskQueue::pending() const {
  MutexLock lock(&mu_);
  return tasks_.size();
}

void FakeNotifier::SetVector(uint16_t vector, bool deliverable, const pci::MsiMessage& message) {
  MutexLock lock(&mu_);
  vectors_[vector].deliverable = deliverable;
  vectors_[vector].message = message;
}

void FakeNotifier::Signal(uint16_t vector) {
  MutexLock lock(&mu_);
  ++vectors_[vector].signals;
}

uint64_t FakeNotifier::signals(uint16_t vector) const {
  MutexLock lock(&mu_);
  const auto it = vectors_.find(vector);
  return it == vectors_.end() ? 0 : it->second.signals;
}

bool FakeNotifier::deliverable(uint16_t vector) const {
  MutexLock lock(&mu_);
  const auto it = vectors_.find(vector);
  return it != vectors_.end() && it->second.deliverable;
}

pci::MsiMessage FakeNotifier::message(uint16_t vector) const {
  MutexLock lock(&mu_);
  const auto it = vectors_.find(vector);
  return it == vectors_.end() ? pci::MsiMessage() : it->second.message;
}

void FakePciDriver::RunLoop() {
  if (loop_ != nullptr) loop_->Run();
}

uint64_t FakePciDriver::ReadBar(uint8_t bar, uint64_t offset, size_t size) {
  uint8_t bytes[8] = {};
  transport_->BarRead(bar, offset, absl::MakeSpan(bytes, size));
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

void FakePciDriver::WriteBar(uint8_t bar, uint64_t offset, size_t size, uint64_t value) {
  uint8_t bytes[8];
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  transport_->BarWrite(bar, offset, absl::MakeConstSpan(bytes, size));
}

uint64_t FakePciDriver::ReadCommon(uint32_t offset, size_t size) {
  if (size == 8) return ReadCommon(offset, 4) | (ReadCommon(offset + 4, 4) << 32);
  return ReadBar(kRegisterBar, kCommonOffset + offset, size);
}

void FakePciDriver::WriteCommon(uint32_t offset, size_t size, uint64_t value) {
  if (size == 8) {
    WriteCommon(offset, 4, value & 0xffffffff);
    WriteCommon(offset + 4, 4, value >> 32);
    return;
  }
  WriteBar(kRegisterBar, kCommonOffset + offset, size, value);
}

uint32_t FakePciDriver::ReadConfig(uint16_t offset, size_t size) {
  uint8_t bytes[4] = {};
  transport_->ConfigRead(offset, absl::MakeSpan(bytes, size));
  return bytes[0] | (uint32_t{bytes[1]} << 8) | (uint32_t{bytes[2]} << 16) | (uint32_t{bytes[3]} << 24);
}

void FakePciDriver::WriteConfig(uint16_t offset, size_t size, uint32_t value) {
  uint8_t bytes[4];
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  transport_->ConfigWrite(offset, absl::MakeConstSpan(bytes, size));
}

uint8_t FakePciDriver::FindCapability(uint8_t id, int virtio_type, int nth) {
  auto at = static_cast<uint8_t>(ReadConfig(pci::kRegCapabilities, 1));
  for (int steps = 0; at != 0 && steps < 64; ++steps) {
    const bool matches = ReadConfig(at, 1) == id &&
                         (virtio_type < 0 || ReadConfig(at + kPciCapType, 1) == static_cast<uint32_t>(virtio_type));
    if (matches && nth-- == 0) return at;
    at = static_cast<uint8_t>(ReadConfig(at + 1, 1));
  }
  return 0;
}

void FakePciDriver::EnableMsix(uint16_t count) {
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t entry = uint64_t{i} * pci::kMsixEntryBytes;
    WriteBar(kMsixBar, entry + pci::kMsixEntryAddress, 4, 0xfee00000);
    WriteBar(kMsixBar, entry + pci::kMsixEntryAddressHigh, 4, 0);
    WriteBar(kMsixBar, entry + pci::kMsixEntryData, 4, 0x40 + i);
    WriteBar(kMsixBar, entry + pci::kMsixEntryControl, 4, 0);
  }
  const uint8_t capability = FindCapability(pci::kCapabilityMsix);
  WriteConfig(capability + pci::kMsixControl, 2, pci::kMsixEnable);
}

bool FakePciDriver::Reset() {
  SetStatus(0);
  RunLoop();
  return Status() == 0;
}

uint64_t FakePciDriver::OfferedFeatures() {
  WriteCommon(kCommonDeviceFeatureSelect, 4, 0);
  const uint64_t low = ReadCommon(kCommonDeviceFeature, 4);
  WriteCommon(kCommonDeviceFeatureSelect, 4, 1);
  return low | (ReadCommon(kCommonDeviceFeature, 4) << 32);
}

void FakePciDriver::Notify(uint16_t index) {
  WriteBar(kRegisterBar, PciTransport::NotifyOffset(index), 2, index);
  RunLoop();
}

absl::Status FakePciDriver::Start(uint64_t features, const memory::GuestMemory& ram, const std::vector<uint16_t>& sizes,
                                  GuestAddress base) {
  if (!Reset()) return absl::InternalError("device_status does not read 0 after reset");
  SetStatus(kStatusAcknowledge);
  SetStatus(kStatusAcknowledge | kStatusDriver);
  features &= OfferedFeatures();
  WriteCommon(kCommonDriverFeatureSelect, 4, 0);
  WriteCommon(kCommonDriverFeature, 4, features & 0xffffffff);
  WriteCommon(kCommonDriverFeatureSelect, 4, 1);
  WriteCommon(kCommonDriverFeature, 4, features >> 32);
  const uint8_t negotiated = kStatusAcknowledge | kStatusDriver | kStatusFeaturesOk;
  SetStatus(negotiated);
  if ((Status() & kStatusFeaturesOk) == 0) return absl::InternalError("the device does not accept the features");

  EnableMsix(static_cast<uint16_t>(sizes.size() + 1));
  WriteCommon(kCommonConfigMsixVector, 2, 0);
  queues_.clear();
  if (sizes.size() > kMaxQueues) return absl::InvalidArgumentError("more queues than a transport has");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint64_t at = base.value() + (uint64_t{i} << 21);
    SLUICE_ASSIGN_OR_RETURN(FakeDriver queue,
                            FakeDriver::Create(ram, {.size = sizes[i],
                                                     .rings = GuestAddress(at),
                                                     .buffers = GuestAddress(at + 0x100000),
                                                     .buffer_bytes = 0x100000,
                                                     .event_idx = (features & kFeatureEventIdx) != 0}));
    WriteCommon(kCommonQueueSelect, 2, i);
    if (ReadCommon(kCommonQueueSize, 2) < sizes[i]) {
      return absl::InternalError(absl::StrCat("queue ", i, " is smaller than ", sizes[i]));
    }
    WriteCommon(kCommonQueueSize, 2, sizes[i]);
    WriteCommon(kCommonQueueMsixVector, 2, i + 1);
    WriteCommon(kCommonQueueDesc, 8, queue.layout().descriptors.value());
    WriteCommon(kCommonQueueDriver, 8, queue.layout().driver_area.value());
    WriteCommon(kCommonQueueDevice, 8, queue.layout().device_area.value());
    WriteCommon(kCommonQueueEnable, 2, 1);
    queues_.push_back(std::move(queue));
  }
  SetStatus(negotiated | kStatusDriverOk);
  RunLoop();
  if ((Status() & kStatusNeedsReset) != 0) return absl::InternalError("the device needs a reset at once");
  return absl::OkStatus();
}

}  // namespace sluice::virtio::testing
