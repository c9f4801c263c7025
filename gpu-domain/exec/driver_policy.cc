#include <algorithm>
#include <vector>

#include "flatbuf/vk/exec_dispatch.h"
#include "flatbuf/vk/extensions.h"
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
  if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  // Drivers offer no command beyond the version that the application names; the executor uses them all the same.
  VkApplicationInfo application{};
  if (info->pApplicationInfo != nullptr) application = *info->pApplicationInfo;
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo copy = *info;
  copy.pApplicationInfo = &application;
  return create(&copy, allocator, instance);
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
void DriverPolicy::vkGetPhysicalDeviceProperties2(Call& call, VkPhysicalDevice device,
                                                  VkPhysicalDeviceProperties2* out) {
  call.instance_vk->GetPhysicalDeviceProperties2(device, out);
  vkGetPhysicalDeviceProperties(call, device, &out->properties);
}
void DriverPolicy::vkGetPhysicalDeviceFeatures2(Call& call, VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  call.instance_vk->GetPhysicalDeviceFeatures2(device, out);
  VkPhysicalDeviceFeatures& f = out->features;
  f.sparseBinding = f.sparseResidencyBuffer = f.sparseResidencyImage2D = f.sparseResidencyImage3D = VK_FALSE;
  f.sparseResidency2Samples = f.sparseResidency4Samples = f.sparseResidency8Samples = VK_FALSE;
  f.sparseResidency16Samples = f.sparseResidencyAliased = VK_FALSE;
}
void DriverPolicy::vkGetPhysicalDeviceMemoryProperties2(Call& call, VkPhysicalDevice device,
                                                        VkPhysicalDeviceMemoryProperties2* out) {
  call.instance_vk->GetPhysicalDeviceMemoryProperties2(device, out);
  vkGetPhysicalDeviceMemoryProperties(call, device, &out->memoryProperties);
}
void DriverPolicy::vkGetPhysicalDeviceQueueFamilyProperties2(Call& call, VkPhysicalDevice device, uint32_t* count,
                                                             VkQueueFamilyProperties2* out) {
  call.instance_vk->GetPhysicalDeviceQueueFamilyProperties2(device, count, out);
  for (uint32_t i = 0; out != nullptr && i < *count; i++) {
    out[i].queueFamilyProperties.queueFlags &= ~static_cast<VkQueueFlags>(VK_QUEUE_SPARSE_BINDING_BIT);
  }
}
VkResult DriverPolicy::vkEnumerateDeviceExtensionProperties(Call& call, VkPhysicalDevice device, uint32_t* count,
                                                            VkExtensionProperties* out) {
  uint32_t all = 0;
  const auto enumerate = call.instance_vk->EnumerateDeviceExtensionProperties;
  if (const VkResult result = enumerate(device, nullptr, &all, nullptr); result < 0) return result;
  std::vector<VkExtensionProperties> have(all);
  if (const VkResult result = enumerate(device, nullptr, &all, have.data()); result < 0) return result;
  have.resize(std::min<size_t>(all, have.size()));
  std::erase_if(have, [](const VkExtensionProperties& e) {
    const vk::Extension* known = vk::FindExtension(e.extensionName);
    return known == nullptr || known->guest;
  });
  const auto crossing = static_cast<uint32_t>(have.size());
  const uint32_t given = out == nullptr ? crossing : std::min(*count, crossing);
  *count = given;
  if (out != nullptr) std::copy_n(have.begin(), given, out);
  return given < crossing ? VK_INCOMPLETE : VK_SUCCESS;
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
                                     uint32_t slot, uint64_t) {
  if (slot != kNoSlot) return VK_ERROR_FEATURE_NOT_PRESENT;
  return call.device_vk->QueueSubmit(queue, count, submits, VK_NULL_HANDLE);
}
VkResult DriverPolicy::vkQueueSubmit2(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits,
                                      uint32_t slot, uint64_t) {
  if (slot != kNoSlot) return VK_ERROR_FEATURE_NOT_PRESENT;
  return call.device_vk->QueueSubmit2(queue, count, submits, VK_NULL_HANDLE);
}
VkResult DriverPolicy::vkCreateSemaphore(Call& call, VkDevice device, const VkSemaphoreCreateInfo* info,
                                         const VkAllocationCallbacks* allocator, VkSemaphore* semaphore) {
  return call.device_vk->CreateSemaphore(device, info, allocator, semaphore);
}
void DriverPolicy::vkDestroySemaphore(Call& call, VkDevice device, VkSemaphore semaphore,
                                      const VkAllocationCallbacks* allocator) {
  call.device_vk->DestroySemaphore(device, semaphore, allocator);
}
VkResult DriverPolicy::vkSignalSemaphore(Call& call, VkDevice device, const VkSemaphoreSignalInfo* info) {
  return call.device_vk->SignalSemaphore(device, info);
}
VkResult DriverPolicy::vkDeviceWaitIdle(Call& call, VkDevice device) {
  return call.device_vk->DeviceWaitIdle(device);
}
VkResult DriverPolicy::vkAllocateMemory(Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* memory,
                                        uint32_t resource_id, uint64_t) {
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
