// File: console_driver.h
//
// A virtio-console driver for tests, the fuzzer and the example: a device with RAM, queues and a loop around it, driven
// through its virtqueues only, with the host's end of each port's socket.
//
//   ConsoleDriver guest({.ports = 2});
//   guest.Start();                                    // DEVICE_READY, PORT_READY, PORT_OPEN, as Linux does
//   guest.Send(1, "hello");  guest.HostRead(1);       // "hello"
//   guest.HostWrite(1, "back");  guest.Received(1);   // "back"
#ifndef SLUICE_DEVICES_CONSOLE_TESTING_CONSOLE_DRIVER_H_
#define SLUICE_DEVICES_CONSOLE_TESTING_CONSOLE_DRIVER_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/console/device.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::console::testing {

class ConsoleDriver : private virtio::Interrupt {
 public:
  struct Options {
    uint32_t ports = 1;  // the first is a console
    uint64_t features = kFeatureSize | kFeatureMultiport;
    size_t buffer_bytes = 8192;
    bool discard_when_full = false;
    uint64_t ram_per_queue = 1 << 20;
    std::function<void(uint32_t, bool)> on_guest_open = nullptr;
    std::function<void(uint32_t)> on_host_closed = nullptr;
  };
  struct Message {
    ControlMessage header;
    std::string tail;
    bool operator==(const Message& other) const {
      return header.id == other.header.id && header.event == other.header.event && header.value == other.header.value &&
             tail == other.tail;
    }
  };

  ConsoleDriver() : ConsoleDriver(Options()) {}
  // Dies if the host cannot provide what a device needs.
  explicit ConsoleDriver(const Options& options);
  ~ConsoleDriver() override;

  // Gives control buffers, says that driver and all ports are ready and open, and buffers for input.
  void Start();
  // Gives `count` control buffers of `bytes`.
  void PostControl(int count, uint32_t bytes = 256);
  void SendControl(const ControlMessage& message);
  // Control messages since the last call.
  std::vector<Message> Messages();

  bool PostInput(uint32_t port, uint32_t bytes);
  // False: the queue is full.
  bool Send(uint32_t port, absl::string_view text);
  // What came since the last call.
  std::string Received(uint32_t port);
  // Chains of a port's transmit queue that did not come back.
  size_t Unsent(uint32_t port);

  // The host's side. Reads what is there.
  std::string HostRead(uint32_t port);
  // Bytes that the socket took.
  size_t HostWrite(uint32_t port, absl::string_view text);
  void HostClose(uint32_t port) { hosts_[port].Reset(); }
  // A new pair: the device gets one end.
  absl::Status Reconnect(uint32_t port);

  void Pump();
  void Reset();
  ConsoleDevice& device() { return *device_; }
  virtio::testing::FakeDriver& queue(uint16_t index) { return queues_[index]; }
  uint64_t interrupts(uint16_t index) const { return interrupts_[index]; }
  uint64_t config_interrupts() const { return config_interrupts_; }
  bool needs_reset() const { return needs_reset_; }

 private:
  void SignalQueue(uint16_t index) override { ++interrupts_[index]; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override { ++config_interrupts_; }
  void SetNeedsReset() override { needs_reset_ = true; }
  void Activate();

  const Options options_;
  asio::io_context loop_;
  memory::GuestMemory ram_;
  std::vector<UniqueFd> hosts_;
  std::unique_ptr<ConsoleDevice> device_;
  std::vector<virtio::testing::FakeDriver> queues_;
  std::vector<uint64_t> interrupts_;
  uint64_t config_interrupts_ = 0;
  bool needs_reset_ = false;
};

}  // namespace sluice::console::testing

#endif  // SLUICE_DEVICES_CONSOLE_TESTING_CONSOLE_DRIVER_H_
