// File: quota.h
//
// One number that many contexts share: how much device memory and blob memory a front-end may hold.
//
//   MemoryQuota quota(256 << 20, &stats->memory_bytes, &stats->memory_refusals);
//   std::optional<MemoryCharge> charge = quota.Take(size);
//   if (!charge.has_value()) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
//   ...                        // given back when `charge` is destroyed
#ifndef SLUICE_GPU_DOMAIN_WORKER_QUOTA_H_
#define SLUICE_GPU_DOMAIN_WORKER_QUOTA_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "vmm/base/mutex.h"

namespace sluice::worker {

class MemoryQuota;

// Bytes that are held; given back on destruction. Movable. Outlived by its quota.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& o) noexcept
      : quota_(std::exchange(o.quota_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& o) noexcept {
    std::swap(quota_, o.quota_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~MemoryCharge();
  uint64_t bytes() const { return bytes_; }

 private:
  friend class MemoryQuota;
  MemoryCharge(MemoryQuota* quota, uint64_t bytes) : quota_(quota), bytes_(bytes) {}
  MemoryQuota* quota_ = nullptr;
  uint64_t bytes_ = 0;
};

// Thread-safe. Exact: the sum of all charges never exceeds the limit, and a charge that fits is never
// refused.
class MemoryQuota {
 public:
  // `gauge` (bytes held) and `refusals` are updated when given; they outlive the quota.
  explicit MemoryQuota(uint64_t limit_bytes, std::atomic<uint64_t>* gauge = nullptr,
                       std::atomic<uint64_t>* refusals = nullptr)
      : limit_(limit_bytes), gauge_(gauge), refusals_(refusals) {}

  // nullopt: it does not fit. No size wraps.
  std::optional<MemoryCharge> Take(uint64_t bytes);
  // Counts a refusal (Take leaves that to the caller, who may try again).
  void CountRefusal();

  // Keeps used() in *word, which guests may read, until Unpublish.
  void Publish(std::atomic<uint64_t>* word);
  void Unpublish(std::atomic<uint64_t>* word);

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryCharge;
  void Give(uint64_t bytes);
  void Update();

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t>* const gauge_;
  std::atomic<uint64_t>* const refusals_;
  std::atomic<bool> published_{false};  // somebody reads
  Mutex mu_;                            // leaf
  std::vector<std::atomic<uint64_t>*> words_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_QUOTA_H_
