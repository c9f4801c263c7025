// Pipelines.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/pipeline_fix.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

// Pipelines of either kind: reply->made() names those that exist.
template <typename Reply>
VkResult FinishPipelines(GuestChannel& channel, const Reply* reply, const Buffer<uint64_t>& ids,
                         VkPipeline* pipelines) {
  for (size_t i = 0; i < ids.size(); i++) {
    const bool made = reply != nullptr && reply->made() != nullptr && i < reply->made()->size() &&
                      reply->made()->Get(static_cast<uint32_t>(i)) == ids[i];
    pipelines[i] = made ? FromId<VkPipeline>(ids[i]) : VK_NULL_HANDLE;
    if (!made) channel.ids().Free(ids[i]);
  }
  return reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateGraphicsPipelines(VkDevice device, VkPipelineCache pipelineCache,
                                                         uint32_t createInfoCount,
                                                         const VkGraphicsPipelineCreateInfo* pCreateInfos,
                                                         const VkAllocationCallbacks*, VkPipeline* pPipelines) {
  ChannelLock lock(device);
  Buffer<uint64_t> ids;
  if (!NewIds(lock.channel(), createInfoCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const uint64_t start = lock.channel().platform().NowNs();
  const auto* reply = Call_vkCreateGraphicsPipelines(lock.channel(), device, pipelineCache, createInfoCount,
                                                     pCreateInfos, ids.data(), ids.size());
  const uint64_t each = (lock.channel().platform().NowNs() - start) / (createInfoCount == 0 ? 1 : createInfoCount);
  for (uint32_t i = 0; i < createInfoCount; i++) WriteCreationFeedback(pCreateInfos[i].pNext, each);
  return FinishPipelines(lock.channel(), reply, ids, pPipelines);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateComputePipelines(VkDevice device, VkPipelineCache pipelineCache,
                                                        uint32_t createInfoCount,
                                                        const VkComputePipelineCreateInfo* pCreateInfos,
                                                        const VkAllocationCallbacks*, VkPipeline* pPipelines) {
  ChannelLock lock(device);
  Buffer<uint64_t> ids;
  if (!NewIds(lock.channel(), createInfoCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const uint64_t start = lock.channel().platform().NowNs();
  const auto* reply = Call_vkCreateComputePipelines(lock.channel(), device, pipelineCache, createInfoCount,
                                                    pCreateInfos, ids.data(), ids.size());
  const uint64_t each = (lock.channel().platform().NowNs() - start) / (createInfoCount == 0 ? 1 : createInfoCount);
  for (uint32_t i = 0; i < createInfoCount; i++) WriteCreationFeedback(pCreateInfos[i].pNext, each);
  return FinishPipelines(lock.channel(), reply, ids, pPipelines);
}

}  // extern "C"
