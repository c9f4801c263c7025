#include "icd/loader/sparse.h"

namespace sluice::icd {

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceSparseImageFormatProperties(VkPhysicalDevice, VkFormat, VkImageType,
                                                                        VkSampleCountFlagBits, VkImageUsageFlags,
                                                                        VkImageTiling, uint32_t* count,
                                                                        VkSparseImageFormatProperties*) {
  *count = 0;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceSparseImageFormatProperties2(VkPhysicalDevice,
                                                                         const VkPhysicalDeviceSparseImageFormatInfo2*,
                                                                         uint32_t* count,
                                                                         VkSparseImageFormatProperties2*) {
  *count = 0;
}

VKAPI_ATTR void VKAPI_CALL GetImageSparseMemoryRequirements(VkDevice, VkImage, uint32_t* count,
                                                            VkSparseImageMemoryRequirements*) {
  *count = 0;
}

VKAPI_ATTR void VKAPI_CALL GetImageSparseMemoryRequirements2(VkDevice, const VkImageSparseMemoryRequirementsInfo2*,
                                                             uint32_t* count, VkSparseImageMemoryRequirements2*) {
  *count = 0;
}

VKAPI_ATTR void VKAPI_CALL GetDeviceImageSparseMemoryRequirements(VkDevice, const VkDeviceImageMemoryRequirements*,
                                                                  uint32_t* count, VkSparseImageMemoryRequirements2*) {
  *count = 0;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue, uint32_t, const VkBindSparseInfo*, VkFence) {
  return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

}  // namespace sluice::icd
