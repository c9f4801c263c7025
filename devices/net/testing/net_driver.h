// File: net_driver.h
//
// A virtio-net driver for tests, the fuzzer and the example: a device with RAM, three queues and a loop around it,
// driven through its virtqueues only; and a back end whose other end is the test.
//
//   NetDriver net;                                 // over a frame socket; net.wire() is the other end
//   net.PostReceive(1526);
//   SendFrame(net.wire(), frame);
//   net.Pump();
//   net.received();                                // header and frame of each
//   net.Transmit({}, frame);
#ifndef SLUICE_DEVICES_NET_TESTING_NET_DRIVER_H_
#define SLUICE_DEVICES_NET_TESTING_NET_DRIVER_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "devices/net/device.h"
#include "devices/net/frame_socket.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::net::testing {

using Bytes = std::vector<uint8_t>;

// As a frame socket, but each message begins with the virtio-net header, and it claims every offload: a tap without a
// kernel behind it.
class HeaderSocket final : public FrameBackend {
 public:
  explicit HeaderSocket(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  uint64_t offload_features() const override;
  absl::Status SetOffloads(uint64_t guest_offloads) override;
  absl::StatusOr<std::optional<size_t>> Receive(absl::Span<uint8_t> buffer) override;
  absl::StatusOr<bool> Send(absl::Span<const uint8_t> header_and_frame) override {
    return SendFrame(socket_.get(), header_and_frame);
  }
  uint64_t guest_offloads() const { return guest_offloads_; }

 private:
  UniqueFd socket_;
  uint64_t guest_offloads_ = ~uint64_t{0};
};

class NetDriver : private virtio::Interrupt {
 public:
  struct Options {
    // Negotiated, if offered.
    uint64_t features = ~uint64_t{0};
    uint16_t queue_size = 64;
    uint64_t buffer_bytes = 4 << 20;  // RAM for each queue's buffers
    bool header_socket = false;
    NetOptions net = {};  // loop and, unless given, back end are filled in
  };
  NetDriver() : NetDriver(Options()) {}
  // Dies if the host cannot provide what a device needs.
  explicit NetDriver(Options options);
  ~NetDriver() override;

  // Gives the device a receive buffer of these pieces. Notifies unless told not to.
  bool PostReceive(const std::vector<uint32_t>& pieces, bool notify = true);
  bool PostReceive(uint32_t bytes) { return PostReceive(std::vector<uint32_t>{bytes}); }
  // Puts header and frame into the transmit queue and notifies. False: the queue is full.
  bool Transmit(const FrameHeader& header, absl::Span<const uint8_t> frame);
  bool TransmitBytes(absl::Span<const uint8_t> bytes);
  // One command; the answer, or nullopt when none came.
  std::optional<uint8_t> Control(uint8_t command_class, uint8_t command, absl::Span<const uint8_t> data);

  // Lets everything that is ready on the loop happen, and collects.
  void Pump();
  // Pumps until `done`, up to 10 s.
  bool PumpUntil(const std::function<bool()>& done);
  void Reset();

  // One entry per used receive buffer.
  std::deque<Bytes>& received() { return received_; }
  size_t transmitted() const { return transmitted_; }  // chains that came back
  // A frame that the device sent to its back end; nullopt: none.
  std::optional<Bytes> NextOnWire();
  Bytes Config();

  int wire() const { return wire_.get(); }
  void CloseWire() { wire_.Reset(); }
  NetDevice& device() { return *device_; }
  HeaderSocket& header_socket() { return *header_socket_; }
  virtio::testing::FakeDriver& queue(uint16_t index) { return queues_[index]; }
  uint64_t interrupts(uint16_t index) const { return interrupts_[index]; }
  uint64_t config_interrupts() const { return config_interrupts_; }
  bool needs_reset() const { return needs_reset_; }

 private:
  void SignalQueue(uint16_t index) override { ++interrupts_[index]; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override { ++config_interrupts_; }
  void SetNeedsReset() override { needs_reset_ = true; }
  void Start();

  Options options_;
  asio::io_context loop_;
  memory::GuestMemory ram_;
  UniqueFd wire_;
  HeaderSocket* header_socket_ = nullptr;
  std::unique_ptr<NetDevice> device_;
  std::vector<virtio::testing::FakeDriver> queues_;
  std::deque<Bytes> received_;
  std::optional<uint8_t> answer_;
  size_t transmitted_ = 0;
  uint64_t interrupts_[3] = {};
  uint64_t config_interrupts_ = 0;
  bool needs_reset_ = false;
};

// An Ethernet frame of `bytes` (at least 14) with a pattern that starts at `seed`.
Bytes MakeFrame(size_t bytes, uint8_t seed = 1);

}  // namespace sluice::net::testing

#endif  // SLUICE_DEVICES_NET_TESTING_NET_DRIVER_H_
