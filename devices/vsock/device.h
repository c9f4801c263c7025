// File: device.h
//
// The virtio-vsock device (virtio 1.2 section 5.10): stream connections between programs in the guest and Unix sockets
// of the host, by the convention that Firecracker's users know.
//
//   VsockOptions options;
//   options.loop = &loop;
//   options.guest_cid = 3;
//   SLUICE_ASSIGN_OR_RETURN(options.listener, ListenVsock("/run/vm.vsock"));
//   options.connector = std::make_unique<UnixConnector>(&loop, "/run/vm.vsock");
//   SLUICE_ASSIGN_OR_RETURN(auto vsock, VsockDevice::Create(std::move(options)));   // a virtio::Device
//
// Host to guest: a program connects to the listener's path, writes "CONNECT <port>\n", and reads "OK <host port>\n"
// when somebody in the guest accepts; if nobody does, its connection is closed. Guest to host: a connection to CID 2,
// port N, becomes one to "<path>_N" (connector.h).
//
// Flow control is the specification's, by credit, both ways: from the guest, a connection holds at most `buffer_bytes`;
// to the guest, bytes are read off a host socket only when the guest has credit and has given a receive buffer. No
// connection can hold up another, or the loop.
//
// Threads: the loop's, except ReadConfig (vCPU threads; constant).
// System calls: accept4, read, write (control), sendmsg, shutdown, poll, fcntl(F_SETFL).
#ifndef SLUICE_DEVICES_VSOCK_DEVICE_H_
#define SLUICE_DEVICES_VSOCK_DEVICE_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "devices/vsock/connector.h"
#include "devices/vsock/protocol.h"
#include "vmm/base/unique_fd.h"
#include "vmm/virtio/device.h"

namespace sluice::vsock {

struct VsockOptions {
  asio::io_context* loop = nullptr;          // outlives the device
  uint64_t guest_cid = kMinGuestCid;         // kMinGuestCid..kMaxGuestCid
  UniqueFd listener;                         // from ListenVsock; invalid: the host cannot connect to the guest
  std::unique_ptr<HostConnector> connector;  // null: the guest cannot connect to the host
  uint32_t max_connections = 256;            // 1..4096, those that are being made included
  uint32_t buffer_bytes = 64 << 10;          // per connection from the guest, 4 KiB..16 MiB
  // How long the host's half of a greeting, a connection's making and its orderly end may take.
  absl::Duration patience = absl::Seconds(10);
};

class VsockDevice final : public virtio::Device {
 public:
  // INVALID_ARGUMENT: an option is out of range.
  static absl::StatusOr<std::unique_ptr<VsockDevice>> Create(VsockOptions options);
  ~VsockDevice() override;

  // --- For the machine, loop thread ---

  // Ends every connection and tells the driver to forget them (VIRTIO_VSOCK_EVENT_TRANSPORT_RESET): after a restore.
  void ResetTransport();
  size_t connections() const { return connections_.size(); }

  // --- virtio::Device ---

  uint16_t device_id() const override { return kVirtioDeviceIdVsock; }
  uint32_t pci_class() const override { return 0x078000; }  // communication controller, other
  uint64_t features() const override { return kFeatureStream; }
  absl::Span<const uint16_t> queue_max_sizes() const override;
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  struct Key {
    uint32_t host_port = 0;
    uint32_t guest_port = 0;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.host_port, key.guest_port);
    }
  };
  struct Connection;
  struct Greeting;

  explicit VsockDevice(VsockOptions options);

  virtio::Queue* queue(uint16_t index);
  std::optional<virtio::DescriptorChain> NextChain(uint16_t index);
  void Interrupt(uint16_t index);
  void BreakQueue(uint16_t index, const absl::Status& why);
  void Later(void (VsockDevice::*step)());
  // Runs `f(device, connection)` when `descriptor` is ready, if both are still there then.
  template <typename F>
  void Await(Connection& connection, asio::posix::stream_descriptor::wait_type what, F f);
  void StartTimer();
  void CheckDeadlines();

  Connection* Find(const Key& key);
  Connection* Add(const Key& key);
  void Remove(const Key& key);
  bool full() const { return connections_.size() + greetings_.size() >= options_.max_connections; }

  // from_guest.cc
  void TakePackets();
  void TakePacket(const virtio::DescriptorChain& chain);
  void TakeRequest(const Key& key, const PacketHeader& header);
  void TakeData(Connection& connection, const PacketHeader& header, const virtio::DescriptorChain& chain);
  void TakeShutdown(Connection& connection, uint32_t flags);
  void HostConnected(const Key& key, uint64_t id, absl::StatusOr<UniqueFd> fd);
  absl::Status Attach(Connection& connection, UniqueFd fd);
  void FlushToHost(Connection& connection);

  // to_guest.cc
  void MarkReady(Connection& connection);
  void MarkReset(Connection& connection);
  void QueueReset(const PacketHeader& to);
  void GivePackets();
  uint64_t Produce(Connection& connection, const virtio::DescriptorChain& chain);
  uint64_t ProduceData(Connection& connection, const virtio::DescriptorChain& chain, bool* hung_up);
  void GiveEvent();
  PacketHeader HeaderFor(Connection& connection, Op op) const;

  // greeting.cc
  void AwaitHosts();
  void Accept();
  void AwaitGreeting(Greeting& greeting);
  void ReadGreeting(uint64_t id);
  void Admit(Greeting& greeting, uint32_t port);

  VsockOptions options_;
  std::optional<virtio::Activation> activation_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer timer_;
  bool timer_runs_ = false;
  absl::flat_hash_map<Key, std::unique_ptr<Connection>> connections_;
  std::list<std::unique_ptr<Greeting>> greetings_;
  uint64_t last_id_ = 0;         // of connections and greetings: late callbacks name one that is gone
  uint32_t next_host_port_ = 0;  // for connections that the host makes

  std::deque<Key> ready_;            // connections with something for the guest, each once
  std::deque<PacketHeader> resets_;  // for packets of no connection, bounded
  std::optional<virtio::DescriptorChain> receive_chain_;
  std::vector<uint8_t> staging_;  // one packet to the guest
  bool event_pending_ = false;

  std::shared_ptr<VsockDevice*> self_;  // callbacks of the loop hold it weakly
};

}  // namespace sluice::vsock

#endif  // SLUICE_DEVICES_VSOCK_DEVICE_H_
