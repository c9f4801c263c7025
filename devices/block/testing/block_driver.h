// File: block_driver.h
//
// A virtio-blk driver for tests, fuzzers and benchmarks: a device with RAM and queues around it, driven through its
// virtqueues only.
//
//   BlockDriver driver({.disk = std::move(disk)});
//   Ticket write = driver.Write(sector, bytes);
//   driver.Wait(write)->status;                       // kStatusOk
//   driver.Wait(driver.Read(sector, 512))->data;
#ifndef SLUICE_DEVICES_BLOCK_TESTING_BLOCK_DRIVER_H_
#define SLUICE_DEVICES_BLOCK_TESTING_BLOCK_DRIVER_H_

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devices/block/device.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::block::testing {

inline constexpr uint64_t kAllFeatures = kFeatureSizeMax | kFeatureSegMax | kFeatureReadOnly | kFeatureBlockSize |
                                         kFeatureFlush | kFeatureTopology | kFeatureConfigWce | kFeatureMultiQueue |
                                         kFeatureDiscard | kFeatureWriteZeroes;
// What a status byte holds until the device writes it.
inline constexpr uint8_t kNoStatus = 0xee;

// A request that was made: queue and head. Queue 0xffff: it could not be made.
using Ticket = std::pair<uint16_t, uint16_t>;

struct Result {
  uint8_t status = kNoStatus;
  std::vector<uint8_t> data;  // the writable part before the status
  uint32_t used = 0;          // length in the used ring
};

class BlockDriver : private virtio::Interrupt {
 public:
  static constexpr uint64_t kRamBytes = 64 << 20;
  static constexpr uint64_t kFreeRam = 48 << 20;  // RAM from here on is the test's own

  // `options.loop` is set here. Dies if there can be no such device.
  explicit BlockDriver(BlockOptions options, uint64_t features = kAllFeatures);
  ~BlockDriver() override;

  // Make a request and notify. `data`: how long the readable, or the writable, part is.
  Ticket Read(uint64_t sector, uint32_t bytes, uint16_t queue = 0);
  Ticket Write(uint64_t sector, absl::Span<const uint8_t> bytes, uint16_t queue = 0);
  Ticket Flush(uint16_t queue = 0);
  Ticket GetId(uint32_t bytes = kSerialBytes);
  Ticket Ranges(uint32_t type, const std::vector<RangeSegment>& ranges);
  // The general form: a header, readable pieces, writable pieces, and a status in a piece of its own.
  Ticket Send(const RequestHeader& header, const std::vector<std::vector<uint8_t>>& readable,
              const std::vector<uint32_t>& writable, uint16_t queue = 0, bool indirect = false);
  // While false, requests only gather; QueueNotified is the test's to call.
  void set_notify(bool notify) { notify_ = notify; }
  // A chain of the test's own making was submitted with this head; its status byte lies at `status`.
  void Watch(Ticket ticket, uint64_t status) { pending_[ticket].status = status; }

  // The result, once; nullopt: there is none yet. Lets the loop work first.
  std::optional<Result> Poll(Ticket ticket);
  // As Poll, but waits up to 10 s.
  std::optional<Result> Wait(Ticket ticket);
  // Waits up to 10 s until nothing is unanswered. False: something still is.
  bool WaitForAll();
  // Lets everything that is ready on the loop happen.
  void Pump();
  // Resets the device; and starts it again with new queues.
  void Reset() { device_->Reset(); }
  void Start(uint64_t features);

  size_t unanswered() const { return pending_.size(); }
  // The order in which requests were answered so far.
  const std::vector<Ticket>& completed() const { return completed_; }
  BlockDevice& device() { return *device_; }
  virtio::testing::FakeDriver& queue(uint16_t index) { return queues_[index]; }
  const memory::GuestMemory& ram() const { return ram_; }
  asio::io_context& loop() { return loop_; }
  uint64_t interrupts() const { return interrupts_; }
  bool needs_reset() const { return needs_reset_; }
  BlockConfig Config();

 private:
  struct Pending {
    uint64_t status = 0;  // guest address
    std::vector<virtio::Segment> data;
  };
  void SignalQueue(uint16_t) override { ++interrupts_; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override {}
  void SetNeedsReset() override { needs_reset_ = true; }
  void Collect();

  asio::io_context loop_;
  // As in a machine, whose loop always has something to wait for.
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  memory::GuestMemory ram_;
  std::unique_ptr<BlockDevice> device_;
  std::vector<virtio::testing::FakeDriver> queues_;
  std::map<Ticket, Pending> pending_;
  std::map<Ticket, Result> results_;
  std::vector<Ticket> completed_;
  uint64_t interrupts_ = 0;
  bool needs_reset_ = false;
  bool notify_ = true;
};

}  // namespace sluice::block::testing

#endif  // SLUICE_DEVICES_BLOCK_TESTING_BLOCK_DRIVER_H_
