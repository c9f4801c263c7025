// File: device.h
//
// A virtio-blk disk (virtio 1.2 section 5.2) over a file or a host's block device.
//
//   BlockOptions options;
//   options.loop = &loop;
//   SLUICE_ASSIGN_OR_RETURN(options.disk, OpenDisk(std::move(fd), /*read_only=*/false));
//   options.serial = "vol-0a1b";
//   options.queues = 2;                                      // one per vCPU is a good number
//   SLUICE_ASSIGN_OR_RETURN(auto block, BlockDevice::Create(std::move(options)));
//   SLUICE_ASSIGN_OR_RETURN(auto transport, virtio::PciTransport::Create(std::move(block), {...}));
//
// Data go between guest memory and the file without a copy here. The loop thread never waits for storage, with one
// exception: Reset and the destructor wait for requests that the host's kernel is working on, since their memory is
// about to be used for something else. Those that have not started are dropped; the guest was promised nothing.
//
// Durability. A write that was acknowledged is on the medium once a flush that was sent after it is acknowledged. A
// driver that has not negotiated VIRTIO_BLK_F_FLUSH, or has turned `writeback` off in the configuration space, gets
// write-through: each write is on the medium before it is acknowledged.
//
// Threads: everything on the loop's thread, but ReadConfig and WriteConfig, which come on vCPU threads and touch
// atomics.
#ifndef SLUICE_DEVICES_BLOCK_DEVICE_H_
#define SLUICE_DEVICES_BLOCK_DEVICE_H_

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devices/block/disk.h"
#include "devices/block/engine.h"
#include "devices/block/protocol.h"
#include "devices/block/request.h"
#include "devices/rate/token_bucket.h"
#include "vmm/virtio/device.h"

namespace sluice::block {

inline constexpr uint16_t kMaxQueues = 16;
inline constexpr uint16_t kMaxQueueSize = 1024;

struct BlockOptions {
  asio::io_context* loop = nullptr;  // outlives the device
  std::unique_ptr<Disk> disk;
  std::string name = "disk";  // for logs
  std::string serial;         // at most kSerialBytes of printable ASCII; what GET_ID says
  // False: the device has no volatile cache and offers no flush: every write is on the medium before it is
  // acknowledged.
  bool write_back = true;
  bool discard = true;        // offer DISCARD and WRITE_ZEROES (never on a read-only disk)
  uint16_t queues = 1;        // 1 .. kMaxQueues
  uint16_t queue_size = 256;  // a power of two, 4 .. kMaxQueueSize
  uint32_t block_size = 512;  // logical blocks that the driver is told of: a power of two, 512 .. 4096
  EngineKind engine = EngineKind::kThreads;
  uint32_t threads = 4;          // of a thread engine, 1 .. 64
  uint32_t max_in_flight = 128;  // requests that the engine has at once, of all queues, 1 .. 4096; others stay queued
  uint32_t segment_bytes = 4 << 20;  // most bytes of one piece of a request, at least 4096
  rate::Rate bytes;                  // read, written and zeroed
  rate::Rate operations;             // requests of any kind
};

// Since creation, over resets.
struct BlockStats {
  uint64_t reads = 0;  // requests
  uint64_t writes = 0;
  uint64_t flushes = 0;
  uint64_t discards = 0;  // DISCARD and WRITE_ZEROES
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t errors = 0;     // answered with something other than OK
  uint64_t throttled = 0;  // times that requests had to wait for a rate
};

class BlockDevice final : public virtio::Device, private IoSink {
 public:
  // INVALID_ARGUMENT: an option is out of range. Otherwise what CreateEngine says. Every thread that the device will
  // have exists afterwards.
  static absl::StatusOr<std::unique_ptr<BlockDevice>> Create(BlockOptions options);
  ~BlockDevice() override;

  // --- For the machine, loop thread ---

  const BlockStats& stats() const { return stats_; }
  // "io_uring" or "threads".
  absl::string_view engine_name() const { return engine_->name(); }
  // Requests that the engine has.
  size_t in_flight() const { return in_flight_.size(); }

  // --- virtio::Device ---

  uint16_t device_id() const override { return virtio::kDeviceIdBlock; }
  uint32_t pci_class() const override { return 0x018000; }  // mass storage, other
  uint64_t features() const override;
  absl::Span<const uint16_t> queue_max_sizes() const override { return queue_sizes_; }
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  void WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  struct InFlight {
    uint16_t queue;
    IoKind kind;
    virtio::DescriptorChain chain;
  };

  BlockDevice(BlockOptions options, uint64_t sectors);
  void FillConfig();

  // Takes requests from the queues, in turn, as limits allow; sends them off; interrupts.
  void Pump();
  void PostPump();
  // One request of queue `index`; false: there is none.
  bool TakeOne(uint16_t index);
  void Start(uint16_t index, virtio::DescriptorChain chain);
  void IoDone(absl::Span<const IoResult> results) override;
  void Complete(uint16_t index, virtio::DescriptorChain chain, uint8_t status, absl::string_view data,
                uint64_t written);
  void Interrupts();
  // A flush of our own, when the driver has turned the cache off.
  void FlushCache();
  // How long until the rates allow another request; zero: now.
  rate::TokenBucket::Clock::duration WaitForRates();
  bool WritesThrough() const;

  BlockOptions options_;
  RequestRules rules_;
  std::vector<uint16_t> queue_sizes_;
  BlockConfig config_ = {};  // constant, but for `writeback`
  std::atomic<uint8_t> writeback_;
  rate::TokenBucket bytes_;
  rate::TokenBucket operations_;
  asio::steady_timer timer_;
  bool timer_armed_ = false;
  bool pump_posted_ = false;

  std::optional<virtio::Activation> activation_;
  std::vector<bool> ready_;  // by queue: there may be chains in it
  uint16_t next_queue_ = 0;
  absl::flat_hash_map<uint64_t, InFlight> in_flight_;
  uint64_t last_request_ = 0;  // strictly rising over resets; 0 is FlushCache's
  std::atomic<bool> cache_flush_posted_{false};
  bool cache_flush_running_ = false;
  bool cache_flush_again_ = false;
  BlockStats stats_;
  std::shared_ptr<BlockDevice*> self_;  // what waits on the loop holds it weakly
  std::unique_ptr<IoEngine> engine_;    // last: it goes first
};

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_DEVICE_H_
