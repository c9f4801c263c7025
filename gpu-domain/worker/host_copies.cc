#include "gpu-domain/worker/host_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flatbuf/ring.h"

namespace sluice::worker {
namespace {

constexpr uint64_t kBlock = 4096;

// Bytes of `from` that differ from `agreed` go to `to` and become what was agreed on. `from` is fetched once.
void CopyChanges(const uint8_t* from, uint8_t* to, std::vector<uint8_t>& agreed) {
  uint8_t fetched[kBlock];
  for (uint64_t at = 0; at < agreed.size(); at += kBlock) {
    const uint64_t bytes = std::min<uint64_t>(kBlock, agreed.size() - at);
    uint8_t* known = agreed.data() + at;
    wire::CopyFromShared(fetched, from + at, bytes);
    if (std::memcmp(fetched, known, bytes) == 0) continue;
    volatile uint8_t* target = to + at;
    for (uint64_t i = 0; i < bytes; ++i) {
      if (fetched[i] != known[i]) target[i] = known[i] = fetched[i];
    }
  }
}

}  // namespace

void HostCopies::Add(VkDeviceMemory memory, std::shared_ptr<Blob> blob, uint64_t offset, uint8_t* device,
                     uint64_t size) {
  Pair pair;
  pair.host = blob->mapping().data() + offset;
  pair.blob = std::move(blob);
  pair.device = device;
  pair.agreed.resize(size);
  wire::CopyFromShared(pair.agreed.data(), pair.host, size);
  std::memcpy(device, pair.agreed.data(), size);
  MutexLock lock(&mu_);
  pairs_[memory] = std::move(pair);
  count_.store(pairs_.size(), std::memory_order_release);
}

void HostCopies::Remove(VkDeviceMemory memory) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  MutexLock lock(&mu_);
  pairs_.erase(memory);
  count_.store(pairs_.size(), std::memory_order_release);
}

void HostCopies::ToDevice() {
  if (count_.load(std::memory_order_acquire) == 0) return;
  MutexLock lock(&mu_);
  for (auto& [memory, pair] : pairs_) CopyChanges(pair.host, pair.device, pair.agreed);
}

void HostCopies::ToHost() {
  if (count_.load(std::memory_order_acquire) == 0) return;
  MutexLock lock(&mu_);
  for (auto& [memory, pair] : pairs_) CopyChanges(pair.device, pair.host, pair.agreed);
}

}  // namespace sluice::worker
