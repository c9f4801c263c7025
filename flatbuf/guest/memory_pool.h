// File: memory_pool.h
//
// Where host-visible allocations of one channel lie: shared blobs ("chunks") cut into pages, so that an allocation
// costs neither a new blob nor a mapping nor a round trip. Large allocations have a blob of their own. Freestanding.
//
//   SharedRange range;
//   if (!channel.memory().Allocate(channel, size, &range)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
//   ...tell the worker {range.resource_id, range.offset}...
//   channel.memory().Told(channel, range);
//   ...tell the worker that the memory is free...
//   channel.memory().Free(channel, range);
//
// The quota is charged by the worker when a blob is made, so a refusal is seen by the allocation that needs it. Chunks
// adapt to small quotas; one empty chunk is kept, and given up when an allocation would fail otherwise.
//
// All need the channel's lock.
#ifndef SLUICE_FLATBUF_GUEST_MEMORY_POOL_H_
#define SLUICE_FLATBUF_GUEST_MEMORY_POOL_H_

#include <stdint.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/platform.h"

namespace sluice::guest {

class GuestChannel;

// Allocations of more bytes than this have a blob of their own.
inline constexpr uint64_t kLargestPooled = uint64_t{2} << 20;
inline constexpr uint64_t kSmallestChunk = uint64_t{1} << 20;
inline constexpr uint64_t kLargestChunk = uint64_t{16} << 20;

struct MemoryChunk;

// Memory of one allocation.
struct SharedRange {
  uint32_t resource_id = 0;  // of the blob; 0: none
  uint64_t offset = 0;       // in the blob, bytes, aligned as the worker asks
  uint64_t size = 0;         // bytes, rounded up likewise
  void* pointer = nullptr;   // where the guest sees it
  MemoryChunk* chunk = nullptr;

  // It shares its blob with others: the blob was there before the allocation.
  bool pooled() const;
};

class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();  // forgets; see Clear

  // At least `size` bytes (> 0), all zero. False: the quota or the machine has no more.
  bool Allocate(GuestChannel& channel, uint64_t size, SharedRange* out);
  // The message that names the range has been sent: its blob must be found until the worker has executed that.
  void Told(const GuestChannel& channel, const SharedRange& range);
  // The message that frees the range has been sent.
  void Free(GuestChannel& channel, const SharedRange& range);
  // Gives back all blobs that no allocation lies in.
  void Trim(GuestChannel& channel);
  // Gives back everything, at once: the worker has been told to destroy the context, so it looks nothing up any more.
  void Clear(GuestChannel& channel);

  // Bytes in blobs, whether allocated or not.
  uint64_t blob_bytes() const { return blob_bytes_; }
  // Of them, those in no allocation.
  uint64_t slack_bytes() const;
  size_t chunks() const { return chunks_.size(); }

 private:
  MemoryChunk* NewChunk(GuestChannel& channel, uint64_t bytes, bool own);
  MemoryChunk* NewSharedChunk(GuestChannel& channel, uint64_t bytes);
  void Drop(GuestChannel& channel, MemoryChunk* chunk);
  void DropEmpty(GuestChannel& channel, size_t keep);
  // Gives back dropped blobs that the worker needs no more. `wait`: until it needs none.
  void Reap(GuestChannel& channel, bool wait);
  // All that can be given back is. True if that may have made room.
  bool Reclaim(GuestChannel& channel);

  Buffer<MemoryChunk*> chunks_;
  Buffer<MemoryChunk*> dropped_;  // the worker may still have to find them
  uint64_t blob_bytes_ = 0;
  uint64_t pooled_bytes_ = 0;  // of them, in chunks that are shared by allocations
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_MEMORY_POOL_H_
