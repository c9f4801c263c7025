// File: record_hooks.h
//
// Where recording meets synchronisation: called after a command that sets an event or touches a query has been
// recorded, and at the ends of what may be recorded outside of render passes. They may record more commands into the
// same command buffer, through the Vulkan entry points, which do not come back here for commands without a hook. Which
// commands have one: `hooks` under [stream] in flatbuf/vkgen/allow.toml; the arguments are the command's own.
// Freestanding.
//
// Threads: the caller's; Vulkan's external synchronisation of the command buffer and its pool. No lock is held.
// State that belongs to a command buffer hangs on GuestCommandBuffer::feedback.
#ifndef SLUICE_FLATBUF_GUEST_RECORD_HOOKS_H_
#define SLUICE_FLATBUF_GUEST_RECORD_HOOKS_H_

#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/handle.h"

namespace sluice::guest::hooks {

// ---- life of a command buffer
// vkBeginCommandBuffer succeeded.
void Begun(VkCommandBuffer command_buffer, const VkCommandBufferBeginInfo& info);
// In vkEndCommandBuffer, before the rest of the recording is sent: the last chance to record.
void BeforeEnd(VkCommandBuffer command_buffer);
// Its recording is forgotten: vkBeginCommandBuffer, vkResetCommandBuffer, vkResetCommandPool, freed.
void Forgotten(GuestCommandBuffer* state);

// ---- after these commands
void After_CmdSetEvent(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags stageMask);
void After_CmdResetEvent(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags stageMask);
void After_CmdSetEvent2(VkCommandBuffer commandBuffer, VkEvent event, const VkDependencyInfo* pDependencyInfo);
void After_CmdResetEvent2(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags2 stageMask);
void After_CmdBeginQuery(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query,
                         VkQueryControlFlags flags);
void After_CmdEndQuery(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query);
void After_CmdBeginQueryIndexedEXT(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query,
                                   VkQueryControlFlags flags, uint32_t index);
void After_CmdEndQueryIndexedEXT(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query, uint32_t index);
void After_CmdResetQueryPool(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t firstQuery,
                             uint32_t queryCount);
void After_CmdWriteTimestamp(VkCommandBuffer commandBuffer, VkPipelineStageFlagBits pipelineStage,
                             VkQueryPool queryPool, uint32_t query);
void After_CmdWriteTimestamp2(VkCommandBuffer commandBuffer, VkPipelineStageFlags2 stage, VkQueryPool queryPool,
                              uint32_t query);
void After_CmdBeginRenderPass(VkCommandBuffer commandBuffer, const VkRenderPassBeginInfo* pRenderPassBegin,
                              VkSubpassContents contents);
void After_CmdBeginRenderPass2(VkCommandBuffer commandBuffer, const VkRenderPassBeginInfo* pRenderPassBegin,
                               const VkSubpassBeginInfo* pSubpassBeginInfo);
void After_CmdEndRenderPass(VkCommandBuffer commandBuffer);
void After_CmdEndRenderPass2(VkCommandBuffer commandBuffer, const VkSubpassEndInfo* pSubpassEndInfo);
void After_CmdBeginRendering(VkCommandBuffer commandBuffer, const VkRenderingInfo* pRenderingInfo);
void After_CmdEndRendering(VkCommandBuffer commandBuffer);
void After_CmdExecuteCommands(VkCommandBuffer commandBuffer, uint32_t commandBufferCount,
                              const VkCommandBuffer* pCommandBuffers);

}  // namespace sluice::guest::hooks

#endif  // SLUICE_FLATBUF_GUEST_RECORD_HOOKS_H_
