#include "icd/loader/queries.h"

#include <algorithm>
#include <vector>

namespace sluice::icd {

VKAPI_ATTR VkResult VKAPI_CALL EnumeratePhysicalDeviceGroups(VkInstance instance, uint32_t* count,
                                                             VkPhysicalDeviceGroupProperties* groups) {
  uint32_t have = 0;
  VkResult result = ::vkEnumeratePhysicalDevices(instance, &have, nullptr);
  if (result != VK_SUCCESS) return result;
  if (groups == nullptr) {
    *count = have;
    return VK_SUCCESS;
  }
  std::vector<VkPhysicalDevice> devices(have);
  result = ::vkEnumeratePhysicalDevices(instance, &have, devices.data());
  if (result != VK_SUCCESS) return result;
  *count = std::min(*count, have);
  for (uint32_t i = 0; i < *count; i++) {
    groups[i].physicalDeviceCount = 1;
    std::fill(std::begin(groups[i].physicalDevices), std::end(groups[i].physicalDevices), VkPhysicalDevice{});
    groups[i].physicalDevices[0] = devices[i];
    groups[i].subsetAllocation = VK_FALSE;
  }
  return *count < have ? VK_INCOMPLETE : VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalBufferProperties(VkPhysicalDevice,
                                                                     const VkPhysicalDeviceExternalBufferInfo*,
                                                                     VkExternalBufferProperties* properties) {
  properties->externalMemoryProperties = {};
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalFenceProperties(VkPhysicalDevice,
                                                                    const VkPhysicalDeviceExternalFenceInfo*,
                                                                    VkExternalFenceProperties* properties) {
  properties->exportFromImportedHandleTypes = 0;
  properties->compatibleHandleTypes = 0;
  properties->externalFenceFeatures = 0;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceExternalSemaphoreProperties(VkPhysicalDevice,
                                                                        const VkPhysicalDeviceExternalSemaphoreInfo*,
                                                                        VkExternalSemaphoreProperties* properties) {
  properties->exportFromImportedHandleTypes = 0;
  properties->compatibleHandleTypes = 0;
  properties->externalSemaphoreFeatures = 0;
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceToolProperties(VkPhysicalDevice, uint32_t* count,
                                                               VkPhysicalDeviceToolProperties*) {
  *count = 0;
  return VK_SUCCESS;
}

}  // namespace sluice::icd
