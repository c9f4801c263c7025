// Query pools. Results lie in a feedback cell: a word per query that says whether it is available, then the values, 64
// bits each. Commands beside the program's own write them (record_hooks.cc).
#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/feedback.h"
#include "flatbuf/guest/waiting.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

uint32_t ValuesPerQuery(const VkQueryPoolCreateInfo& info) {
  switch (info.queryType) {
    case VK_QUERY_TYPE_PIPELINE_STATISTICS:
      return BitCount(info.pipelineStatistics);
    case VK_QUERY_TYPE_TRANSFORM_FEEDBACK_STREAM_EXT:
      return 2;
    default:
      return 1;
  }
}

bool Available(const GuestQueryPool* pool, uint32_t query) {
  return LoadWord(pool->available(query)) != 0;
}

// One query's values and, where asked for, its availability, in the shape that the flags want.
void Write(const GuestQueryPool* pool, uint32_t query, bool available, VkQueryResultFlags flags, uint8_t* to) {
  const bool wide = (flags & VK_QUERY_RESULT_64_BIT) != 0;
  const size_t each = wide ? sizeof(uint64_t) : sizeof(uint32_t);
  if (available || (flags & VK_QUERY_RESULT_PARTIAL_BIT) != 0) {
    for (uint32_t i = 0; i < pool->values_per_query; i++) {
      const uint64_t value = __atomic_load_n(pool->value(query, i), __ATOMIC_RELAXED);
      const uint32_t narrow = value > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(value);
      memcpy(to + i * each, wide ? static_cast<const void*>(&value) : &narrow, each);
    }
  }
  if ((flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) != 0) {
    const uint64_t state = available ? 1 : 0;  // little-endian: the low half serves as the narrow form
    memcpy(to + pool->values_per_query * each, &state, each);
  }
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateQueryPool(VkDevice device, const VkQueryPoolCreateInfo* pCreateInfo,
                                                 const VkAllocationCallbacks*, VkQueryPool* pQueryPool) {
  const uint32_t values = ValuesPerQuery(*pCreateInfo);
  FeedbackCell cell;
  if (!NewCell(device, GuestQueryPool::Bytes(pCreateInfo->queryCount, values), &cell)) {
    return ChannelOf(device).lost() ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  VkResult result = VK_ERROR_DEVICE_LOST;
  {
    ChannelLock lock(device);
    const uint64_t id = lock.channel().ids().New();
    if (id == 0) {
      result = VK_ERROR_OUT_OF_HOST_MEMORY;
    } else if (Send_vkCreateQueryPool(lock.channel(), device, pCreateInfo, id)) {
      auto* state = new GuestQueryPool;
      state->id = id;
      state->count = pCreateInfo->queryCount;
      state->values_per_query = values;
      state->cell = cell;
      *pQueryPool = FromState<VkQueryPool>(state);
      return VK_SUCCESS;
    }
  }
  FreeCell(device, cell);
  return result;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyQueryPool(VkDevice device, VkQueryPool queryPool, const VkAllocationCallbacks*) {
  if (queryPool == VK_NULL_HANDLE) return;
  {
    ChannelLock lock(device);
    Send_vkDestroyQueryPool(lock.channel(), device, queryPool);
    lock.channel().ids().Free(State(queryPool)->id);
  }
  FreeCell(device, State(queryPool)->cell);
  delete State(queryPool);
}

VKAPI_ATTR void VKAPI_CALL vkResetQueryPool(VkDevice device, VkQueryPool queryPool, uint32_t firstQuery,
                                            uint32_t queryCount) {
  GuestQueryPool* pool = State(queryPool);
  for (uint32_t i = firstQuery; i < firstQuery + queryCount; i++) {
    StoreWord(pool->available(i), 0);
    for (uint32_t v = 0; v < pool->values_per_query; v++) *pool->value(i, v) = 0;
  }
  ChannelLock lock(device);
  Send_vkResetQueryPool(lock.channel(), device, queryPool, firstQuery, queryCount);
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetQueryPoolResults(VkDevice device, VkQueryPool queryPool, uint32_t firstQuery,
                                                     uint32_t queryCount, size_t, void* pData, VkDeviceSize stride,
                                                     VkQueryResultFlags flags) {
  GuestChannel& channel = ChannelOf(device);
  const GuestQueryPool* pool = State(queryPool);
  if (channel.lost()) return VK_ERROR_DEVICE_LOST;
  if ((flags & VK_QUERY_RESULT_WAIT_BIT) != 0) {
    uint32_t next = firstQuery;  // all before it are available
    const WaitResult waited = WaitUntil(
        channel, ~uint64_t{0},
        [&] {
          while (next < firstQuery + queryCount && Available(pool, next)) next++;
          return next == firstQuery + queryCount;
        },
        [&] {
          // What was submitted last is what it comes with, as far as one can know.
          Awaited awaited;
          awaited.several = true;
          ChannelLock lock(channel);
          const Buffer<GuestQueue*>& queues = State(device)->queues;
          for (size_t i = 0; i < queues.size(); i++) {
            const uint64_t position = queues[i]->position.load(std::memory_order_acquire);
            if (position < awaited.position) continue;
            awaited.timeline = queues[i]->timeline;
            awaited.position = position;
          }
          return awaited;
        });
    if (waited != WaitResult::kDone) return VK_ERROR_DEVICE_LOST;
  }
  VkResult result = VK_SUCCESS;
  auto* to = static_cast<uint8_t*>(pData);
  for (uint32_t i = 0; i < queryCount; i++) {
    const bool available = Available(pool, firstQuery + i);
    if (!available && (flags & VK_QUERY_RESULT_PARTIAL_BIT) == 0) result = VK_NOT_READY;
    Write(pool, firstQuery + i, available, flags, to + i * stride);
  }
  return result;
}

}  // extern "C"
