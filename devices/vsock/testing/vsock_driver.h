// File: vsock_driver.h
//
// A virtio-vsock driver for tests, the fuzzer and the example: a device with RAM, queues and a loop around it, driven
// through its virtqueues only, with the host's programs played by the test.
//
//   VsockDriver guest;
//   guest.PostReceive(8);
//   UniqueFd host = guest.HostConnects("CONNECT 52\n");      // a program on the host
//   VsockDriver::Packet asked = guest.NextPacket();          // kOpRequest to port 52
//   guest.Answer(asked, kOpResponse);
//   guest.Send(kOpRequest, 1000, 80);                        // to the host's port 80, if guest.Offer(80)
#ifndef SLUICE_DEVICES_VSOCK_TESTING_VSOCK_DRIVER_H_
#define SLUICE_DEVICES_VSOCK_TESTING_VSOCK_DRIVER_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices/vsock/device.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::vsock::testing {

// Makes socket pairs for the ports on offer; answers at once, or when the test says so.
class FakeConnector final : public HostConnector {
 public:
  void Connect(uint32_t port, Done done) override;
  // Answers the oldest request that waits, as its port is on offer. False: none waits.
  bool Answer();

  std::set<uint32_t> offered;
  bool hold = false;
  std::deque<UniqueFd> hosts;  // the host's ends, in order
  std::deque<std::pair<uint32_t, Done>> waiting;
};

class VsockDriver : private virtio::Interrupt {
 public:
  static constexpr uint64_t kGuestCid = 7;
  struct Options {
    uint32_t max_connections = 16;
    uint32_t buffer_bytes = 4096;
    absl::Duration patience = absl::Seconds(10);
    uint64_t ram_per_queue = 1 << 20;
    uint16_t queue_size = 64;
  };
  struct Packet {
    PacketHeader header{};
    std::string payload;
    uint16_t op() const { return header.op; }
  };

  VsockDriver() : VsockDriver(Options()) {}
  // Dies if the host cannot provide what a device needs.
  explicit VsockDriver(const Options& options);
  ~VsockDriver() override;

  // Gives `count` receive buffers of `bytes`. Returns how many fit.
  int PostReceive(int count, uint32_t bytes = 4096);
  // Sends a packet from the guest's port to the host's, with a large credit unless changed. False: the queue is full.
  bool Send(uint16_t op, uint32_t guest_port, uint32_t host_port, absl::string_view payload = "", uint32_t flags = 0);
  bool SendPacket(const PacketHeader& header, absl::string_view payload);
  // Sends `op` back to where `packet` came from.
  bool Answer(const Packet& packet, uint16_t op, absl::string_view payload = "", uint32_t flags = 0) {
    return Send(op, packet.header.dst_port, packet.header.src_port, payload, flags);
  }
  PacketHeader Header(uint16_t op, uint32_t guest_port, uint32_t host_port, uint32_t len) const;
  // The next packet to the guest; op kOpInvalid: there is none.
  Packet NextPacket();
  // Chains of the transmit queue that did not come back.
  size_t Unsent();

  // The host's side.
  void Offer(uint32_t port) { connector_->offered.insert(port); }
  FakeConnector& connector() { return *connector_; }
  // A program on the host connects and writes `line`.
  UniqueFd HostConnects(absl::string_view line);
  std::string HostRead(const UniqueFd& host);
  size_t HostWrite(const UniqueFd& host, absl::string_view text);
  // True if the host's socket has ended (and everything was read).
  bool HostEnded(const UniqueFd& host);

  // A connection that the guest made to an offered port: the host's end. Invalid: it failed.
  UniqueFd Connect(uint32_t guest_port, uint32_t host_port);

  void Pump();
  // Pumps until `done`, up to 10 s.
  bool PumpUntil(const std::function<bool()>& done);
  void Reset();
  VsockDevice& device() { return *device_; }
  virtio::testing::FakeDriver& queue(uint16_t index) { return queues_[index]; }
  bool needs_reset() const { return needs_reset_; }
  uint64_t interrupts(uint16_t index) const { return interrupts_[index]; }

  // What the guest says of itself in its next packets.
  uint32_t buf_alloc = 1 << 20;
  uint32_t fwd_cnt = 0;

 private:
  void SignalQueue(uint16_t index) override { ++interrupts_[index]; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override {}
  void SetNeedsReset() override { needs_reset_ = true; }
  void Activate();

  const Options options_;
  asio::io_context loop_;
  memory::GuestMemory ram_;
  UniqueFd listener_;  // a second descriptor of the device's
  FakeConnector* connector_ = nullptr;
  std::unique_ptr<VsockDevice> device_;
  std::vector<virtio::testing::FakeDriver> queues_;
  uint64_t interrupts_[3] = {};
  bool needs_reset_ = false;
};

}  // namespace sluice::vsock::testing

#endif  // SLUICE_DEVICES_VSOCK_TESTING_VSOCK_DRIVER_H_
