#include "icd/loader/private_data.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "flatbuf/vkgen/cast_raw.h"
#include "icd/loader/state.h"

namespace sluice::icd {
namespace {

template <typename Handle>
uint64_t IdKey(uint64_t handle) {
  return guest::ToId(vk::HandleCast<Handle>(handle));
}

// Addresses have no top bit, and ids reach it only after two thousand million reuses.
uint64_t AddressKey(uint64_t handle) {
  return handle | uint64_t{1} << 63;
}

}  // namespace

uint64_t PrivateKey(VkObjectType type, uint64_t handle) {
  switch (type) {
    case VK_OBJECT_TYPE_QUEUE:
      return IdKey<VkQueue>(handle);
    case VK_OBJECT_TYPE_COMMAND_BUFFER:
      return IdKey<VkCommandBuffer>(handle);
    case VK_OBJECT_TYPE_DEVICE_MEMORY:
      return IdKey<VkDeviceMemory>(handle);
    case VK_OBJECT_TYPE_COMMAND_POOL:
      return IdKey<VkCommandPool>(handle);
    case VK_OBJECT_TYPE_DESCRIPTOR_POOL:
      return IdKey<VkDescriptorPool>(handle);
    case VK_OBJECT_TYPE_SEMAPHORE:
      return IdKey<VkSemaphore>(handle);
    case VK_OBJECT_TYPE_EVENT:
      return IdKey<VkEvent>(handle);
    case VK_OBJECT_TYPE_QUERY_POOL:
      return IdKey<VkQueryPool>(handle);
    case VK_OBJECT_TYPE_BUFFER:
      return IdKey<VkBuffer>(handle);
    case VK_OBJECT_TYPE_IMAGE:
      return IdKey<VkImage>(handle);
    case VK_OBJECT_TYPE_BUFFER_VIEW:
      return IdKey<VkBufferView>(handle);
    case VK_OBJECT_TYPE_IMAGE_VIEW:
      return IdKey<VkImageView>(handle);
    case VK_OBJECT_TYPE_SHADER_MODULE:
      return IdKey<VkShaderModule>(handle);
    case VK_OBJECT_TYPE_PIPELINE_CACHE:
      return IdKey<VkPipelineCache>(handle);
    case VK_OBJECT_TYPE_PIPELINE_LAYOUT:
      return IdKey<VkPipelineLayout>(handle);
    case VK_OBJECT_TYPE_RENDER_PASS:
      return IdKey<VkRenderPass>(handle);
    case VK_OBJECT_TYPE_PIPELINE:
      return IdKey<VkPipeline>(handle);
    case VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT:
      return IdKey<VkDescriptorSetLayout>(handle);
    case VK_OBJECT_TYPE_SAMPLER:
      return IdKey<VkSampler>(handle);
    case VK_OBJECT_TYPE_DESCRIPTOR_SET:
      return IdKey<VkDescriptorSet>(handle);
    case VK_OBJECT_TYPE_FRAMEBUFFER:
      return IdKey<VkFramebuffer>(handle);
    default:
      // The device itself, and objects without an id: whoever destroys them forgets them (PrivateDataSlots::Forget).
      return AddressKey(handle);
  }
}

void PrivateDataSlot::Set(uint64_t object, uint64_t data) {
  std::lock_guard guard(lock_);
  if (data == 0) {
    data_.erase(object);
  } else {
    data_[object] = data;
  }
}

uint64_t PrivateDataSlot::Get(uint64_t object) {
  std::lock_guard guard(lock_);
  const auto it = data_.find(object);
  return it != data_.end() ? it->second : 0;
}

void PrivateDataSlots::Add(PrivateDataSlot* slot) {
  std::lock_guard guard(lock_);
  slots_.push_back(slot);
  any_.store(true, std::memory_order_relaxed);
}

void PrivateDataSlots::Remove(PrivateDataSlot* slot) {
  std::lock_guard guard(lock_);
  slots_.erase(std::remove(slots_.begin(), slots_.end(), slot), slots_.end());
  any_.store(!slots_.empty(), std::memory_order_relaxed);
}

void PrivateDataSlots::Forget(uint64_t handle) {
  if (!any_.load(std::memory_order_relaxed)) return;
  std::lock_guard guard(lock_);
  for (PrivateDataSlot* slot : slots_) slot->Set(AddressKey(handle), 0);
}

VKAPI_ATTR VkResult VKAPI_CALL CreatePrivateDataSlot(VkDevice device, const VkPrivateDataSlotCreateInfo*,
                                                     const VkAllocationCallbacks*, VkPrivateDataSlot* slot) {
  auto* made = new PrivateDataSlot;
  StateOf(device)->private_data.Add(made);
  *slot = static_cast<VkPrivateDataSlot>(static_cast<void*>(made));
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL DestroyPrivateDataSlot(VkDevice device, VkPrivateDataSlot slot,
                                                  const VkAllocationCallbacks*) {
  if (slot == VK_NULL_HANDLE) return;
  const std::unique_ptr<PrivateDataSlot> held(static_cast<PrivateDataSlot*>(static_cast<void*>(slot)));
  StateOf(device)->private_data.Remove(held.get());
}

VKAPI_ATTR VkResult VKAPI_CALL SetPrivateData(VkDevice, VkObjectType type, uint64_t handle, VkPrivateDataSlot slot,
                                              uint64_t data) {
  static_cast<PrivateDataSlot*>(static_cast<void*>(slot))->Set(PrivateKey(type, handle), data);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL GetPrivateData(VkDevice, VkObjectType type, uint64_t handle, VkPrivateDataSlot slot,
                                          uint64_t* data) {
  *data = static_cast<PrivateDataSlot*>(static_cast<void*>(slot))->Get(PrivateKey(type, handle));
}

VKAPI_ATTR void VKAPI_CALL DestroyFence(VkDevice device, VkFence fence, const VkAllocationCallbacks* allocator) {
  StateOf(device)->private_data.Forget(vk::HandleValue(fence));
  ::vkDestroyFence(device, fence, allocator);
}

}  // namespace sluice::icd
