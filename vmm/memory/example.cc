// A "guest" thread hands numbers to a "device" thread through RAM that both see: data first, then the index with
// release.
#include <cinttypes>
#include <cstdio>
#include <thread>

#include "vmm/base/status_macros.h"
#include "vmm/memory/guest_memory.h"

namespace {

using sluice::memory::GuestAddress;
using sluice::memory::GuestMemory;

constexpr GuestAddress kIndex(0x1000), kSlots(0x2000);
constexpr uint16_t kItems = 8;

absl::Status Guest(const GuestMemory& ram) {
  for (uint16_t i = 0; i < kItems; ++i) {
    SLUICE_RETURN_IF_ERROR(ram.Write<uint64_t>(*kSlots.CheckedAdd(i * 8u), uint64_t{i} * i));
    SLUICE_RETURN_IF_ERROR(ram.Store<uint16_t>(kIndex, static_cast<uint16_t>(i + 1)));
  }
  return absl::OkStatus();
}

absl::Status Device(const GuestMemory& ram) {
  for (uint16_t seen = 0; seen < kItems;) {
    SLUICE_ASSIGN_OR_RETURN(const uint16_t head, ram.Load<uint16_t>(kIndex));
    for (; seen != head; ++seen) {
      SLUICE_ASSIGN_OR_RETURN(const uint64_t value, ram.Read<uint64_t>(*kSlots.CheckedAdd(seen * 8u)));
      std::printf("slot %u: %" PRIu64 "\n", static_cast<unsigned>(seen), value);
    }
    std::this_thread::yield();
  }
  // A guest-chosen address that is no RAM is an error value, not a crash.
  std::printf("%s\n", ram.Read<uint32_t>(GuestAddress(~uint64_t{0})).status().ToString().c_str());
  return absl::OkStatus();
}

}  // namespace

int main() {
  const auto ram = GuestMemory::CreateSimple(64 * sluice::memory::kKiB);
  if (!ram.ok()) {
    std::fprintf(stderr, "%s\n", ram.status().ToString().c_str());
    return 1;
  }
  absl::Status guest_status;
  std::thread guest([&] { guest_status = Guest(*ram); });
  const absl::Status device_status = Device(*ram);
  guest.join();
  return guest_status.ok() && device_status.ok() ? 0 : 1;
}
