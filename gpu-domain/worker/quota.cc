#include "gpu-domain/worker/quota.h"

#include <algorithm>

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
  Update();
  return MemoryCharge(this, bytes);
}

void MemoryQuota::CountRefusal() {
  if (refusals_ != nullptr) refusals_->fetch_add(1, std::memory_order_relaxed);
}

void MemoryQuota::Give(uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (gauge_ != nullptr) gauge_->fetch_sub(bytes, std::memory_order_relaxed);
  Update();
}

void MemoryQuota::Publish(std::atomic<uint64_t>* word) {
  MutexLock lock(&mu_);
  words_.push_back(word);
  published_.store(true, std::memory_order_release);
  word->store(used(), std::memory_order_relaxed);
}

void MemoryQuota::Unpublish(std::atomic<uint64_t>* word) {
  MutexLock lock(&mu_);
  words_.erase(std::remove(words_.begin(), words_.end(), word), words_.end());
  published_.store(!words_.empty(), std::memory_order_release);
}

// Under the lock, so that the last one to write has seen the last change.
void MemoryQuota::Update() {
  if (!published_.load(std::memory_order_acquire)) return;
  MutexLock lock(&mu_);
  for (std::atomic<uint64_t>* word : words_) word->store(used(), std::memory_order_relaxed);
}

}  // namespace sluice::worker
