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

// Thread-safe, lock-free. Exact: the sum of all charges never exceeds the limit, and a charge that fits is never
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

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryCharge;
  void Give(uint64_t bytes);

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t>* const gauge_;
  std::atomic<uint64_t>* const refusals_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_QUOTA_H_
