// File: device.h
//
// A virtio-rng device (virtio 1.2 section 5.4): random numbers of the host's kernel, as many as a rate allows.
//
//   SLUICE_ASSIGN_OR_RETURN(auto rng, RngDevice::Create({.loop = &loop}));
//   SLUICE_ASSIGN_OR_RETURN(auto transport, virtio::PciTransport::Create(std::move(rng), {...}));
//
// The guest gets what getrandom(2) gives, never a number twice, and at most kMaxBytes for one buffer: a device may
// leave the rest of it untouched (section 5.4.6.2). Requests above the rate stay in the queue.
//
// Threads: everything on the loop's thread; ReadConfig may come on any (there is no configuration).
#ifndef SLUICE_DEVICES_RNG_DEVICE_H_
#define SLUICE_DEVICES_RNG_DEVICE_H_

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devices/rate/token_bucket.h"
#include "vmm/virtio/device.h"

namespace sluice::rng {

// Most bytes for one buffer of the guest's.
inline constexpr size_t kMaxBytes = 4096;

// Fills `to` from getrandom(2), without waiting. UNAVAILABLE: the host has just started and has no random numbers yet.
absl::Status HostEntropy(absl::Span<uint8_t> to);

struct RngOptions {
  asio::io_context* loop = nullptr;  // outlives the device
  std::string name = "rng";          // for logs
  // Bytes. The default keeps a guest that reads all the time at a small part of a core.
  rate::Rate bytes = {.per_second = 1 << 20, .burst = 64 << 10};
  // Fills a span of at most kMaxBytes and does not wait. An error: asked again a little later.
  std::function<absl::Status(absl::Span<uint8_t>)> source = HostEntropy;
};

class RngDevice final : public virtio::Device {
 public:
  // INVALID_ARGUMENT: no loop or no source.
  static absl::StatusOr<std::unique_ptr<RngDevice>> Create(RngOptions options);

  // Bytes given to the guest since creation. Loop thread.
  uint64_t bytes_given() const { return bytes_given_; }

  uint16_t device_id() const override { return virtio::kDeviceIdEntropy; }
  uint32_t pci_class() const override { return 0x00ff00; }  // unclassified, as others do it
  absl::Span<const uint16_t> queue_max_sizes() const override;
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  explicit RngDevice(RngOptions options);
  void Pump();
  // Comes back to Pump then.
  void WaitFor(rate::TokenBucket::Clock::duration wait);
  // The next request, also one that had to wait for the source; nullopt: none, and the driver will notify.
  std::optional<virtio::DescriptorChain> Next();
  // False: there is nothing to give right now, and `chain` is kept.
  bool Answer(virtio::DescriptorChain chain);

  const RngOptions options_;
  rate::TokenBucket bytes_;
  asio::steady_timer timer_;
  bool timer_armed_ = false;
  bool pump_posted_ = false;
  bool ready_ = false;  // there may be chains in the queue
  std::optional<virtio::Activation> activation_;
  std::optional<virtio::DescriptorChain> held_;  // taken, and the source had nothing
  uint64_t bytes_given_ = 0;
  std::shared_ptr<RngDevice*> self_;  // what waits on the loop holds it weakly
};

}  // namespace sluice::rng

#endif  // SLUICE_DEVICES_RNG_DEVICE_H_
