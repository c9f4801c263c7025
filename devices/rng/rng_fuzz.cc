// Fuzz target: an entropy device whose driver is hostile.
//
// Threat model: the guest controls its rings and buffers, when it notifies and when it resets; the host has random
// numbers or has none. Nothing may crash, write outside RAM, keep the loop or pile up; a driver that keeps the rules
// gets an answer to each request.
//
// Grammar of an input: operations of one byte plus operands; see Run(). Missing bytes read as 0.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "devices/rng/device.h"
#include "vmm/virtio/testing/byte_source.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::rng {
namespace {

using virtio::testing::ByteSource;
using virtio::testing::FakeDriver;

constexpr size_t kMaxOperations = 1000;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "rng_fuzz: %s\n", what);
  std::abort();
}

class Session : private virtio::Interrupt {
 public:
  explicit Session(const memory::GuestMemory& ram) : ram_(ram) {
    device_ = *RngDevice::Create({.loop = &loop_, .bytes = {}, .source = [this](absl::Span<uint8_t> to) {
                                    Require(to.size() <= kMaxBytes, "too much is asked of the source");
                                    std::fill(to.begin(), to.end(), 0x5a);
                                    return has_numbers_ ? absl::OkStatus() : absl::UnavailableError("fuzz");
                                  }});
    Start();
  }

  void Run(ByteSource in) {
    for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) {
      switch (in.Byte() % 7) {
        case 0: {
          auto chain = driver_->Chain();
          const uint8_t pieces = 1 + in.Byte() % 4;
          if ((in.Byte() & 1) != 0) chain.Readable(in.Bytes(3));
          for (uint8_t p = 0; p < pieces; ++p) chain.Writable(in.U16() % 6000);
          if ((in.Byte() & 1) != 0) chain.Indirect();
          if (chain.Submit().ok()) device_->QueueNotified(0);
          break;
        }
        case 1:
          in_order_ = false;
          driver_->WriteDescriptor(in.Byte() % 64, {in.U32(), in.U32(), in.U16(), in.U16()});
          break;
        case 2:
          in_order_ = false;
          driver_->Publish(in.Byte());
          device_->QueueNotified(0);
          break;
        case 3:
          device_->QueueNotified(in.Byte() % 2);
          break;
        case 4:
          has_numbers_ = (in.Byte() & 1) != 0;
          break;
        case 5:
          device_->Reset();
          Start();
          break;
        default:
          Turn();
          break;
      }
    }
    if (!in_order_) return;
    has_numbers_ = true;
    // Those that wait for the source wait for a timer; a reset and a new start show that the device still works.
    device_->Reset();
    Start();
    Require(driver_->Chain().Writable(8).Submit().ok(), "no room for a request");
    device_->QueueNotified(0);
    Turn();
    Require(driver_->used_idx() == 1, "a request was not answered");
  }

 private:
  void Start() {
    driver_.emplace(*FakeDriver::Create(ram_, {.size = 64}));
    virtio::Activation activation;
    activation.memory = ram_;
    activation.features = virtio::kFeatureVersion1;
    activation.interrupt = this;
    activation.queues.push_back(*virtio::Queue::Create(ram_, driver_->layout()));
    Require(device_->Activate(std::move(activation)).ok(), "it does not start");
    in_order_ = true;
  }
  void Turn() {
    loop_.restart();
    loop_.poll();
    while (driver_->Collect().has_value()) {
    }
  }
  void SignalQueue(uint16_t) override {}
  void BumpConfigGeneration() override {}
  void SignalConfig() override {}
  void SetNeedsReset() override { Require(!in_order_, "a driver that kept the rules needs a reset"); }

  asio::io_context loop_;
  const memory::GuestMemory ram_;
  std::unique_ptr<RngDevice> device_;
  std::optional<FakeDriver> driver_;
  bool has_numbers_ = true;
  bool in_order_ = true;  // the ring holds what the driver put there, nothing else
};

}  // namespace
}  // namespace sluice::rng

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const ram =
      new sluice::memory::GuestMemory(*sluice::memory::GuestMemory::CreateSimple(uint64_t{8} << 20));
  sluice::rng::Session(*ram).Run(sluice::virtio::testing::ByteSource(data, size));
  return 0;
}
