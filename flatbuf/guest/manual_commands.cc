// Command pools and command buffers: who has a recorder when, and what the worker is told. Recording itself takes no
// lock: recorder.h.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/record_hooks.h"
#include "flatbuf/guest/recorder.h"
#include "flatbuf/vk/guest_send.h"

namespace sluice::guest {

void FreeIds(GuestChannel& channel, const Buffer<uint64_t>& ids) {
  for (size_t i = 0; i < ids.size(); i++) channel.ids().Free(ids[i]);
}

bool NewIds(GuestChannel& channel, uint32_t count, Buffer<uint64_t>* ids) {
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t id = channel.ids().New();
    if (id == 0) {
      FreeIds(channel, *ids);
      return false;
    }
    ids->Push(id);
  }
  return true;
}

}  // namespace sluice::guest

using namespace sluice::guest;

namespace {

// Recorders that a pool keeps between recordings, and how much memory one of them may hold then.
constexpr int kMaxFreeRecorders = 16;
constexpr size_t kMaxFreeBytes = 1 << 20;
// A driver frees what was recorded command by command. From this many on, a reset is waited for, as it would be if the
// driver were called directly: else the next recording stands in line behind it, and is slow where nobody expects it.
constexpr uint64_t kAwaitedCommands = 4096;

Recorder* TakeRecorder(GuestCommandPool* pool) {
  Recorder* recorder = pool->free_recorders;
  if (recorder == nullptr) return Recorder::New();
  pool->free_recorders = recorder->next_free;
  return recorder;
}

void Delete(Recorder* recorder) {
  recorder->FreeMemory();
  delete recorder;
}

void FreeRecorders(GuestCommandPool* pool) {
  while (pool->free_recorders != nullptr) Delete(TakeRecorder(pool));
}

bool Recording(const GuestCommandBuffer* state) {
  return state->recorder != &Recorder::Idle();
}

// The recorder goes back to the pool; what it had not sent is forgotten.
void Release(GuestCommandBuffer* state) {
  if (!Recording(state)) return;
  Recorder* recorder = state->recorder;
  state->recorder = &Recorder::Idle();
  recorder->Drop();
  if (recorder->capacity() > kMaxFreeBytes) recorder->FreeMemory();
  int free = 0;
  for (const Recorder* r = state->pool->free_recorders; r != nullptr; r = r->next_free) free++;
  if (free >= kMaxFreeRecorders) return Delete(recorder);
  recorder->next_free = state->pool->free_recorders;
  state->pool->free_recorders = recorder;
}

void Forget(GuestCommandBuffer* state) {
  Release(state);
  hooks::Forgotten(state);
}

void Delete(GuestChannel& channel, GuestCommandBuffer* state) {
  channel.ids().Free(state->id);
  delete state;
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo* pCreateInfo,
                                                   const VkAllocationCallbacks*, VkCommandPool* pCommandPool) {
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateCommandPool(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestCommandPool;
  state->id = id;
  *pCommandPool = FromState<VkCommandPool>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyCommandPool(VkDevice device, VkCommandPool commandPool,
                                                const VkAllocationCallbacks*) {
  if (commandPool == VK_NULL_HANDLE) return;
  GuestCommandPool* state = State(commandPool);
  for (size_t i = 0; i < state->buffers.size(); i++) Forget(state->buffers[i]);
  FreeRecorders(state);
  ChannelLock lock(device);
  Send_vkDestroyCommandPool(lock.channel(), device, commandPool);
  for (size_t i = 0; i < state->buffers.size(); i++) Delete(lock.channel(), state->buffers[i]);
  lock.channel().ids().Free(state->id);
  delete state;
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetCommandPool(VkDevice device, VkCommandPool commandPool,
                                                  VkCommandPoolResetFlags flags) {
  GuestCommandPool* state = State(commandPool);
  for (size_t i = 0; i < state->buffers.size(); i++) Forget(state->buffers[i]);
  uint64_t recorded = 0;
  for (Recorder* r = state->free_recorders; r != nullptr; r = r->next_free) recorded += r->TakeSent();
  if ((flags & VK_COMMAND_POOL_RESET_RELEASE_RESOURCES_BIT) != 0) FreeRecorders(state);
  GuestChannel& channel = ChannelOf(device);
  uint64_t position = 0;
  {
    ChannelLock lock(channel);
    if (!Send_vkResetCommandPool(channel, device, commandPool, flags)) return VK_ERROR_DEVICE_LOST;
    if (recorded >= kAwaitedCommands) channel.Kick();
    position = channel.position();
  }
  if (recorded >= kAwaitedCommands) channel.WaitExecuted(position);
  return channel.lost() ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkTrimCommandPool(VkDevice device, VkCommandPool commandPool, VkCommandPoolTrimFlags flags) {
  FreeRecorders(State(commandPool));
  ChannelLock lock(device);
  Send_vkTrimCommandPool(lock.channel(), device, commandPool, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateCommandBuffers(VkDevice device,
                                                        const VkCommandBufferAllocateInfo* pAllocateInfo,
                                                        VkCommandBuffer* pCommandBuffers) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  for (uint32_t i = 0; i < pAllocateInfo->commandBufferCount; i++) pCommandBuffers[i] = VK_NULL_HANDLE;
  Buffer<uint64_t> ids;
  if (!NewIds(channel, pAllocateInfo->commandBufferCount, &ids)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkAllocateCommandBuffers(channel, device, pAllocateInfo, ids.data(), ids.size()))
    return VK_ERROR_DEVICE_LOST;
  GuestCommandPool* pool = State(pAllocateInfo->commandPool);
  for (size_t i = 0; i < ids.size(); i++) {
    auto* buffer = new GuestCommandBuffer;
    buffer->id = ids[i];
    buffer->channel = &channel;
    buffer->pool = pool;
    buffer->level = pAllocateInfo->level;
    buffer->recorder = &Recorder::Idle();
    buffer->index = static_cast<uint32_t>(pool->buffers.size());
    pool->buffers.Push(buffer);
    pCommandBuffers[i] = FromState<VkCommandBuffer>(buffer);
  }
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeCommandBuffers(VkDevice device, VkCommandPool commandPool, uint32_t commandBufferCount,
                                                const VkCommandBuffer* pCommandBuffers) {
  for (uint32_t i = 0; i < commandBufferCount; i++) {
    if (pCommandBuffers[i] != VK_NULL_HANDLE) Forget(State(pCommandBuffers[i]));
  }
  ChannelLock lock(device);
  Send_vkFreeCommandBuffers(lock.channel(), device, commandPool, commandBufferCount, pCommandBuffers);
  Buffer<GuestCommandBuffer*>& buffers = State(commandPool)->buffers;
  for (uint32_t i = 0; i < commandBufferCount; i++) {
    if (pCommandBuffers[i] == VK_NULL_HANDLE) continue;
    GuestCommandBuffer* state = State(pCommandBuffers[i]);
    buffers[state->index] = buffers.back();
    buffers[state->index]->index = state->index;
    buffers.Pop();
    Delete(lock.channel(), state);
  }
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetCommandBuffer(VkCommandBuffer commandBuffer, VkCommandBufferResetFlags flags) {
  Forget(State(commandBuffer));
  ChannelLock lock(commandBuffer);
  return Send_vkResetCommandBuffer(lock.channel(), commandBuffer, flags) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL vkBeginCommandBuffer(VkCommandBuffer commandBuffer,
                                                    const VkCommandBufferBeginInfo* pBeginInfo) {
  GuestCommandBuffer* state = State(commandBuffer);
  if (state->channel->lost()) return VK_ERROR_DEVICE_LOST;
  if (Recording(state) && state->recorder->sent()) {
    // Not allowed while it records; the worker has to forget the beginning then.
    ChannelLock lock(commandBuffer);
    Send_vkResetCommandBuffer(lock.channel(), commandBuffer, 0);
  }
  Forget(state);
  VkCommandBufferBeginInfo begin = *pBeginInfo;
  VkCommandBufferInheritanceInfo inheritance;
  if (state->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY && begin.pInheritanceInfo != nullptr) {
    inheritance = *begin.pInheritanceInfo;
    if ((begin.flags & VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT) == 0) {
      inheritance.renderPass = VK_NULL_HANDLE;  // ignored then, and may hold anything
      inheritance.framebuffer = VK_NULL_HANDLE;
      inheritance.subpass = 0;
    }
    begin.pInheritanceInfo = &inheritance;
  } else {
    begin.pInheritanceInfo = nullptr;
  }
  Recorder* recorder = TakeRecorder(state->pool);
  if (recorder == nullptr) return VK_ERROR_OUT_OF_HOST_MEMORY;
  state->recorder = recorder;
  recorder->Begin(state, begin);
  hooks::Begun(commandBuffer, *pBeginInfo);
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer commandBuffer) {
  hooks::BeforeEnd(commandBuffer);
  GuestCommandBuffer* state = State(commandBuffer);
  const VkResult result = state->recorder->End();
  Release(state);
  return state->channel->lost() ? VK_ERROR_DEVICE_LOST : result;
}

}  // extern "C"
