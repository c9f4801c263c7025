#include "gpu-domain/worker/quota.h"

namespace sluice::worker {

MemoryCharge::~MemoryCharge() {
  if (quota_ != nullptr) quota_->Give(bytes_);
}

std::optional<MemoryCharge> MemoryQuota::Take(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > limit_ || bytes > limit_ - used) return std::nullopt;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (gauge_ != nullptr) gauge_->fetch_add(bytes, std::memory_order_relaxed);
  return MemoryCharge(this, bytes);
}

void MemoryQuota::CountRefusal() {
  if (refusals_ != nullptr) refusals_->fetch_add(1, std::memory_order_relaxed);
}

void MemoryQuota::Give(uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (gauge_ != nullptr) gauge_->fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace sluice::worker
