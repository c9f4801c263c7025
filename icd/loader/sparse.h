// File: sparse.h
//
// Sparse memory does not cross the wire: no device has the features and no queue the flag. The commands exist all the
// same, as they do in every driver without sparse memory.
#ifndef SLUICE_ICD_LOADER_SPARSE_H_
#define SLUICE_ICD_LOADER_SPARSE_H_

#include <vulkan/vulkan_core.h>

namespace sluice::icd {

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceSparseImageFormatProperties(VkPhysicalDevice, VkFormat, VkImageType,
                                                                        VkSampleCountFlagBits, VkImageUsageFlags,
                                                                        VkImageTiling, uint32_t* count,
                                                                        VkSparseImageFormatProperties*);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceSparseImageFormatProperties2(VkPhysicalDevice,
                                                                         const VkPhysicalDeviceSparseImageFormatInfo2*,
                                                                         uint32_t* count,
                                                                         VkSparseImageFormatProperties2*);
VKAPI_ATTR void VKAPI_CALL GetImageSparseMemoryRequirements(VkDevice, VkImage, uint32_t* count,
                                                            VkSparseImageMemoryRequirements*);
VKAPI_ATTR void VKAPI_CALL GetImageSparseMemoryRequirements2(VkDevice, const VkImageSparseMemoryRequirementsInfo2*,
                                                             uint32_t* count, VkSparseImageMemoryRequirements2*);
VKAPI_ATTR void VKAPI_CALL GetDeviceImageSparseMemoryRequirements(VkDevice, const VkDeviceImageMemoryRequirements*,
                                                                  uint32_t* count, VkSparseImageMemoryRequirements2*);
// No queue may be given to it.
VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue, uint32_t, const VkBindSparseInfo*, VkFence);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_SPARSE_H_
