// File: instance.h
//
// Entry points for instances and devices: what the driver answers itself, and what it checks before
// the runtime (flatbuf/guest) sends it on. Each behaves as the Vulkan command of its name.
#ifndef SLUICE_ICD_LOADER_INSTANCE_H_
#define SLUICE_ICD_LOADER_INSTANCE_H_

#include <vulkan/vulkan_core.h>

namespace sluice::icd {

VKAPI_ATTR VkResult VKAPI_CALL EnumerateInstanceExtensionProperties(const char* layer, uint32_t* count,
                                                                    VkExtensionProperties* properties);
VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                              VkInstance* instance);
VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance instance, const VkAllocationCallbacks* allocator);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name);

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* device);
VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* allocator);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_INSTANCE_H_
