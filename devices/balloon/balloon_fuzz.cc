// Fuzz target: a balloon whose driver is hostile.
//
// Threat model: the guest names any page, reports any range, sends any statistics, writes the configuration space and
// its rings, and resets when it likes; the host sets targets and asks for statistics meanwhile. Nothing may crash,
// touch what is not RAM, keep the loop or pile up; a driver that keeps the rules gets an answer to each request.
//
// Grammar of an input: operations of one byte plus operands; see Step(). Missing bytes read as 0.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devices/balloon/device.h"
#include "vmm/base/checked.h"
#include "vmm/virtio/testing/byte_source.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::balloon {
namespace {

using memory::GuestAddress;
using virtio::testing::ByteSource;
using virtio::testing::FakeDriver;

constexpr uint64_t kRamBytes = 8 << 20;
constexpr uint64_t kOwnRam = 4 << 20;  // pages from here on are no ring's
constexpr size_t kMaxOperations = 500;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "balloon_fuzz: %s\n", what);
  std::abort();
}

class Session : private virtio::Interrupt {
 public:
  explicit Session(const memory::GuestMemory& ram) : ram_(ram) {
    device_ = *BalloonDevice::Create({.loop = &loop_, .on_stats = [](const GuestStats&) {}});
    Start(~uint64_t{0});
  }

  void Run(ByteSource in) {
    for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) Step(in);
    Turn();
    Require(ram_.Write<uint8_t>(GuestAddress(kOwnRam), 1).ok(), "RAM is gone");
    if (!in_order_) return;
    for (const uint16_t index : {kInflateQueue, kDeflateQueue}) {
      Require(drivers_[index].outstanding() == 0, "a request was not answered");
    }
    Require(drivers_[kStatsQueue].outstanding() <= 1 || (features_ & kFeatureStats) == 0, "old statistics are kept");
  }

 private:
  void Step(ByteSource& in) {
    const uint8_t operation = in.Byte();
    const uint16_t index = in.Byte() % kQueueCount;
    FakeDriver& driver = drivers_[index];
    switch (operation % 10) {
      case 0: {  // page numbers; mostly RAM that nobody uses
        std::vector<uint32_t> pfns(in.Byte());
        for (uint32_t& pfn : pfns) {
          const uint8_t page = in.Byte();
          pfn = page == 255 ? in.U32() : static_cast<uint32_t>(kOwnRam / kPageSize) + page * 5;
          if (pfn < kOwnRam / kPageSize) in_order_ = false;  // it gives its own rings away
        }
        std::vector<uint8_t> bytes(pfns.size() * sizeof(uint32_t));
        if (!bytes.empty()) std::memcpy(bytes.data(), pfns.data(), bytes.size());
        auto chain = driver.Chain();
        chain.Readable(bytes);
        if ((operation & 16) != 0) chain.Readable(in.Bytes(3));
        if (chain.Submit().ok()) device_->QueueNotified(index);
        break;
      }
      case 1: {  // a report
        auto chain = driver.Chain();
        for (uint8_t i = in.Byte() % 4; i < 4; ++i) {
          chain.Raw(kOwnRam + uint64_t{in.U16()} * 16, 1 + in.U32() % (1 << 21), virtio::kDescWrite);
        }
        if (chain.Submit().ok()) device_->QueueNotified(index);
        in_order_ = false;  // the last ones may lie outside RAM
        break;
      }
      case 2: {  // statistics; elsewhere, any bytes
        if (index == kInflateQueue) in_order_ = false;
        auto chain = driver.Chain();
        chain.Readable(in.Bytes(in.Byte()));
        if (chain.Submit().ok()) device_->QueueNotified(index);
        break;
      }
      case 3:
        in_order_ = false;
        driver.WriteDescriptor(in.Byte() % 128, {in.U32(), in.U32(), in.U16(), in.U16()});
        break;
      case 4:
        in_order_ = false;
        driver.Publish(in.Byte());
        device_->QueueNotified(index);
        break;
      case 5: {
        const uint64_t offset = in.Byte() % 24;
        device_->WriteConfig(offset, in.Bytes(1 + in.Byte() % 8));
        std::vector<uint8_t> back(1 + in.Byte() % 16);
        device_->ReadConfig(offset, absl::MakeSpan(back));
        break;
      }
      case 6:
        device_->Reset();
        Start(in.Byte());
        break;
      case 7:
        device_->SetTarget(in.U64()).IgnoreError();
        break;
      case 8:
        device_->RequestStats().IgnoreError();
        break;
      default:
        device_->QueueNotified(in.Byte() % 8);
        Turn();
        break;
    }
  }

  void Start(uint64_t features) {
    drivers_.clear();
    features_ = features & device_->features();
    virtio::Activation activation;
    activation.memory = ram_;
    activation.features = features_ | virtio::kFeatureVersion1;
    activation.interrupt = this;
    const auto sizes = device_->queue_max_sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      drivers_.push_back(*FakeDriver::Create(ram_, {.size = sizes[i],
                                                    .rings = GuestAddress(0x10000 * (i + 1)),
                                                    .buffers = GuestAddress(0x80000 * (i + 1)),
                                                    .buffer_bytes = 0x80000}));
      activation.queues.push_back(*virtio::Queue::Create(ram_, drivers_.back().layout()));
    }
    Require(device_->Activate(std::move(activation)).ok(), "it does not start");
    in_order_ = true;
  }
  void Turn() {
    loop_.restart();
    loop_.poll();
    for (FakeDriver& driver : drivers_) {
      while (driver.Collect().has_value()) {
      }
    }
  }
  void SignalQueue(uint16_t) override {}
  void BumpConfigGeneration() override {}
  void SignalConfig() override {}
  void SetNeedsReset() override { Require(!in_order_, "a driver that kept the rules needs a reset"); }

  asio::io_context loop_;
  const memory::GuestMemory ram_;
  std::unique_ptr<BalloonDevice> device_;
  std::vector<FakeDriver> drivers_;
  uint64_t features_ = 0;
  bool in_order_ = true;  // the rings hold what the driver put there, nothing else
};

}  // namespace
}  // namespace sluice::balloon

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const ram =
      new sluice::memory::GuestMemory(*sluice::memory::GuestMemory::CreateSimple(sluice::balloon::kRamBytes));
  sluice::balloon::Session(*ram).Run(sluice::virtio::testing::ByteSource(data, size));
  return 0;
}
