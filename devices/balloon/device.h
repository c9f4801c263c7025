// File: device.h
//
// A virtio-balloon device (virtio 1.2 section 5.5): takes memory from a guest and gives it back, learns which pages a
// guest does not use, and asks it how it fares.
//
//   BalloonOptions options;
//   options.loop = &loop;
//   options.on_stats = [](const GuestStats& stats) { ... };
//   SLUICE_ASSIGN_OR_RETURN(auto balloon, BalloonDevice::Create(std::move(options)));
//   BalloonDevice* device = balloon.get();
//   SLUICE_ASSIGN_OR_RETURN(auto transport, virtio::PciTransport::Create(std::move(balloon), {...}));
//   ...
//   device->SetTarget(64 << 20);       // wants 64 MiB of the guest's memory
//   device->RequestStats();            // on_stats follows
//
// Pages that the guest gives (the inflate queue), or reports as free (the reporting queue), leave the host's memory at
// once; a page comes back, zeroed, when the guest touches it. The guest may name any page of its RAM, and nothing else.
// It is not made to comply: `actual` is what it says, limits on memory are a matter of the host's cgroup.
//
// Queue numbers. Section 5.5.2 gives reporting queue 4. Linux before 6.11 counts without gaps instead, so that without
// free-page hints (which are not offered here) it is queue 3; later ones try 4 first. Both work.
//
// Threads: everything on the loop's thread, but ReadConfig and WriteConfig, which come on vCPU threads (`mu_`).
#ifndef SLUICE_DEVICES_BALLOON_DEVICE_H_
#define SLUICE_DEVICES_BALLOON_DEVICE_H_

#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devices/balloon/pages.h"
#include "devices/balloon/protocol.h"
#include "devices/balloon/stats.h"
#include "vmm/base/mutex.h"
#include "vmm/virtio/device.h"

namespace sluice::balloon {

struct BalloonOptions {
  asio::io_context* loop = nullptr;  // outlives the device
  std::string name = "balloon";      // for logs
  // A guest that runs out of memory takes pages back without being asked.
  bool deflate_on_oom = true;
  bool page_reporting = true;
  // Called on the loop with each answer to RequestStats, and with what the driver sends first.
  std::function<void(const GuestStats&)> on_stats;
};

// Since creation, over resets.
struct BalloonCounters {
  uint64_t inflated_pages = 0;
  uint64_t deflated_pages = 0;
  uint64_t reported_pages = 0;
  uint64_t refused_pages = 0;  // no RAM, more than one request may name, or the host refused
};

class BalloonDevice final : public virtio::Device {
 public:
  // INVALID_ARGUMENT: no loop.
  static absl::StatusOr<std::unique_ptr<BalloonDevice>> Create(BalloonOptions options);

  // --- For the machine, loop thread ---

  // How much memory the balloon is to have, bytes, rounded down to pages; stays over resets. The guest follows when it
  // likes. INVALID_ARGUMENT: 16 TiB or more.
  absl::Status SetTarget(uint64_t bytes);
  uint64_t target_bytes() const;
  // How much the guest says that the balloon has.
  uint64_t actual_bytes() const;
  // Asks the guest for statistics. FAILED_PRECONDITION: the driver has none, or has not answered the last time yet.
  absl::Status RequestStats();
  // What the guest said last.
  const std::optional<GuestStats>& stats() const { return stats_; }
  const BalloonCounters& counters() const { return counters_; }

  // --- virtio::Device ---

  uint16_t device_id() const override { return kVirtioDeviceIdBalloon; }
  uint32_t pci_class() const override { return 0x00ff00; }  // unclassified, as others do it
  uint64_t features() const override;
  absl::Span<const uint16_t> queue_max_sizes() const override;
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  void WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  enum class Role { kNone, kInflate, kDeflate, kStats, kReporting };

  explicit BalloonDevice(BalloonOptions options);
  // What queue `index` is for, as negotiated.
  Role RoleOf(uint16_t index) const;
  void Drain(uint16_t index);
  void Take(uint16_t index, Role role, virtio::DescriptorChain chain);
  void Inflate(const virtio::DescriptorChain& chain);
  void Report(const virtio::DescriptorChain& chain);
  void TakeStats(virtio::DescriptorChain chain);
  void Count(const Released& released, uint64_t* pages);

  const BalloonOptions options_;
  std::optional<virtio::Activation> activation_;
  std::array<bool, kQueueCount> drain_posted_{};
  std::optional<virtio::DescriptorChain> stats_buffer_;  // the driver's, until we want new ones
  std::optional<GuestStats> stats_;
  BalloonCounters counters_;
  mutable Mutex mu_;
  BalloonConfig config_ ABSL_GUARDED_BY(mu_) = {};
  std::shared_ptr<BalloonDevice*> self_;  // what waits on the loop holds it weakly
};

}  // namespace sluice::balloon

#endif  // SLUICE_DEVICES_BALLOON_DEVICE_H_
