#include "flatbuf/guest/memory_pool.h"

#include <string.h>

#include <initializer_list>

#include "flatbuf/guest/channel.h"

namespace sluice::guest {
namespace {

// Parts of the quota that one chunk may take, so that many contexts find room.
constexpr uint64_t kChunksPerQuota = 16;

struct FreeRange {
  uint64_t offset, size;
};

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

// One blob. Free ranges are sorted by offset and never touch.
struct MemoryChunk {
  SharedMemory memory;  // as the platform gave it
  uint64_t bytes = 0;   // of it, those that are cut up
  Buffer<FreeRange> free;
  uint64_t free_bytes = 0;
  uint64_t used_up_to = 0;  // bytes beyond are as the platform gave them: zero
  uint64_t told = 0;        // ring position after the last message that names it
  bool own = false;         // of one large allocation

  bool empty() const { return free_bytes == bytes; }

  bool Take(uint64_t size, uint64_t* offset) {
    if (free_bytes < size) return false;
    for (size_t i = 0; i < free.size(); i++) {
      if (free[i].size < size) continue;
      *offset = free[i].offset;
      free[i].offset += size;
      free[i].size -= size;
      if (free[i].size == 0) free.Remove(i);
      free_bytes -= size;
      return true;
    }
    return false;
  }

  void Give(uint64_t offset, uint64_t size) {
    size_t low = 0;
    for (size_t high = free.size(); low < high;) {
      const size_t middle = low + (high - low) / 2;
      if (free[middle].offset < offset) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    free_bytes += size;
    const bool joins_before = low > 0 && free[low - 1].offset + free[low - 1].size == offset;
    const bool joins_after = low < free.size() && offset + size == free[low].offset;
    if (joins_before) {
      free[low - 1].size += size;
      if (joins_after) {
        free[low - 1].size += free[low].size;
        free.Remove(low);
      }
    } else if (joins_after) {
      free[low].offset = offset;
      free[low].size += size;
    } else {
      free.Insert(low, {offset, size});
    }
  }
};

bool SharedRange::pooled() const {
  return chunk != nullptr && !chunk->own;
}

MemoryPool::~MemoryPool() {
  for (size_t i = 0; i < chunks_.size(); i++) delete chunks_[i];
  for (size_t i = 0; i < dropped_.size(); i++) delete dropped_[i];
}

MemoryChunk* MemoryPool::NewChunk(GuestChannel& channel, uint64_t bytes, bool own) {
  SharedMemory memory;
  if (!channel.platform().AllocateSharedMemory(bytes, &memory)) return nullptr;
  if (memory.size < bytes) {  // a platform's mistake
    channel.platform().FreeSharedMemory(memory);
    return nullptr;
  }
  auto* chunk = new MemoryChunk;
  chunk->memory = memory;
  chunk->bytes = bytes;
  chunk->own = own;
  chunk->free.Push({0, bytes});
  chunk->free_bytes = bytes;
  chunks_.Push(chunk);
  blob_bytes_ += bytes;
  if (!own) pooled_bytes_ += bytes;
  return chunk;
}

// Grows with what is in use; a quota that is nearly used up still gives a small one.
MemoryChunk* MemoryPool::NewSharedChunk(GuestChannel& channel, uint64_t bytes) {
  const uint64_t alignment = channel.memory_alignment();
  uint64_t wanted = pooled_bytes_ < kSmallestChunk ? kSmallestChunk : pooled_bytes_;
  if (wanted > kLargestChunk) wanted = kLargestChunk;
  const uint64_t limit = channel.memory_limit();
  if (limit != 0 && wanted > limit / kChunksPerQuota) wanted = limit / kChunksPerQuota;
  wanted = AlignUp(wanted, alignment);
  for (; wanted > bytes; wanted = AlignUp(wanted / 2, alignment)) {
    if (MemoryChunk* chunk = NewChunk(channel, wanted, false); chunk != nullptr) return chunk;
    if (channel.lost() || wanted <= alignment) return nullptr;
  }
  return NewChunk(channel, bytes, false);
}

bool MemoryPool::Allocate(GuestChannel& channel, uint64_t size, SharedRange* out) {
  Reap(channel, false);
  const uint64_t alignment = channel.memory_alignment();
  if (size == 0 || size > UINT64_MAX / 2) return false;
  const uint64_t bytes = AlignUp(size, alignment);
  const bool own = bytes > kLargestPooled;
  MemoryChunk* chunk = nullptr;
  uint64_t offset = 0;
  if (!own) {
    // The newest first: it is the emptiest.
    for (size_t i = chunks_.size(); i-- > 0;) {
      if (!chunks_[i]->own && chunks_[i]->Take(bytes, &offset)) {
        chunk = chunks_[i];
        break;
      }
    }
  }
  if (chunk == nullptr) {
    for (int tries = 0; chunk == nullptr && tries < 2; tries++) {
      if (tries != 0 && !Reclaim(channel)) break;
      chunk = own ? NewChunk(channel, bytes, true) : NewSharedChunk(channel, bytes);
    }
    if (chunk == nullptr || !chunk->Take(bytes, &offset)) return false;
  }
  out->resource_id = chunk->memory.resource_id;
  out->offset = offset;
  out->size = bytes;
  out->pointer = static_cast<uint8_t*>(chunk->memory.pointer) + offset;
  out->chunk = chunk;
  // Drivers give fresh pages, and programs have come to read what they never wrote.
  if (offset < chunk->used_up_to) {
    const uint64_t used = chunk->used_up_to - offset;
    memset(out->pointer, 0, used < bytes ? used : bytes);
  }
  if (chunk->used_up_to < offset + bytes) chunk->used_up_to = offset + bytes;
  return true;
}

void MemoryPool::Told(const GuestChannel& channel, const SharedRange& range) {
  range.chunk->told = channel.position();
}

void MemoryPool::Free(GuestChannel& channel, const SharedRange& range) {
  MemoryChunk* chunk = range.chunk;
  chunk->Give(range.offset, range.size);
  if (!chunk->empty()) return;
  if (chunk->own) {
    channel.Kick();  // much memory: the worker lets go of it soon, even if nothing else is sent
    Drop(channel, chunk);
  } else {
    DropEmpty(channel, 1);
  }
}

void MemoryPool::Drop(GuestChannel& channel, MemoryChunk* chunk) {
  for (size_t i = 0; i < chunks_.size(); i++) {
    if (chunks_[i] != chunk) continue;
    chunks_.Remove(i);
    dropped_.Push(chunk);
    blob_bytes_ -= chunk->bytes;
    if (!chunk->own) pooled_bytes_ -= chunk->bytes;
    Reap(channel, false);
    return;
  }
}

// Of empty shared chunks, `keep` stay: the largest.
void MemoryPool::DropEmpty(GuestChannel& channel, size_t keep) {
  for (;;) {
    size_t empty = 0;
    MemoryChunk* smallest = nullptr;
    for (size_t i = 0; i < chunks_.size(); i++) {
      if (!chunks_[i]->empty()) continue;
      empty++;
      if (smallest == nullptr || chunks_[i]->bytes < smallest->bytes) smallest = chunks_[i];
    }
    if (empty <= keep) return;
    Drop(channel, smallest);
  }
}

void MemoryPool::Reap(GuestChannel& channel, bool wait) {
  for (size_t i = dropped_.size(); i-- > 0;) {
    MemoryChunk* chunk = dropped_[i];
    if (wait) channel.WaitExecuted(chunk->told);
    if (channel.executed() < chunk->told && !channel.lost()) continue;
    channel.platform().FreeSharedMemory(chunk->memory);
    dropped_.Remove(i);
    delete chunk;
  }
}

bool MemoryPool::Reclaim(GuestChannel& channel) {
  if (channel.lost()) return false;
  // What was freed comes back when the worker has executed that.
  const bool behind = channel.executed() < channel.position() || !dropped_.empty();
  const uint64_t before = blob_bytes_;
  DropEmpty(channel, 0);
  channel.WaitExecuted(channel.position());
  Reap(channel, true);
  return behind || blob_bytes_ != before;
}

uint64_t MemoryPool::slack_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < chunks_.size(); i++) bytes += chunks_[i]->free_bytes;
  return bytes;
}

void MemoryPool::Trim(GuestChannel& channel) {
  DropEmpty(channel, 0);
}

void MemoryPool::Clear(GuestChannel& channel) {
  for (Buffer<MemoryChunk*>* list : {&chunks_, &dropped_}) {
    for (size_t i = 0; i < list->size(); i++) {
      channel.platform().FreeSharedMemory((*list)[i]->memory);
      delete (*list)[i];
    }
    list->Clear();
  }
  blob_bytes_ = pooled_bytes_ = 0;
}

}  // namespace sluice::guest
