// What recording adds for events and queries: nothing yet.
#include "flatbuf/guest/record_hooks.h"

namespace sluice::guest::hooks {

void Begun(VkCommandBuffer, const VkCommandBufferBeginInfo&) {}
void BeforeEnd(VkCommandBuffer) {}
void Forgotten(GuestCommandBuffer*) {}

void After_CmdSetEvent(VkCommandBuffer, VkEvent, VkPipelineStageFlags) {}
void After_CmdResetEvent(VkCommandBuffer, VkEvent, VkPipelineStageFlags) {}
void After_CmdSetEvent2(VkCommandBuffer, VkEvent, const VkDependencyInfo*) {}
void After_CmdResetEvent2(VkCommandBuffer, VkEvent, VkPipelineStageFlags2) {}
void After_CmdBeginQuery(VkCommandBuffer, VkQueryPool, uint32_t, VkQueryControlFlags) {}
void After_CmdEndQuery(VkCommandBuffer, VkQueryPool, uint32_t) {}
void After_CmdBeginQueryIndexedEXT(VkCommandBuffer, VkQueryPool, uint32_t, VkQueryControlFlags, uint32_t) {}
void After_CmdEndQueryIndexedEXT(VkCommandBuffer, VkQueryPool, uint32_t, uint32_t) {}
void After_CmdResetQueryPool(VkCommandBuffer, VkQueryPool, uint32_t, uint32_t) {}
void After_CmdWriteTimestamp(VkCommandBuffer, VkPipelineStageFlagBits, VkQueryPool, uint32_t) {}
void After_CmdWriteTimestamp2(VkCommandBuffer, VkPipelineStageFlags2, VkQueryPool, uint32_t) {}
void After_CmdBeginRenderPass(VkCommandBuffer, const VkRenderPassBeginInfo*, VkSubpassContents) {}
void After_CmdBeginRenderPass2(VkCommandBuffer, const VkRenderPassBeginInfo*, const VkSubpassBeginInfo*) {}
void After_CmdEndRenderPass(VkCommandBuffer) {}
void After_CmdEndRenderPass2(VkCommandBuffer, const VkSubpassEndInfo*) {}
void After_CmdBeginRendering(VkCommandBuffer, const VkRenderingInfo*) {}
void After_CmdEndRendering(VkCommandBuffer) {}
void After_CmdExecuteCommands(VkCommandBuffer, uint32_t, const VkCommandBuffer*) {}

}  // namespace sluice::guest::hooks
