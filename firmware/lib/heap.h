// File: heap.h
//
// The heap behind operator new and delete: all RAM after the guest's image. Blocks up to 32 KiB come from free lists by
// size class; larger ones from a list of free ranges that joins neighbours, so that memory really comes back. A guest
// that runs out of memory ends with ExitCode::kOutOfMemory: operator new never returns null.
//
//   auto* page = static_cast<uint8_t*>(AllocateAligned(4096, 4096));   // for a device: physical = virtual address
//   ...
//   ::operator delete(page);
#ifndef SLUICE_FIRMWARE_LIB_HEAP_H_
#define SLUICE_FIRMWARE_LIB_HEAP_H_

#include <stddef.h>
#include <stdint.h>

namespace sluice::firmware {

// Takes [begin, end). Once, by the runtime.
void HeapInit(uint64_t begin, uint64_t end);

// `size` bytes at a multiple of `alignment` (a power of two, up to 1 MiB). Free it with operator delete. Not cleared.
void* AllocateAligned(size_t size, size_t alignment);
// The same, zero-filled.
void* AllocateZeroed(size_t size, size_t alignment);

struct HeapStats {
  uint64_t total_bytes;  // that the heap was given
  uint64_t used_bytes;   // in live blocks, their rounding and headers included
  uint64_t live_blocks;
};
HeapStats GetHeapStats();

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_HEAP_H_
