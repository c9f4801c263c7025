#include "flatbuf/guest/feedback.h"

#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/word_lock.h"

namespace sluice::guest {
namespace {

constexpr uint64_t kChunkBytes = 64 * 1024;
constexpr uint64_t kLeastCell = 8;
constexpr int kClasses = 12;  // of cells: 8 bytes << class, up to a quarter of a chunk

struct Chunk {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint8_t* pointer = nullptr;
};

int ClassOf(uint64_t bytes) {
  int size_class = 0;
  while (size_class < kClasses && (kLeastCell << size_class) < bytes) size_class++;
  return size_class;
}

bool FindMemoryType(VkDevice device, uint32_t types, uint32_t* index) {
  constexpr VkMemoryPropertyFlags kWanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkPhysicalDeviceMemoryProperties properties;
  vkGetPhysicalDeviceMemoryProperties(FromState<VkPhysicalDevice>(State(device)->physical), &properties);
  for (uint32_t i = 0; i < properties.memoryTypeCount; i++) {
    if ((types >> i & 1) != 0 && (properties.memoryTypes[i].propertyFlags & kWanted) == kWanted) {
      *index = i;
      return true;
    }
  }
  return false;
}

void FreeChunk(VkDevice device, const Chunk& chunk) {
  vkDestroyBuffer(device, chunk.buffer, nullptr);
  vkFreeMemory(device, chunk.memory, nullptr);
}

bool NewChunk(VkDevice device, uint64_t bytes, Chunk* chunk) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  if (vkCreateBuffer(device, &info, nullptr, &chunk->buffer) != VK_SUCCESS) return false;
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, chunk->buffer, &needs);
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = needs.size;
  void* pointer = nullptr;
  if (!FindMemoryType(device, needs.memoryTypeBits, &allocate.memoryTypeIndex) ||
      vkAllocateMemory(device, &allocate, nullptr, &chunk->memory) != VK_SUCCESS) {
    chunk->memory = VK_NULL_HANDLE;
    FreeChunk(device, *chunk);
    return false;
  }
  if (vkBindBufferMemory(device, chunk->buffer, chunk->memory, 0) != VK_SUCCESS ||
      vkMapMemory(device, chunk->memory, 0, VK_WHOLE_SIZE, 0, &pointer) != VK_SUCCESS) {
    FreeChunk(device, *chunk);
    return false;
  }
  chunk->pointer = static_cast<uint8_t*>(pointer);
  return true;
}

}  // namespace

// A device's cells. Small ones share chunks, each chunk cut into cells of one class; large ones have a buffer each.
struct GuestFeedback {
  std::atomic<uint32_t> lock{0};
  Buffer<Chunk> chunks;
  Buffer<FeedbackCell> free[kClasses];
};

bool NewCell(VkDevice device, uint64_t bytes, FeedbackCell* cell) {
  GuestDevice* state = State(device);
  Platform& platform = state->channel->platform();
  const int size_class = ClassOf(bytes);
  GuestFeedback* all = nullptr;
  {
    WordLock lock(&state->feedback_lock, platform);
    if (state->feedback == nullptr) state->feedback = new GuestFeedback;
    all = state->feedback;
  }
  for (int attempt = 0;; attempt++) {
    if (size_class < kClasses) {
      WordLock lock(&all->lock, platform);
      Buffer<FeedbackCell>& free = all->free[size_class];
      if (!free.empty()) {
        *cell = free.back();
        free.Pop();
        memset(cell->pointer, 0, bytes);
        return true;
      }
    }
    if (attempt > 0 && size_class < kClasses) return false;  // other threads took all of the new chunk: as good as none
    Chunk chunk;
    if (!NewChunk(device, size_class < kClasses ? kChunkBytes : bytes, &chunk)) return false;
    WordLock lock(&all->lock, platform);
    if (size_class == kClasses) {
      *cell = {chunk.buffer, chunk.memory, 0, chunk.pointer, bytes};
      memset(cell->pointer, 0, bytes);
      return true;
    }
    all->chunks.Push(chunk);
    const uint64_t size = kLeastCell << size_class;
    for (uint64_t at = kChunkBytes; at >= size; at -= size) {
      all->free[size_class].Push({chunk.buffer, VK_NULL_HANDLE, at - size, chunk.pointer + at - size, size});
    }
  }
}

void FreeCell(VkDevice device, const FeedbackCell& cell) {
  if (cell.pointer == nullptr) return;
  if (cell.memory != VK_NULL_HANDLE) {
    vkDestroyBuffer(device, cell.buffer, nullptr);
    vkFreeMemory(device, cell.memory, nullptr);
    return;
  }
  GuestDevice* state = State(device);
  WordLock lock(&state->feedback->lock, state->channel->platform());
  state->feedback->free[ClassOf(cell.bytes)].Push(cell);
}

void FreeFeedback(VkDevice device) {
  GuestFeedback* all = State(device)->feedback;
  if (all == nullptr) return;
  State(device)->feedback = nullptr;
  for (size_t i = 0; i < all->chunks.size(); i++) FreeChunk(device, all->chunks[i]);
  delete all;
}

}  // namespace sluice::guest
