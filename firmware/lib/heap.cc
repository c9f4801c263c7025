#include "firmware/lib/heap.h"

#include <string.h>

#include <new>

#include "firmware/lib/runtime.h"

namespace sluice::firmware {
namespace {

constexpr uint64_t kGranule = 64;        // sizes and addresses of free ranges
constexpr uint64_t kChunk = 256 * 1024;  // what a size class takes at once
constexpr uint64_t kLargestClass = 32 * 1024;
constexpr unsigned kClasses = 10;       // 64 << n
constexpr uint32_t kLive = 0x4556494c;  // "LIVE"
constexpr uint32_t kFree = 0x45455246;  // "FREE"

// Lies directly before the pointer that the caller gets.
struct Header {
  uint32_t state;       // kLive; anything else in delete: a bad or second delete
  uint32_t size_class;  // kClasses: a large block
  uint64_t block;       // where the block begins
  uint64_t block_bytes;
};
static_assert(sizeof(Header) == 24);

struct FreeBlock {
  FreeBlock* next;
};
struct FreeRange {
  uint64_t bytes;
  FreeRange* next;  // at a higher address
};

FreeBlock* classes[kClasses];
FreeRange* ranges;
HeapStats stats;

constexpr uint64_t RoundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

// First fit, from the front of the range.
uint64_t TakeRange(uint64_t bytes) {
  for (FreeRange** link = &ranges; *link != nullptr; link = &(*link)->next) {
    FreeRange* range = *link;
    if (range->bytes < bytes) continue;
    if (range->bytes == bytes) {
      *link = range->next;
    } else {
      auto* rest = reinterpret_cast<FreeRange*>(reinterpret_cast<uint64_t>(range) + bytes);
      rest->bytes = range->bytes - bytes;
      rest->next = range->next;
      *link = rest;
    }
    return reinterpret_cast<uint64_t>(range);
  }
  Fail(ExitCode::kOutOfMemory, "%llu bytes wanted, %llu of %llu in use", static_cast<unsigned long long>(bytes),
       static_cast<unsigned long long>(stats.used_bytes), static_cast<unsigned long long>(stats.total_bytes));
}

void GiveRange(uint64_t address, uint64_t bytes) {
  FreeRange* before = nullptr;
  FreeRange* after = ranges;
  while (after != nullptr && reinterpret_cast<uint64_t>(after) < address) {
    before = after;
    after = after->next;
  }
  auto* range = reinterpret_cast<FreeRange*>(address);
  range->bytes = bytes;
  range->next = after;
  if (after != nullptr && address + bytes == reinterpret_cast<uint64_t>(after)) {
    range->bytes += after->bytes;
    range->next = after->next;
  }
  if (before == nullptr) {
    ranges = range;
  } else if (reinterpret_cast<uint64_t>(before) + before->bytes == address) {
    before->bytes += range->bytes;
    before->next = range->next;
  } else {
    before->next = range;
  }
}

uint64_t TakeClass(unsigned size_class) {
  const uint64_t bytes = kGranule << size_class;
  if (classes[size_class] == nullptr) {
    const uint64_t chunk = TakeRange(kChunk);
    for (uint64_t at = kChunk; at >= bytes; at -= bytes) {
      auto* block = reinterpret_cast<FreeBlock*>(chunk + at - bytes);
      block->next = classes[size_class];
      classes[size_class] = block;
    }
  }
  FreeBlock* block = classes[size_class];
  classes[size_class] = block->next;
  return reinterpret_cast<uint64_t>(block);
}

void* Allocate(size_t size, size_t alignment) {
  if (size > uint64_t{1} << 40) Fail(ExitCode::kOutOfMemory, "%zu bytes wanted", size);
  if (alignment < 16) alignment = 16;
  // The pointer must lie a header behind the block's start, on the alignment: this is the most that can take. A block
  // starts on a granule, so up to that alignment the place of the pointer is known.
  const uint64_t need =
      size + (alignment <= kGranule ? RoundUp(sizeof(Header), alignment) : sizeof(Header) + alignment);
  unsigned size_class = 0;
  while (size_class < kClasses && (kGranule << size_class) < need) size_class++;
  const uint64_t bytes = size_class < kClasses ? kGranule << size_class : RoundUp(need, kGranule);
  const uint64_t block = size_class < kClasses ? TakeClass(size_class) : TakeRange(bytes);
  const uint64_t pointer = RoundUp(block + sizeof(Header), alignment);
  auto* header = reinterpret_cast<Header*>(pointer - sizeof(Header));
  *header = {kLive, size_class, block, bytes};
  stats.used_bytes += bytes;
  stats.live_blocks++;
  return reinterpret_cast<void*>(pointer);
}

void Free(void* pointer) {
  if (pointer == nullptr) return;
  auto* header = reinterpret_cast<Header*>(reinterpret_cast<uint64_t>(pointer) - sizeof(Header));
  if (header->state != kLive) Fail(ExitCode::kAbort, "delete of %p, which is not a live block", pointer);
  header->state = kFree;
  const Header copy = *header;
  stats.used_bytes -= copy.block_bytes;
  stats.live_blocks--;
  if (copy.size_class == kClasses) {
    GiveRange(copy.block, copy.block_bytes);
    return;
  }
  auto* block = reinterpret_cast<FreeBlock*>(copy.block);
  block->next = classes[copy.size_class];
  classes[copy.size_class] = block;
}

}  // namespace

static_assert((kGranule << (kClasses - 1)) == kLargestClass);
static_assert(sizeof(Header) <= kGranule && sizeof(FreeRange) <= kGranule);

void HeapInit(uint64_t begin, uint64_t end) {
  begin = RoundUp(begin, 4096);
  end &= ~(kGranule - 1);
  if (end <= begin) return;  // the first allocation says so
  stats.total_bytes = end - begin;
  GiveRange(begin, end - begin);
}

void* AllocateAligned(size_t size, size_t alignment) {
  return Allocate(size, alignment);
}

void* AllocateZeroed(size_t size, size_t alignment) {
  void* pointer = Allocate(size, alignment);
  memset(pointer, 0, size);
  return pointer;
}

HeapStats GetHeapStats() {
  return stats;
}

}  // namespace sluice::firmware

using sluice::firmware::Allocate;
using sluice::firmware::Free;

void* operator new(size_t size) {
  return Allocate(size, 16);
}
void* operator new[](size_t size) {
  return Allocate(size, 16);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept {
  Free(p);
}
void operator delete[](void* p) noexcept {
  Free(p);
}
void operator delete(void* p, size_t) noexcept {
  Free(p);
}
void operator delete[](void* p, size_t) noexcept {
  Free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  Free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  Free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  Free(p);
}
void operator delete[](void* p, size_t, std::align_val_t) noexcept {
  Free(p);
}
