// File: echo_device.h
//
// The smallest complete virtio device, for tests and the example: it answers each chain with the bytes it got, and can
// hold chains back (as a device that waits for a fence does).
//
//   auto device = std::make_unique<EchoDevice>();
//   EchoDevice* echo = device.get();                   // the transport owns it
//   echo->set_hold(true);  ... echo->ReleaseHeld();    // loop thread
#ifndef SLUICE_VMM_VIRTIO_TESTING_ECHO_DEVICE_H_
#define SLUICE_VMM_VIRTIO_TESTING_ECHO_DEVICE_H_

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "vmm/base/mutex.h"
#include "vmm/virtio/device.h"

namespace sluice::virtio::testing {

// Two queues of at most 64; an 8-byte configuration space that the driver may write; one shared-memory region, id 1.
class EchoDevice : public Device {
 public:
  static constexpr uint64_t kFeatureShout = 1;  // answer in capitals
  static constexpr uint64_t kRegionBytes = 1 << 20;

  uint16_t device_id() const override { return 42; }
  uint32_t pci_class() const override { return 0xff0000; }
  uint64_t features() const override { return kFeatureShout; }
  absl::Span<const uint16_t> queue_max_sizes() const override { return kSizes; }
  std::vector<SharedMemoryRegion> shared_memory_regions() const override { return {{.id = 1, .size = kRegionBytes}}; }

  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override {
    MutexLock lock(&mu_);
    for (size_t i = 0; i < to.size(); ++i) to[i] = offset + i < config_.size() ? config_[offset + i] : 0;
  }
  void WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) override {
    MutexLock lock(&mu_);
    for (size_t i = 0; i < from.size() && offset + i < config_.size(); ++i) config_[offset + i] = from[i];
  }
  // Sets all of the configuration to `value` and tells the driver. Loop thread.
  void ChangeConfig(uint8_t value) {
    {
      MutexLock lock(&mu_);
      config_.fill(value);
      if (activation_.has_value()) activation_->interrupt->BumpConfigGeneration();
    }
    if (activation_.has_value()) activation_->interrupt->SignalConfig();
  }

  absl::Status Activate(Activation activation) override {
    ++activations;
    if (!activate_status.ok()) return activate_status;
    activation_ = std::move(activation);
    return absl::OkStatus();
  }
  void QueueNotified(uint16_t index) override {
    ++notified;
    auto& queue = activation_->queues[index];
    const auto more = queue->Drain(kBudget, [&](DescriptorChain chain) {
      if (hold_) {
        held_.emplace_back(index, std::move(chain));
      } else {
        Answer(index, std::move(chain));
      }
    });
    if (!more.ok()) activation_->interrupt->SetNeedsReset();
    if (queue->NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
    budget_spent = more.ok() && *more;
  }
  void Reset() override {
    ++resets;
    activation_.reset();  // held chains stay: completing them must do no harm
  }

  // What follows is for the loop thread.
  void set_hold(bool hold) { hold_ = hold; }
  size_t held() const { return held_.size(); }
  // Answers the held chains, last first. Returns how many the queue took.
  size_t ReleaseHeld() {
    size_t taken = 0;
    while (!held_.empty()) {
      auto [index, chain] = std::move(held_.back());
      held_.pop_back();
      if (activation_.has_value() && activation_->queues[index].has_value() && Answer(index, std::move(chain))) ++taken;
    }
    return taken;
  }
  const std::optional<Activation>& activation() const { return activation_; }

  absl::Status activate_status;  // what Activate answers
  int activations = 0;
  int resets = 0;
  int notified = 0;
  bool budget_spent = false;

 private:
  static constexpr uint32_t kBudget = 256;
  static constexpr std::array<uint16_t, 2> kSizes = {64, 64};

  bool Answer(uint16_t index, DescriptorChain chain) {
    std::vector<uint8_t> bytes(std::min<uint64_t>({chain.ReadableSize(), chain.WritableSize(), 4096}));
    if (!chain.Read(0, absl::MakeSpan(bytes)).ok() || !chain.Write(0, bytes).ok()) bytes.clear();
    if ((activation_->features & kFeatureShout) != 0) {
      for (uint8_t& b : bytes) b = b >= 'a' && b <= 'z' ? static_cast<uint8_t>(b - 'a' + 'A') : b;
      chain.Write(0, bytes).IgnoreError();
    }
    return activation_->queues[index]->Complete(std::move(chain), bytes.size()).ok();
  }

  std::optional<Activation> activation_;
  bool hold_ = false;
  std::vector<std::pair<uint16_t, DescriptorChain>> held_;
  Mutex mu_;
  std::array<uint8_t, 8> config_ ABSL_GUARDED_BY(mu_) = {1, 2, 3, 4, 5, 6, 7, 8};
};

}  // namespace sluice::virtio::testing

#endif  // SLUICE_VMM_VIRTIO_TESTING_ECHO_DEVICE_H_
