// What recording adds for events and queries: commands that write what the host asks for into feedback cells.
//
// An event's cell follows each command that sets or resets it. A query's values are copied at the end of the command
// buffer, all together (earlier before the pool is reset, or an event is set, by which the host could learn that the
// query has ended); a secondary command buffer that is executed inside a render pass, where nothing can be copied,
// leaves that to the primary.
#include "flatbuf/guest/record_hooks.h"

#include "flatbuf/guest/feedback.h"

namespace sluice::guest {

// Queries that have ended and whose values have not been copied.
struct EndedQueries {
  GuestQueryPool* pool;
  uint32_t first;
  uint32_t count;
};
struct CommandFeedback {
  Buffer<EndedQueries> ended;
  bool inside = false;     // all of it is executed inside a render pass
  bool suspended = false;  // the last rendering goes on in another command buffer
  bool suspending = false;
  uint32_t views = 1;  // queries per query, of multiview rendering
};

namespace hooks {
namespace {

CommandFeedback* Of(VkCommandBuffer commands) {
  GuestCommandBuffer* state = State(commands);
  if (state->feedback == nullptr) state->feedback = new CommandFeedback;
  return static_cast<CommandFeedback*>(state->feedback);
}

void Barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to, VkAccessFlags write,
             VkAccessFlags then) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = write;
  barrier.dstAccessMask = then;
  vkCmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}
// Earlier writes of cells, then what follows.
void BeforeCells(VkCommandBuffer commands, VkPipelineStageFlags after) {
  Barrier(commands, after | VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
          VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
}
void AfterCells(VkCommandBuffer commands) {
  Barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
          VK_ACCESS_HOST_READ_BIT);
}

void FillAvailable(VkCommandBuffer commands, const GuestQueryPool* pool, uint32_t first, uint32_t count,
                   uint32_t value) {
  vkCmdFillBuffer(commands, pool->cell.buffer, pool->cell.offset + uint64_t{first} * sizeof(uint32_t),
                  uint64_t{count} * sizeof(uint32_t), value);
}

void CopyEnded(VkCommandBuffer commands, CommandFeedback* feedback) {
  Buffer<EndedQueries>& ended = feedback->ended;
  if (ended.empty()) return;
  BeforeCells(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  for (size_t i = 0; i < ended.size(); i++) {
    const GuestQueryPool* pool = ended[i].pool;
    if (pool->values_per_query == 0) continue;
    vkCmdCopyQueryPoolResults(commands, FromState<VkQueryPool>(ended[i].pool), ended[i].first, ended[i].count,
                              pool->cell.buffer, pool->cell.offset + pool->ValueOffset(ended[i].first),
                              uint64_t{pool->values_per_query} * sizeof(uint64_t),
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  }
  BeforeCells(commands, VK_PIPELINE_STAGE_TRANSFER_BIT);
  for (size_t i = 0; i < ended.size(); i++) FillAvailable(commands, ended[i].pool, ended[i].first, ended[i].count, 1);
  AfterCells(commands);
  ended.Clear();
}

void Ended(VkCommandBuffer commands, VkQueryPool handle, uint32_t query) {
  CommandFeedback* feedback = Of(commands);
  GuestQueryPool* pool = State(handle);
  Buffer<EndedQueries>& ended = feedback->ended;
  for (uint32_t i = 0; i < feedback->views && query + i < pool->count; i++) {
    if (!ended.empty() && ended.back().pool == pool && ended.back().first + ended.back().count == query + i) {
      ended.back().count++;
    } else {
      ended.Push({pool, query + i, 1});
    }
  }
}

void SetCell(VkCommandBuffer commands, VkEvent handle, VkPipelineStageFlags after, uint32_t value) {
  GuestEvent* event = State(handle);
  if (event->word() == nullptr) return;
  if (value != 0 && State(commands)->feedback != nullptr) CopyEnded(commands, Of(commands));
  BeforeCells(commands, after);
  vkCmdFillBuffer(commands, event->cell.buffer, event->cell.offset, sizeof(uint32_t), value);
  AfterCells(commands);
}

// Stages of the 64-bit kind: those that are as in the 32-bit kind, else all.
VkPipelineStageFlags Stages(VkPipelineStageFlags2 stages) {
  constexpr VkPipelineStageFlags2 kCommon = 0x1ffff;
  if ((stages & ~kCommon) != 0) return VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  if (stages == 0) return VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT;
  return static_cast<VkPipelineStageFlags>(stages);
}

}  // namespace

void Begun(VkCommandBuffer commands, const VkCommandBufferBeginInfo& info) {
  const bool inside = State(commands)->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY &&
                      (info.flags & VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT) != 0;
  if (inside) Of(commands)->inside = true;
}

void BeforeEnd(VkCommandBuffer commands) {
  auto* feedback = static_cast<CommandFeedback*>(State(commands)->feedback);
  if (feedback == nullptr || feedback->inside || feedback->suspended) return;
  CopyEnded(commands, feedback);
}

void Forgotten(GuestCommandBuffer* state) {
  delete static_cast<CommandFeedback*>(state->feedback);
  state->feedback = nullptr;
}

void After_CmdSetEvent(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags stageMask) {
  SetCell(commandBuffer, event, stageMask, 1);
}
void After_CmdResetEvent(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags stageMask) {
  SetCell(commandBuffer, event, stageMask, 0);
}
void After_CmdSetEvent2(VkCommandBuffer commandBuffer, VkEvent event, const VkDependencyInfo* pDependencyInfo) {
  const VkDependencyInfo& info = *pDependencyInfo;
  VkPipelineStageFlags2 stages = 0;
  for (uint32_t i = 0; i < info.memoryBarrierCount; i++) stages |= info.pMemoryBarriers[i].srcStageMask;
  for (uint32_t i = 0; i < info.bufferMemoryBarrierCount; i++) stages |= info.pBufferMemoryBarriers[i].srcStageMask;
  for (uint32_t i = 0; i < info.imageMemoryBarrierCount; i++) stages |= info.pImageMemoryBarriers[i].srcStageMask;
  SetCell(commandBuffer, event, Stages(stages), 1);
}
void After_CmdResetEvent2(VkCommandBuffer commandBuffer, VkEvent event, VkPipelineStageFlags2 stageMask) {
  SetCell(commandBuffer, event, Stages(stageMask), 0);
}

void After_CmdBeginQuery(VkCommandBuffer, VkQueryPool, uint32_t, VkQueryControlFlags) {}
void After_CmdEndQuery(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query) {
  Ended(commandBuffer, queryPool, query);
}
void After_CmdBeginQueryIndexedEXT(VkCommandBuffer, VkQueryPool, uint32_t, VkQueryControlFlags, uint32_t) {}
void After_CmdEndQueryIndexedEXT(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t query, uint32_t) {
  Ended(commandBuffer, queryPool, query);
}
void After_CmdResetQueryPool(VkCommandBuffer commandBuffer, VkQueryPool queryPool, uint32_t firstQuery,
                             uint32_t queryCount) {
  GuestQueryPool* pool = State(queryPool);
  if (queryCount == 0) return;
  if (State(commandBuffer)->feedback != nullptr) CopyEnded(commandBuffer, Of(commandBuffer));
  BeforeCells(commandBuffer, VK_PIPELINE_STAGE_TRANSFER_BIT);
  FillAvailable(commandBuffer, pool, firstQuery, queryCount, 0);
  if (pool->values_per_query != 0) {
    vkCmdFillBuffer(commandBuffer, pool->cell.buffer, pool->cell.offset + pool->ValueOffset(firstQuery),
                    uint64_t{queryCount} * pool->values_per_query * sizeof(uint64_t), 0);
  }
  AfterCells(commandBuffer);
}
void After_CmdWriteTimestamp(VkCommandBuffer commandBuffer, VkPipelineStageFlagBits, VkQueryPool queryPool,
                             uint32_t query) {
  Ended(commandBuffer, queryPool, query);
}
void After_CmdWriteTimestamp2(VkCommandBuffer commandBuffer, VkPipelineStageFlags2, VkQueryPool queryPool,
                              uint32_t query) {
  Ended(commandBuffer, queryPool, query);
}

void After_CmdBeginRenderPass(VkCommandBuffer, const VkRenderPassBeginInfo*, VkSubpassContents) {}
void After_CmdBeginRenderPass2(VkCommandBuffer, const VkRenderPassBeginInfo*, const VkSubpassBeginInfo*) {}
void After_CmdEndRenderPass(VkCommandBuffer) {}
void After_CmdEndRenderPass2(VkCommandBuffer, const VkSubpassEndInfo*) {}
void After_CmdBeginRendering(VkCommandBuffer commandBuffer, const VkRenderingInfo* pRenderingInfo) {
  const bool suspending = (pRenderingInfo->flags & VK_RENDERING_SUSPENDING_BIT) != 0;
  const uint32_t views = BitCount(pRenderingInfo->viewMask);
  if (State(commandBuffer)->feedback == nullptr && !suspending && views <= 1) return;
  CommandFeedback* feedback = Of(commandBuffer);
  feedback->suspending = suspending;
  feedback->suspended = false;
  feedback->views = views == 0 ? 1 : views;
}
void After_CmdEndRendering(VkCommandBuffer commandBuffer) {
  auto* feedback = static_cast<CommandFeedback*>(State(commandBuffer)->feedback);
  if (feedback == nullptr) return;
  feedback->suspended = feedback->suspending;
  feedback->views = 1;
}
void After_CmdExecuteCommands(VkCommandBuffer commandBuffer, uint32_t commandBufferCount,
                              const VkCommandBuffer* pCommandBuffers) {
  for (uint32_t i = 0; i < commandBufferCount; i++) {
    const auto* inner = static_cast<const CommandFeedback*>(State(pCommandBuffers[i])->feedback);
    if (inner == nullptr) continue;
    for (size_t j = 0; j < inner->ended.size(); j++) Of(commandBuffer)->ended.Push(inner->ended[j]);
  }
}

}  // namespace hooks
}  // namespace sluice::guest
