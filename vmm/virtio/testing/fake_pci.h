// File: fake_pci.h
//
// Everything around a PciTransport that a test needs: a loop that the test turns by hand, a notifier that counts, and a
// driver that negotiates through the registers as a guest does.
//
//   TaskQueue loop;
//   FakeNotifier notifier;
//   auto transport = PciTransport::Create(std::move(device), {.memory = ram, .notifier = &notifier, .post =
//   loop.poster()}); FakePciDriver pci(transport->get(), &loop); pci.Start(kFeatureVersion1, ram, {16,
//   16}).IgnoreError();     // reset .. DRIVER_OK; queues' rings in RAM
//   pci.queue(0).Chain().Readable(...).Writable(24).Submit();
//   pci.Notify(0);                                                // and runs the loop
#ifndef SLUICE_VMM_VIRTIO_TESTING_FAKE_PCI_H_
#define SLUICE_VMM_VIRTIO_TESTING_FAKE_PCI_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "vmm/base/mutex.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/pci/msix.h"
#include "vmm/virtio/pci_transport.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::virtio::testing {

// Tasks posted from any thread, run when the test says so.
class TaskQueue {
 public:
  void Post(std::function<void()> task);
  // Runs tasks, also those posted meanwhile, until none is left. Returns how many ran.
  size_t Run();
  size_t pending() const;
  std::function<void(std::function<void()>)> poster() {
    return [this](std::function<void()> task) { Post(std::move(task)); };
  }

 private:
  mutable Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
};

// Remembers routes and counts interrupts. Thread-safe.
class FakeNotifier : public pci::MsixNotifier {
 public:
  void SetVector(uint16_t vector, bool deliverable, const pci::MsiMessage& message) override;
  void Signal(uint16_t vector) override;
  uint64_t signals(uint16_t vector) const;
  bool deliverable(uint16_t vector) const;
  pci::MsiMessage message(uint16_t vector) const;

 private:
  struct State {
    bool deliverable = false;
    pci::MsiMessage message;
    uint64_t signals = 0;
  };
  mutable Mutex mu_;
  std::map<uint16_t, State> vectors_ ABSL_GUARDED_BY(mu_);
};

// A driver of a transport's registers. Vector 0 is configuration, vector 1 + q is queue q.
class FakePciDriver {
 public:
  // Neither is owned; `loop` may be nullptr if somebody else runs it.
  FakePciDriver(PciTransport* transport, TaskQueue* loop) : transport_(transport), loop_(loop) {}

  // Reset, acknowledge, negotiate `features` (those that are offered), MSI-X on, a queue of each size, DRIVER_OK; runs
  // the loop. The queues lie in RAM from `base` on, 2 MiB apart. Error: the step that the device refused.
  absl::Status Start(uint64_t features, const memory::GuestMemory& ram, const std::vector<uint16_t>& sizes,
                     memory::GuestAddress base = memory::GuestAddress(0x100000));
  // Writes 0 to device_status and runs the loop. True if it then reads 0.
  bool Reset();

  FakeDriver& queue(size_t index) { return queues_[index]; }
  // Writes the notify register of queue `index`, then runs the loop.
  void Notify(uint16_t index);

  uint64_t OfferedFeatures();
  uint8_t Status() { return static_cast<uint8_t>(ReadCommon(kCommonDeviceStatus, 1)); }
  void SetStatus(uint8_t status) { WriteCommon(kCommonDeviceStatus, 1, status); }
  // Registers of the common configuration, by offset and size (1, 2, 4; 8 is two of 4).
  uint64_t ReadCommon(uint32_t offset, size_t size);
  void WriteCommon(uint32_t offset, size_t size, uint64_t value);
  uint64_t ReadBar(uint8_t bar, uint64_t offset, size_t size);
  void WriteBar(uint8_t bar, uint64_t offset, size_t size, uint64_t value);
  uint32_t ReadConfig(uint16_t offset, size_t size);
  void WriteConfig(uint16_t offset, size_t size, uint32_t value);
  // Offset of the nth (from 0) capability with this PCI id (and virtio type, if >= 0); 0: none.
  uint8_t FindCapability(uint8_t id, int virtio_type = -1, int nth = 0);
  // Programs vectors 0 .. count-1 with address 0xfee00000 and data 0x40 + vector, and turns MSI-X on.
  void EnableMsix(uint16_t count);

 private:
  void RunLoop();
  PciTransport* const transport_;
  TaskQueue* const loop_;
  std::vector<FakeDriver> queues_;
};

}  // namespace sluice::virtio::testing

#endif  // SLUICE_VMM_VIRTIO_TESTING_FAKE_PCI_H_
