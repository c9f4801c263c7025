#include "firmware/guests/hostile/attack.h"

#include <string.h>

#include "firmware/lib/clock.h"

namespace sluice::firmware {
namespace {

constexpr uint64_t kRamEnd = 64 << 20;  // about: the machine may have more or less
constexpr uint64_t kWindow = 0x4000000000;
constexpr uint16_t kBar0 = 0x10, kCommand = 0x04;

}  // namespace

uint8_t Attack::scratch_[kScratchBytes];

bool Attack::Go() {
  if (ops_left_ == 0) return false;
  if (NowNs() >= deadline_ns_) {
    ops_left_ = 0;
    return false;
  }
  ops_left_--;
  ops_done_++;
  return true;
}

uint64_t Attack::Odd64() {
  switch (Below(8)) {
    case 0:
      return Below(5);
    case 1:
      return UINT64_MAX - Below(5);
    case 2:
      return UINT32_MAX - Below(3);
    case 3:
      return (uint64_t{1} << Below(64)) - Below(3) + 1;
    case 4:
      return Below(65536);
    case 5:
      return Below(1 << 20) * 4096;
    case 6:
      return OddAddress();
    default:
      return random_.Next();
  }
}

uint64_t Attack::OddAddress() {
  switch (Below(7)) {
    case 0:
    case 1:
      return reinterpret_cast<uint64_t>(scratch_) + Below(kScratchBytes / 16) * 16;
    case 2:
      return reinterpret_cast<uint64_t>(scratch_) + Below(kScratchBytes);
    case 3:
      return kRamEnd - 64 + Below(128);
    case 4:
      return 0xe0000000 + Below(uint64_t{1} << 29);
    case 5:
      return kWindow + Below(1 << 16) * 4096;
    default:
      return random_.Next();
  }
}

void Attack::Mutate(uint8_t* data, uint64_t bytes) {
  if (bytes == 0) return;
  for (uint64_t n = 1 + Below(8); n > 0; n--) {
    const uint64_t at = Below(bytes);
    switch (Below(5)) {
      case 0:
        data[at] ^= static_cast<uint8_t>(1u << Below(8));
        break;
      case 1:
        data[at] = static_cast<uint8_t>(Odd64());
        break;
      case 2: {
        const uint32_t value = Odd32();
        if (at + 4 <= bytes) memcpy(data + (at & ~uint64_t{3}), &value, 4);
        break;
      }
      case 3: {
        const uint64_t value = Odd64();
        if ((at & ~uint64_t{7}) + 8 <= bytes) memcpy(data + (at & ~uint64_t{7}), &value, 8);
        break;
      }
      default: {
        uint64_t run = 1 + Below(32);
        if (run > bytes - at) run = bytes - at;
        random_.Fill(data + at, run);
      }
    }
  }
}

Gpu* OpenForAttack(Attack* attack) {
  GpuOptions options;
  options.timeout_ns = 50'000'000;
  options.reset_timeout_ns = 200'000'000;
  options.queue_size = static_cast<uint16_t>(4u << attack->Below(5));
  // Any set of features: the driver must live with what it gets.
  if (attack->OneIn(3)) options.features = attack->random().Next() & options.features;
  if (attack->OneIn(10)) options.features = attack->random().Next();
  auto* gpu = new Gpu;
  if (gpu->Open(options)) return gpu;
  delete gpu;
  return nullptr;
}

KeepPciFunction::KeepPciFunction() : present_(FindPciFunction(0x1af4, 0x1050, &function_)) {
  if (!present_) return;
  command_ = function_.Read16(kCommand);
  for (uint16_t i = 0; i < 6; i++) bars_[i] = function_.Read32(static_cast<uint16_t>(kBar0 + 4 * i));
}

KeepPciFunction::~KeepPciFunction() {
  if (!present_) return;
  function_.Write16(kCommand, 0);
  for (uint16_t i = 0; i < 6; i++) function_.Write32(static_cast<uint16_t>(kBar0 + 4 * i), bars_[i]);
  function_.Write16(kCommand, command_);
}

}  // namespace sluice::firmware
