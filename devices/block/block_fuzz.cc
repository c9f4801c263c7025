// Fuzz target: a disk whose driver is hostile.
//
// Threat model: the guest controls every byte of its requests and rings, the configuration space, and when it notifies
// and resets; the host's storage is slow or fails when it likes. Nothing may crash, reach outside the disk or guest
// RAM, or pile up; and as long as the rings are in order every request is answered with a status that exists.
//
// Grammar of an input: a byte of options, then operations of one byte plus operands; see Step(). Missing bytes read as
// 0.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devices/block/testing/block_driver.h"
#include "devices/block/testing/fake_disk.h"
#include "vmm/virtio/testing/byte_source.h"

namespace sluice::block {
namespace {

using testing::BlockDriver;
using testing::FakeDisk;
using testing::Ticket;
using virtio::testing::ByteSource;

constexpr uint64_t kSectors = 64;
constexpr size_t kMaxOperations = 400;
constexpr uint32_t kTypes[] = {kTypeIn, kTypeOut, kTypeFlush, kTypeGetId, kTypeDiscard, kTypeWriteZeroes};

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "block_fuzz: %s\n", what);
  std::abort();
}

class Session {
 public:
  explicit Session(uint8_t how) {
    auto disk = std::make_unique<FakeDisk>(kSectors * kSectorBytes, (how & 1) != 0);
    disk_ = disk.get();
    BlockOptions options;
    options.disk = std::move(disk);
    options.write_back = (how & 2) == 0;
    options.queues = (how & 4) != 0 ? 3 : 1;
    options.queue_size = (how & 8) != 0 ? 4 : 64;
    options.threads = 1;
    options.max_in_flight = (how & 16) != 0 ? 1 : 8;
    options.segment_bytes = 8192;
    if ((how & 32) != 0) options.operations = {.per_second = 100'000, .burst = 4};
    driver_ = std::make_unique<BlockDriver>(std::move(options));
  }

  ~Session() { disk_->Hold(false); }

  void Run(ByteSource in) {
    for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) {
      Step(in);
      Require(driver_->device().in_flight() <= 8, "too much is in flight");
    }
    disk_->Hold(false);
    if (!in_order_) return;
    for (uint16_t queue = 0; queue < queues(); ++queue) driver_->device().QueueNotified(queue);
    Require(!driver_->needs_reset(), "a driver that kept the rules needs a reset");
    Require(driver_->WaitForAll(), "a request was not answered");
  }

 private:
  uint16_t queues() const { return static_cast<uint16_t>(driver_->device().queue_max_sizes().size()); }

  void Step(ByteSource& in) {
    switch (in.Byte() % 10) {
      case 0:
        return Request(in);
      case 1: {  // ranges, mostly on the disk
        const uint32_t type = (in.Byte() & 1) != 0 ? kTypeDiscard : kTypeWriteZeroes;
        std::vector<RangeSegment> ranges(in.Byte() % 20);
        for (RangeSegment& range : ranges) {
          range.sector = in.Byte();
          range.num_sectors = in.Byte() % 64;
          range.flags = in.Byte() % 4;
          if (range.sector == 255) range.sector = UINT64_MAX - range.num_sectors;
        }
        Check(driver_->Ranges(type, ranges));
        return;
      }
      case 2: {  // a descriptor of any kind
        in_order_ = false;
        const uint16_t queue = in.Byte() % queues();
        const virtio::VirtqDesc descriptor = {in.U32(), in.U32(), in.U16(), in.U16()};
        driver_->queue(queue).WriteDescriptor(in.Byte() % 64, descriptor);
        return;
      }
      case 3: {  // published
        in_order_ = false;
        const uint16_t queue = in.Byte() % queues();
        driver_->queue(queue).Publish(in.Byte());
        driver_->device().QueueNotified(queue);
        return;
      }
      case 4:
        driver_->device().QueueNotified(in.Byte() % (queues() + 1));
        return;
      case 5: {
        const uint64_t offset = in.Byte();
        driver_->device().WriteConfig(offset, in.Bytes(1 + in.Byte() % 8));
        std::vector<uint8_t> back(1 + in.Byte() % 16);
        driver_->device().ReadConfig(offset, absl::MakeSpan(back));
        return;
      }
      case 6:
        disk_->Hold(false);  // a reset waits for the disk
        driver_->Reset();
        if ((in.Byte() & 1) != 0) driver_->device().QueueNotified(0);
        driver_->Start(in.U16() | uint64_t{in.Byte()} << 8);
        in_order_ = true;
        return;
      case 7:
        disk_->Hold((in.Byte() & 1) != 0);
        return;
      case 8:
        disk_->FailNext(absl::UnavailableError("fuzz"));
        return;
      default:
        driver_->Pump();
        return;
    }
  }

  void Request(ByteSource& in) {
    const uint8_t flags = in.Byte();
    RequestHeader header = {in.Byte(), 0, in.Byte()};
    if ((flags & 1) == 0) header.type = kTypes[header.type % std::size(kTypes)];
    if ((flags & 2) != 0) header.sector = in.U64();
    std::vector<std::vector<uint8_t>> readable(in.Byte() % 4);
    for (auto& bytes : readable) bytes.resize(Size(in), in.Byte());
    std::vector<uint32_t> writable(in.Byte() % 4);
    for (uint32_t& bytes : writable) bytes = static_cast<uint32_t>(Size(in));
    Check(driver_->Send(header, readable, writable, in.Byte() % queues(), (flags & 4) != 0));
  }

  // Sectors, or some odd number of bytes.
  static size_t Size(ByteSource& in) {
    const uint8_t size = in.Byte();
    return (size & 1) != 0 ? size : size / 2 * kSectorBytes % 16384;
  }

  void Check(Ticket ticket) {
    const auto result = driver_->Poll(ticket);
    if (result.has_value() && in_order_) Require(result->status <= kStatusUnsupported, "a status that does not exist");
  }

  FakeDisk* disk_;
  std::unique_ptr<BlockDriver> driver_;
  bool in_order_ = true;  // the rings hold what the driver put there, nothing else
};

}  // namespace
}  // namespace sluice::block

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::virtio::testing::ByteSource in(data, size);
  sluice::block::Session session(in.Byte());
  session.Run(in);
  return 0;
}
