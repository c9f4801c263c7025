#include "flatbuf/vk/exec_dispatch.h"
#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/policy.h"

namespace sluice::exec {
namespace {

PFN_vkVoidFunction NoDriver(VkInstance, const char*) {
  return nullptr;
}

}  // namespace

PFN_vkGetInstanceProcAddr DriverPolicy::GetInstanceProcAddr() {
  const PFN_vkGetInstanceProcAddr get = LoadVulkan();
  return get == nullptr ? NoDriver : get;
}

VkResult DriverPolicy::vkCreateInstance(Call&, const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                        VkInstance* instance) {
  const auto create = vk::FunctionCast<PFN_vkCreateInstance>(GetInstanceProcAddr()(VK_NULL_HANDLE, "vkCreateInstance"));
  return create == nullptr ? VK_ERROR_INITIALIZATION_FAILED : create(info, allocator, instance);
}
void DriverPolicy::vkDestroyInstance(Call& call, VkInstance instance, const VkAllocationCallbacks* allocator) {
  call.instance_vk->DestroyInstance(instance, allocator);
}
VkResult DriverPolicy::vkEnumeratePhysicalDevices(Call& call, VkInstance instance, uint32_t* count,
                                                  VkPhysicalDevice* devices) {
  return call.instance_vk->EnumeratePhysicalDevices(instance, count, devices);
}
void DriverPolicy::vkGetPhysicalDeviceProperties(Call& call, VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
  call.instance_vk->GetPhysicalDeviceProperties(device, out);
}
void DriverPolicy::vkGetPhysicalDeviceMemoryProperties(Call& call, VkPhysicalDevice device,
                                                       VkPhysicalDeviceMemoryProperties* out) {
  call.instance_vk->GetPhysicalDeviceMemoryProperties(device, out);
  for (uint32_t i = 0; i < out->memoryTypeCount; i++) {
    VkMemoryPropertyFlags& flags = out->memoryTypes[i].propertyFlags;
    if ((flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) == 0) {
      flags &=
          ~static_cast<VkMemoryPropertyFlags>(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    }
  }
}
VkResult DriverPolicy::vkCreateDevice(Call& call, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkDevice* device) {
  return call.instance_vk->CreateDevice(physical, info, allocator, device);
}
void DriverPolicy::vkDestroyDevice(Call& call, VkDevice device, const VkAllocationCallbacks* allocator) {
  call.device_vk->DestroyDevice(device, allocator);
}
void DriverPolicy::vkGetDeviceQueue(Call& call, VkDevice device, uint32_t family, uint32_t index, VkQueue* queue,
                                    uint8_t) {
  call.device_vk->GetDeviceQueue(device, family, index, queue);
}
VkResult DriverPolicy::vkQueueSubmit(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                     uint32_t fence_slot, uint64_t) {
  if (fence_slot != kNoFenceSlot) return VK_ERROR_FEATURE_NOT_PRESENT;
  return call.device_vk->QueueSubmit(queue, count, submits, VK_NULL_HANDLE);
}
VkResult DriverPolicy::vkQueueWaitIdle(Call& call, VkQueue queue) {
  return call.device_vk->QueueWaitIdle(queue);
}
VkResult DriverPolicy::vkDeviceWaitIdle(Call& call, VkDevice device) {
  return call.device_vk->DeviceWaitIdle(device);
}
VkResult DriverPolicy::vkAllocateMemory(Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* memory,
                                        uint32_t resource_id) {
  if (resource_id != 0) return VK_ERROR_FEATURE_NOT_PRESENT;
  return call.device_vk->AllocateMemory(device, info, allocator, memory);
}
void DriverPolicy::vkFreeMemory(Call& call, VkDevice device, VkDeviceMemory memory,
                                const VkAllocationCallbacks* allocator) {
  call.device_vk->FreeMemory(device, memory, allocator);
}
VkResult DriverPolicy::vkCreateBuffer(Call& call, VkDevice device, const VkBufferCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  return call.device_vk->CreateBuffer(device, info, allocator, buffer);
}
VkResult DriverPolicy::vkCreateImage(Call& call, VkDevice device, const VkImageCreateInfo* info,
                                     const VkAllocationCallbacks* allocator, VkImage* image) {
  return call.device_vk->CreateImage(device, info, allocator, image);
}

}  // namespace sluice::exec
