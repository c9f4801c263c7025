// Descriptor set layouts, pools and sets. Allocation waits for the worker only where the driver may refuse: while a
// pool has never been asked for more than it has, and nothing was freed from it, the specification promises success.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/vk/guest_send.h"
#include "flatbuf/vkgen/semantics.h"

using namespace sluice::guest;

namespace {

void RemoveFrom(Buffer<uint64_t>* items, uint64_t item) {
  for (size_t i = 0; i < items->size(); i++) {
    if ((*items)[i] == item) {
      (*items)[i] = items->back();
      items->Pop();
      return;
    }
  }
}

bool IsCounted(VkDescriptorType type) {
  return static_cast<uint32_t>(type) < kDescriptorTypes;
}

// Takes the sets out of the pool's counts. False: it cannot tell, or there is not enough.
bool TakeCounted(GuestDescriptorPool* pool, const VkDescriptorSetAllocateInfo& info) {
  if (!pool->counted || info.descriptorSetCount > pool->sets_left) return false;
  const auto* variable = sluice::vk::FindInChain<VkDescriptorSetVariableDescriptorCountAllocateInfo>(
      info.pNext, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_VARIABLE_DESCRIPTOR_COUNT_ALLOCATE_INFO);
  if (variable != nullptr && variable->descriptorSetCount != info.descriptorSetCount) variable = nullptr;
  DescriptorCounts needs;
  for (uint32_t i = 0; i < info.descriptorSetCount; i++) {
    const GuestSetLayout& layout = *State(info.pSetLayouts[i]);
    if (!layout.countable) return false;
    for (size_t t = 0; t < kDescriptorTypes; t++) needs.of[t] += layout.needs.of[t];
    if (layout.variable_type >= 0 && variable != nullptr) {
      needs.of[layout.variable_type] += variable->pDescriptorCounts[i];
    }
  }
  for (size_t t = 0; t < kDescriptorTypes; t++) {
    if (needs.of[t] > pool->left.of[t]) return false;
  }
  for (size_t t = 0; t < kDescriptorTypes; t++) pool->left.of[t] -= needs.of[t];
  pool->sets_left -= info.descriptorSetCount;
  return true;
}

void Refill(GuestDescriptorPool* pool) {
  pool->left = pool->size;
  pool->sets_left = pool->max_sets;
  pool->counted = true;
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorSetLayout(VkDevice device,
                                                           const VkDescriptorSetLayoutCreateInfo* pCreateInfo,
                                                           const VkAllocationCallbacks*,
                                                           VkDescriptorSetLayout* pSetLayout) {
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateDescriptorSetLayout(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestSetLayout;
  state->id = id;
  const auto* flags = sluice::vk::FindInChain<VkDescriptorSetLayoutBindingFlagsCreateInfo>(
      pCreateInfo->pNext, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO);
  for (uint32_t i = 0; i < pCreateInfo->bindingCount; i++) {
    const VkDescriptorSetLayoutBinding& binding = pCreateInfo->pBindings[i];
    if (!IsCounted(binding.descriptorType)) {
      state->countable = false;
    } else if (flags != nullptr && i < flags->bindingCount &&
               (flags->pBindingFlags[i] & VK_DESCRIPTOR_BINDING_VARIABLE_DESCRIPTOR_COUNT_BIT) != 0) {
      state->variable_type = static_cast<int32_t>(binding.descriptorType);
    } else {
      state->needs.of[binding.descriptorType] += binding.descriptorCount;
    }
  }
  *pSetLayout = FromState<VkDescriptorSetLayout>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorSetLayout(VkDevice device, VkDescriptorSetLayout descriptorSetLayout,
                                                        const VkAllocationCallbacks*) {
  if (descriptorSetLayout == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  Send_vkDestroyDescriptorSetLayout(lock.channel(), device, descriptorSetLayout);
  lock.channel().ids().Free(State(descriptorSetLayout)->id);
  delete State(descriptorSetLayout);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorPool(VkDevice device, const VkDescriptorPoolCreateInfo* pCreateInfo,
                                                      const VkAllocationCallbacks*, VkDescriptorPool* pDescriptorPool) {
  ChannelLock lock(device);
  const uint64_t id = lock.channel().ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateDescriptorPool(lock.channel(), device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  auto* state = new GuestDescriptorPool;
  state->id = id;
  state->max_sets = pCreateInfo->maxSets;
  for (uint32_t i = 0; i < pCreateInfo->poolSizeCount; i++) {
    const VkDescriptorPoolSize& size = pCreateInfo->pPoolSizes[i];
    if (IsCounted(size.type)) state->size.of[size.type] += size.descriptorCount;
  }
  Refill(state);
  *pDescriptorPool = FromState<VkDescriptorPool>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorPool(VkDevice device, VkDescriptorPool descriptorPool,
                                                   const VkAllocationCallbacks*) {
  if (descriptorPool == VK_NULL_HANDLE) return;
  ChannelLock lock(device);
  Send_vkDestroyDescriptorPool(lock.channel(), device, descriptorPool);
  FreeIds(lock.channel(), State(descriptorPool)->sets);
  lock.channel().ids().Free(State(descriptorPool)->id);
  delete State(descriptorPool);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetDescriptorPool(VkDevice device, VkDescriptorPool descriptorPool,
                                                     VkDescriptorPoolResetFlags flags) {
  ChannelLock lock(device);
  if (!Send_vkResetDescriptorPool(lock.channel(), device, descriptorPool, flags)) return VK_ERROR_DEVICE_LOST;
  GuestDescriptorPool* pool = State(descriptorPool);
  FreeIds(lock.channel(), pool->sets);
  pool->sets.Clear();
  Refill(pool);
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateDescriptorSets(VkDevice device,
                                                        const VkDescriptorSetAllocateInfo* pAllocateInfo,
                                                        VkDescriptorSet* pDescriptorSets) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  GuestDescriptorPool* pool = State(pAllocateInfo->descriptorPool);
  Buffer<uint64_t> ids;
  VkResult result = VK_SUCCESS;
  if (!NewIds(channel, pAllocateInfo->descriptorSetCount, &ids)) {
    ids.Clear();
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  } else if (TakeCounted(pool, *pAllocateInfo)) {
    if (!Send_vkAllocateDescriptorSets(channel, device, pAllocateInfo, ids.data(), ids.size())) {
      result = VK_ERROR_DEVICE_LOST;
    }
  } else {
    pool->counted = false;
    const auto* reply = Call_vkAllocateDescriptorSets(channel, device, pAllocateInfo, ids.data(), ids.size());
    result = reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
  }
  if (result < 0) FreeIds(channel, ids);
  for (uint32_t i = 0; i < pAllocateInfo->descriptorSetCount; i++) {
    pDescriptorSets[i] = result < 0 ? VK_NULL_HANDLE : FromId<VkDescriptorSet>(ids[i]);
    if (result >= 0) pool->sets.Push(ids[i]);
  }
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL vkFreeDescriptorSets(VkDevice device, VkDescriptorPool descriptorPool,
                                                    uint32_t descriptorSetCount,
                                                    const VkDescriptorSet* pDescriptorSets) {
  ChannelLock lock(device);
  if (!Send_vkFreeDescriptorSets(lock.channel(), device, descriptorPool, descriptorSetCount, pDescriptorSets))
    return VK_ERROR_DEVICE_LOST;
  GuestDescriptorPool* pool = State(descriptorPool);
  for (uint32_t i = 0; i < descriptorSetCount; i++) {
    if (pDescriptorSets[i] == VK_NULL_HANDLE) continue;
    RemoveFrom(&pool->sets, ToId(pDescriptorSets[i]));
    lock.channel().ids().Free(ToId(pDescriptorSets[i]));
    pool->counted = false;
  }
  if (pool->sets.empty()) Refill(pool);
  return VK_SUCCESS;
}

}  // extern "C"
