// File: device.h
//
// The virtio-console device (virtio 1.2 section 5.3) with several ports: a console port is an hvc terminal in the
// guest, another is a byte stream (/dev/virtio-ports/NAME in Linux). On the host each port is a descriptor.
//
//   ConsoleOptions options;
//   options.loop = &loop;
//   options.ports.push_back({.name = "console", .console = true, .fd = std::move(socket)});
//   options.ports.push_back({.name = "org.example.agent", .fd = std::move(other)});
//   SLUICE_ASSIGN_OR_RETURN(auto console, ConsoleDevice::Create(std::move(options)));   // a virtio::Device
//   console->SetSize(120, 40);
//
// To the guest: bytes are read off a port's descriptor when the driver has given a buffer and the port is open in the
// guest; until then they wait with the sender. From the guest: bytes that the descriptor does not take at once wait in
// a buffer, and when that is full, in the driver's queue (or are discarded, where the port says so). The loop never
// waits.
//
// Threads: the loop's, except ReadConfig (vCPU threads; `config_mu_` covers the configuration space).
// System calls: read, write, sendmsg, fstat (Create, ConnectPort).
#ifndef SLUICE_DEVICES_CONSOLE_DEVICE_H_
#define SLUICE_DEVICES_CONSOLE_DEVICE_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/console/protocol.h"
#include "vmm/base/mutex.h"
#include "vmm/base/unique_fd.h"
#include "vmm/virtio/device.h"

namespace sluice::console {

inline constexpr uint32_t kMaxPorts = 16;
inline constexpr size_t kMaxNameBytes = 128;

struct PortOptions {
  std::string name;      // for programs in the guest; printable ASCII, up to kMaxNameBytes; may be empty
  bool console = false;  // a terminal (hvc)
  // A stream socket or a terminal device (a pty whose other side stays open). Invalid: nobody is there, output is
  // discarded.
  UniqueFd fd;
  size_t buffer_bytes = 64 << 10;  // output that waits for the descriptor, 1..16 MiB
  // A full buffer discards what the guest sends instead of holding it up: stock Linux spins while its console waits.
  bool discard_when_full = false;
};

struct ConsoleOptions {
  asio::io_context* loop = nullptr;  // outlives the device
  std::vector<PortOptions> ports;    // 1..kMaxPorts
  uint16_t cols = 80;
  uint16_t rows = 25;
  // On the loop: a program in the guest opened or closed the port.
  std::function<void(uint32_t port, bool open)> on_guest_open;
  // On the loop: the port's descriptor is closed by its other side; ConnectPort may give another.
  std::function<void(uint32_t port)> on_host_closed;
};

class ConsoleDevice final : public virtio::Device {
 public:
  // INVALID_ARGUMENT: an option is out of range, or a descriptor is neither a socket nor a character device.
  static absl::StatusOr<std::unique_ptr<ConsoleDevice>> Create(ConsoleOptions options);
  ~ConsoleDevice() override;

  // --- For the machine, loop thread ---

  // The terminal's size, told to the guest's console ports.
  void SetSize(uint16_t cols, uint16_t rows);
  // Gives a port that has lost its descriptor (or never had one) a new one. INVALID_ARGUMENT: no such port, no such
  // descriptor; FAILED_PRECONDITION: it has one.
  absl::Status ConnectPort(uint32_t port, UniqueFd fd);
  bool host_connected(uint32_t port) const;
  bool guest_open(uint32_t port) const;
  // Bytes from the guest that were discarded, all ports.
  uint64_t discarded_bytes() const { return discarded_bytes_; }

  // --- virtio::Device ---

  uint16_t device_id() const override { return kVirtioDeviceIdConsole; }
  uint32_t pci_class() const override { return 0x078000; }  // communication controller, other
  uint64_t features() const override { return kFeatureSize | kFeatureMultiport; }
  absl::Span<const uint16_t> queue_max_sizes() const override { return queue_sizes_; }
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  struct Port;

  explicit ConsoleDevice(ConsoleOptions options);

  virtio::Queue* queue(uint16_t index);
  std::optional<virtio::DescriptorChain> NextChain(uint16_t index);
  void Interrupt(uint16_t index);
  void BreakQueue(uint16_t index, const absl::Status& why);
  bool multiport() const;
  // Runs `step` for the port on the loop later; nothing happens when the device is gone by then.
  void Later(void (ConsoleDevice::*step)(uint32_t), uint32_t port);

  // port_io.cc
  absl::Status Attach(Port& port, UniqueFd fd);
  void Input(uint32_t index);
  void Output(uint32_t index);
  bool FlushOutput(uint32_t index);
  bool FillOutput(uint32_t index);
  void AwaitReadable(uint32_t index);
  void AwaitWritable(uint32_t index);
  void LoseHost(uint32_t index);

  // control.cc
  void DrainControl(uint32_t unused);
  void HandleControl(const ControlMessage& message);
  void SendControl(uint32_t unused);
  bool WriteControl(const virtio::DescriptorChain& chain, uint64_t* written);

  ConsoleOptions options_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<uint16_t> queue_sizes_;
  std::optional<virtio::Activation> activation_;
  uint64_t discarded_bytes_ = 0;

  Mutex config_mu_;
  uint16_t cols_ ABSL_GUARDED_BY(config_mu_) = 0;
  uint16_t rows_ ABSL_GUARDED_BY(config_mu_) = 0;

  std::shared_ptr<ConsoleDevice*> self_;  // callbacks of the loop hold it weakly
};

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_DEVICE_H_
