// File: ranges.h
//
// Hands out page-aligned pieces of a range, e.g. of the host-visible window: first fit, neighbours join again.
//
//   RangeAllocator window(256 << 20);
//   uint64_t offset;
//   if (window.Allocate(65536, &offset)) ... window.Free(offset, 65536);
#ifndef SLUICE_FIRMWARE_DRIVERS_RANGES_H_
#define SLUICE_FIRMWARE_DRIVERS_RANGES_H_

#include <stdint.h>

namespace sluice::firmware {

class RangeAllocator {
 public:
  static constexpr uint64_t kPage = 4096;

  explicit RangeAllocator(uint64_t bytes = 0);
  ~RangeAllocator();
  RangeAllocator(const RangeAllocator&) = delete;
  RangeAllocator& operator=(const RangeAllocator&) = delete;

  // Starts over with [0, bytes) all free.
  void Reset(uint64_t bytes);
  // `bytes` is rounded up to pages. False: no piece is large enough, or bytes is 0.
  bool Allocate(uint64_t bytes, uint64_t* offset);
  // What Allocate gave, with the same size.
  void Free(uint64_t offset, uint64_t bytes);
  uint64_t free_bytes() const;

 private:
  struct Node {
    uint64_t offset;
    uint64_t bytes;
    Node* next;
  };
  Node* free_ = nullptr;  // by offset, no two touch
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_RANGES_H_
