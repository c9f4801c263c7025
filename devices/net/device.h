// File: device.h
//
// The virtio-net device (virtio 1.2 section 5.1): one receive and one transmit queue and a control queue, in front of a
// FrameBackend.
//
//   NetOptions options;
//   options.loop = &loop;
//   options.backend = std::make_unique<FrameSocket>(std::move(socket));     // or Tap
//   options.mac = {0x52, 0x54, 0, 0x12, 0x34, 0x56};
//   SLUICE_ASSIGN_OR_RETURN(auto net, NetDevice::Create(std::move(options)));   // a virtio::Device
//
// Frames are moved one at a time through one private buffer per direction; the guest's memory is never handed to the
// host kernel. Nothing is read from the back end while the driver has given no buffer, or a limit is reached: the back
// end's own queue is where frames wait, and are lost. What the back end does not take at once stays in the transmit
// queue.
//
// Threads: the loop's, except ReadConfig (vCPU threads; `config_mu_` covers the configuration space).
#ifndef SLUICE_DEVICES_NET_DEVICE_H_
#define SLUICE_DEVICES_NET_DEVICE_H_

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/net/backend.h"
#include "devices/net/protocol.h"
#include "devices/rate/token_bucket.h"
#include "vmm/base/mutex.h"
#include "vmm/virtio/device.h"

namespace sluice::net {

using MacAddress = std::array<uint8_t, 6>;

// "52:54:00:12:34:56". INVALID_ARGUMENT: not six hexadecimal bytes, or a group address (lowest bit of the first byte).
absl::StatusOr<MacAddress> ParseMac(absl::string_view text);

// Per second, in one direction; frames wait for both.
struct RateLimit {
  rate::Rate bytes;  // of frames, headers of the device's not counted
  rate::Rate frames;
};

enum class MergeBuffers {
  // Offered when a frame never needs more than one buffer of stock drivers: no GUEST_TSO, MTU up to 1500.
  kAuto,
  kAlways,
  kNever,
};

struct NetOptions {
  asio::io_context* loop = nullptr;  // outlives the device
  std::unique_ptr<FrameBackend> backend;
  MacAddress mac = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
  uint16_t mtu = 1500;  // 68..65520; longer frames are dropped in both directions
  MergeBuffers merge_buffers = MergeBuffers::kAuto;
  bool offloads = true;  // offer what the back end can do
  RateLimit receive;     // to the guest
  RateLimit transmit;    // from the guest
  // Called once, on the loop, when the back end is gone: the link is then down, and what the guest sends is lost.
  std::function<void(const absl::Status&)> on_backend_lost;
};

// Counted since Create; for the loop thread.
struct NetCounters {
  uint64_t rx_frames = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_dropped = 0;  // too long for the link or for the driver's buffer
  uint64_t tx_frames = 0;
  uint64_t tx_bytes = 0;
  uint64_t tx_dropped = 0;  // malformed, too long, link down
};

class NetDevice final : public virtio::Device {
 public:
  // INVALID_ARGUMENT: an option is out of range.
  static absl::StatusOr<std::unique_ptr<NetDevice>> Create(NetOptions options);
  ~NetDevice() override;

  // --- For the machine, loop thread ---

  // Pulls the cable, or puts it back (VIRTIO_NET_F_STATUS). Frames are lost while the link is down. A device whose back
  // end is gone stays down.
  void SetLink(bool up);
  bool link_up() const { return link_up_; }
  const NetCounters& counters() const { return counters_; }

  // --- virtio::Device ---

  uint16_t device_id() const override { return kVirtioDeviceIdNet; }
  uint32_t pci_class() const override { return 0x020000; }  // network controller, Ethernet
  uint64_t features() const override;
  absl::Span<const uint16_t> queue_max_sizes() const override;
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  explicit NetDevice(NetOptions options);

  struct Limiter {
    explicit Limiter(const RateLimit& limit) : bytes(limit.bytes), frames(limit.frames) {}
    bool any() const { return bytes.limited() || frames.limited(); }
    // How long until a frame may pass. It is charged for afterwards, when its size is known.
    rate::TokenBucket::Clock::duration Wait();
    void Take(uint64_t frame_bytes);
    rate::TokenBucket bytes;
    rate::TokenBucket frames;
  };
  // Runs `step` when `wait` is over. False: nothing is to be waited for.
  bool Delay(asio::steady_timer& timer, Limiter& limit, void (NetDevice::*step)());

  virtio::Queue* queue(uint16_t index);
  // The next chain of a queue; nullopt: none, and the driver will notify of the next (or the queue is broken).
  std::optional<virtio::DescriptorChain> NextChain(uint16_t index);
  void Interrupt(uint16_t index);
  void BreakQueue(uint16_t index, const absl::Status& why);
  void Later(void (NetDevice::*step)());
  void LoseBackend(const absl::Status& why);
  void ApplyLink();
  absl::Status SetGuestOffloads(uint64_t offloads);
  // Bytes of frame that the link carries without segmentation.
  size_t LongestFrame() const { return options_.mtu + kEthernetHeaderBytes + kVlanTagBytes; }

  // receive.cc
  void Receive();
  enum class Step { kDone, kWait };
  Step FetchFrame();
  Step DeliverFrame();
  bool GatherBuffer();
  void AwaitReadable();

  // transmit.cc
  void Transmit();
  bool LoadFrame(const virtio::DescriptorChain& chain);
  void AwaitWritable();

  // control.cc
  void DrainControl();
  uint8_t Control(const virtio::DescriptorChain& chain);

  NetOptions options_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer receive_timer_;
  asio::steady_timer transmit_timer_;
  Limiter receive_limit_;
  Limiter transmit_limit_;
  std::optional<virtio::Activation> activation_;
  std::array<bool, 3> notifications_on_{};  // of queues that NextChain takes from
  NetCounters counters_;
  uint64_t guest_offloads_ = 0;  // what frames to the driver may carry now
  bool backend_alive_ = true;
  bool cable_ = true;
  bool link_up_ = true;

  std::vector<uint8_t> received_;                  // header and frame, for the guest
  size_t received_bytes_ = 0;                      // of the frame that waits for buffers; 0: none
  std::vector<virtio::DescriptorChain> gathered_;  // the driver's buffers for it
  uint64_t gathered_bytes_ = 0;
  bool awaiting_readable_ = false;

  std::vector<uint8_t> sent_;                    // header and frame, for the back end
  size_t sent_bytes_ = 0;                        // with header; only with held_
  std::optional<virtio::DescriptorChain> held_;  // whose frame waits for the back end or for the limit
  bool awaiting_writable_ = false;

  Mutex config_mu_;
  MacAddress mac_ ABSL_GUARDED_BY(config_mu_);
  uint16_t status_ ABSL_GUARDED_BY(config_mu_) = kStatusLinkUp;

  std::shared_ptr<NetDevice*> self_;  // callbacks of the loop hold it weakly
};

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_DEVICE_H_
