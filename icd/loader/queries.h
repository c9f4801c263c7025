// File: queries.h
//
// Questions about instances and physical devices that the driver answers alone.
#ifndef SLUICE_ICD_LOADER_QUERIES_H_
#define SLUICE_ICD_LOADER_QUERIES_H_

#include <vulkan/vulkan_core.h>

namespace sluice::icd {

// Every device is a group of its own.
VKAPI_ATTR VkResult VKAPI_CALL EnumeratePhysicalDeviceGroups(VkInstance instance, uint32_t* count,
                                                             VkPhysicalDeviceGroupProperties* groups);
// Memory, fences and semaphores of other processes cannot cross: nothing is supported for any handle type.
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalBufferProperties(VkPhysicalDevice,
                                                                     const VkPhysicalDeviceExternalBufferInfo*,
                                                                     VkExternalBufferProperties* properties);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalFenceProperties(VkPhysicalDevice,
                                                                    const VkPhysicalDeviceExternalFenceInfo*,
                                                                    VkExternalFenceProperties* properties);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalSemaphoreProperties(VkPhysicalDevice,
                                                                        const VkPhysicalDeviceExternalSemaphoreInfo*,
                                                                        VkExternalSemaphoreProperties* properties);
// No tool is in the driver; layers add theirs.
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceToolProperties(VkPhysicalDevice, uint32_t* count,
                                                               VkPhysicalDeviceToolProperties*);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_QUERIES_H_
