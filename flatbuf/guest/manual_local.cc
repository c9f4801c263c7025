// What the guest answers by itself: there are no sparse resources, no external handles, no device groups of more than
// one device, and no tools of the worker's that a program would care about.
#include "flatbuf/guest/entry.h"

using namespace sluice::guest;

extern "C" {

// ---- device groups: one for each physical device
VKAPI_ATTR VkResult VKAPI_CALL
vkEnumeratePhysicalDeviceGroups(VkInstance instance, uint32_t* pPhysicalDeviceGroupCount,
                                VkPhysicalDeviceGroupProperties* pPhysicalDeviceGroupProperties) {
  uint32_t have = 0;
  if (const VkResult result = vkEnumeratePhysicalDevices(instance, &have, nullptr); result < 0) return result;
  if (pPhysicalDeviceGroupProperties == nullptr) {
    *pPhysicalDeviceGroupCount = have;
    return VK_SUCCESS;
  }
  const uint32_t given = *pPhysicalDeviceGroupCount < have ? *pPhysicalDeviceGroupCount : have;
  Buffer<VkPhysicalDevice> devices;
  devices.Resize(given, VK_NULL_HANDLE);
  uint32_t count = given;
  if (const VkResult result = vkEnumeratePhysicalDevices(instance, &count, devices.data()); result < 0) return result;
  for (uint32_t i = 0; i < given; i++) {
    VkPhysicalDeviceGroupProperties& group = pPhysicalDeviceGroupProperties[i];
    group.physicalDeviceCount = 1;
    group.physicalDevices[0] = devices[i];
    group.subsetAllocation = VK_FALSE;
  }
  *pPhysicalDeviceGroupCount = given;
  return given < have ? VK_INCOMPLETE : VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkGetDeviceGroupPeerMemoryFeatures(VkDevice, uint32_t, uint32_t, uint32_t,
                                                              VkPeerMemoryFeatureFlags* pPeerMemoryFeatures) {
  *pPeerMemoryFeatures = VK_PEER_MEMORY_FEATURE_COPY_SRC_BIT | VK_PEER_MEMORY_FEATURE_COPY_DST_BIT |
                         VK_PEER_MEMORY_FEATURE_GENERIC_SRC_BIT | VK_PEER_MEMORY_FEATURE_GENERIC_DST_BIT;
}

// No protected queues: the flags are 0.
VKAPI_ATTR void VKAPI_CALL vkGetDeviceQueue2(VkDevice device, const VkDeviceQueueInfo2* pQueueInfo, VkQueue* pQueue) {
  *pQueue = VK_NULL_HANDLE;
  if (pQueueInfo->flags == 0) vkGetDeviceQueue(device, pQueueInfo->queueFamilyIndex, pQueueInfo->queueIndex, pQueue);
}

// ---- external handles: none can be exported or imported
VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceExternalBufferProperties(VkPhysicalDevice,
                                                                       const VkPhysicalDeviceExternalBufferInfo*,
                                                                       VkExternalBufferProperties* pProperties) {
  pProperties->externalMemoryProperties = {};
}
VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceExternalFenceProperties(VkPhysicalDevice,
                                                                      const VkPhysicalDeviceExternalFenceInfo*,
                                                                      VkExternalFenceProperties* pProperties) {
  pProperties->exportFromImportedHandleTypes = 0;
  pProperties->compatibleHandleTypes = 0;
  pProperties->externalFenceFeatures = 0;
}
VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceExternalSemaphoreProperties(VkPhysicalDevice,
                                                                          const VkPhysicalDeviceExternalSemaphoreInfo*,
                                                                          VkExternalSemaphoreProperties* pProperties) {
  pProperties->exportFromImportedHandleTypes = 0;
  pProperties->compatibleHandleTypes = 0;
  pProperties->externalSemaphoreFeatures = 0;
}

// ---- tools
VKAPI_ATTR VkResult VKAPI_CALL vkGetPhysicalDeviceToolProperties(VkPhysicalDevice, uint32_t* pToolCount,
                                                                 VkPhysicalDeviceToolProperties*) {
  *pToolCount = 0;
  return VK_SUCCESS;
}

// ---- sparse resources
VKAPI_ATTR void VKAPI_CALL vkGetImageSparseMemoryRequirements(VkDevice, VkImage, uint32_t* pCount,
                                                              VkSparseImageMemoryRequirements*) {
  *pCount = 0;
}
VKAPI_ATTR void VKAPI_CALL vkGetImageSparseMemoryRequirements2(VkDevice, const VkImageSparseMemoryRequirementsInfo2*,
                                                               uint32_t* pCount, VkSparseImageMemoryRequirements2*) {
  *pCount = 0;
}
VKAPI_ATTR void VKAPI_CALL vkGetDeviceImageSparseMemoryRequirements(VkDevice, const VkDeviceImageMemoryRequirements*,
                                                                    uint32_t* pCount,
                                                                    VkSparseImageMemoryRequirements2*) {
  *pCount = 0;
}
VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceSparseImageFormatProperties(VkPhysicalDevice, VkFormat, VkImageType,
                                                                          VkSampleCountFlagBits, VkImageUsageFlags,
                                                                          VkImageTiling, uint32_t* pCount,
                                                                          VkSparseImageFormatProperties*) {
  *pCount = 0;
}
VKAPI_ATTR void VKAPI_CALL
vkGetPhysicalDeviceSparseImageFormatProperties2(VkPhysicalDevice, const VkPhysicalDeviceSparseImageFormatInfo2*,
                                                uint32_t* pCount, VkSparseImageFormatProperties2*) {
  *pCount = 0;
}
// No queue family says VK_QUEUE_SPARSE_BINDING_BIT.
VKAPI_ATTR VkResult VKAPI_CALL vkQueueBindSparse(VkQueue, uint32_t, const VkBindSparseInfo*, VkFence) {
  return VK_ERROR_FEATURE_NOT_PRESENT;
}

}  // extern "C"
