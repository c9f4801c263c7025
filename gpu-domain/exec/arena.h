// File: arena.h
//
// Memory of one command: everything that decoding makes, bounded, freed at once. Zero-filled, 16-byte aligned.
//
//   Arena arena(64 << 20);
//   VkBufferCreateInfo* info = arena.New<VkBufferCreateInfo>(1);   // null when the bound is reached
#ifndef SLUICE_GPU_DOMAIN_EXEC_ARENA_H_
#define SLUICE_GPU_DOMAIN_EXEC_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "vmm/base/checked.h"

namespace sluice::exec {

class Arena {
 public:
  // `limit`: bytes that may be held at once.
  explicit Arena(uint64_t limit) : limit_(limit) {}

  // `count` zeroed elements, or null when that would pass the limit. Lives until Reset.
  template <typename T>
  T* New(uint64_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 16);
    const auto bytes = CheckedMul<uint64_t>(count, sizeof(T));
    if (!bytes.has_value()) return nullptr;
    return static_cast<T*>(Allocate(*bytes));
  }

  void Reset() {
    used_ = 0;
    at_ = 0;
    if (blocks_.size() > 1) blocks_.resize(1);
    if (!blocks_.empty() && blocks_[0].size > kBlockBytes) blocks_.clear();
  }

 private:
  static constexpr uint64_t kBlockBytes = 64 * 1024;
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t size;
  };

  void* Allocate(uint64_t bytes) {
    if (bytes > limit_) return nullptr;
    bytes = (bytes + 15) & ~uint64_t{15};
    if (bytes > limit_ - used_) return nullptr;
    if (blocks_.empty() || bytes > blocks_.back().size - at_) {
      const uint64_t size = bytes > kBlockBytes ? bytes : kBlockBytes;
      blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size});
      at_ = 0;
    }
    std::byte* p = blocks_.back().bytes.get() + at_;
    at_ += bytes;
    used_ += bytes;
    memset(p, 0, bytes);
    return p;
  }

  const uint64_t limit_;
  uint64_t used_ = 0;
  uint64_t at_ = 0;  // in the last block
  std::vector<Block> blocks_;
};

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_ARENA_H_
