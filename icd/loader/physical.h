// File: physical.h
//
// Entry points that ask what a physical device is and can do. Its properties, features, memory, queues and extensions
// are fetched together when the first of them is asked for, and answered from memory from then on; formats and image
// formats are asked for once each. Each function behaves as the Vulkan command of its name.
#ifndef SLUICE_ICD_LOADER_PHYSICAL_H_
#define SLUICE_ICD_LOADER_PHYSICAL_H_

#include <vulkan/vulkan_core.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "icd/loader/blocks.h"
#include "icd/transport/futex.h"

namespace sluice::icd {

// What is known of one physical device. Any thread.
class PhysicalState {
 public:
  explicit PhysicalState(VkPhysicalDevice device) : device_(device) {}

  struct Facts {
    Blocks properties, features, memory;
    std::vector<VkQueueFamilyProperties2> queues;
    std::vector<VkExtensionProperties> extensions;  // that cross, and own ones
  };
  // Of a lost device: zeros.
  const Facts& facts();

  void Format(VkFormat format, VkFormatProperties2* out);
  VkResult ImageFormat(const VkPhysicalDeviceImageFormatInfo2& info, VkImageFormatProperties2* out);

 private:
  struct ImageAnswer {
    VkResult result = VK_SUCCESS;
    Blocks blocks;
  };
  // format, type, tiling, usage, flags, stencil usage
  using ImageKey = std::array<uint32_t, 6>;

  const VkPhysicalDevice device_;
  FutexLock lock_;
  std::atomic<const Facts*> loaded_{nullptr};
  std::unique_ptr<const Facts> facts_;
  std::unordered_map<uint32_t, Blocks> formats_;
  std::map<ImageKey, ImageAnswer> images_;
};

// Gives the physical devices of the instance their state; takes it back.
void AttachPhysical(VkInstance instance);
void DetachPhysical(VkInstance instance);
PhysicalState& PhysicalOf(VkPhysicalDevice device);

VKAPI_ATTR VkResult VKAPI_CALL EnumeratePhysicalDevices(VkInstance instance, uint32_t* count,
                                                        VkPhysicalDevice* devices);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures(VkPhysicalDevice device, VkPhysicalDeviceFeatures* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                                             VkPhysicalDeviceMemoryProperties* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                              VkPhysicalDeviceMemoryProperties2* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t* count,
                                                                  VkQueueFamilyProperties* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice device, uint32_t* count,
                                                                   VkQueueFamilyProperties2* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFormatProperties(VkPhysicalDevice device, VkFormat format,
                                                             VkFormatProperties* out);
VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFormatProperties2(VkPhysicalDevice device, VkFormat format,
                                                              VkFormatProperties2* out);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceImageFormatProperties(VkPhysicalDevice device, VkFormat format,
                                                                      VkImageType type, VkImageTiling tiling,
                                                                      VkImageUsageFlags usage, VkImageCreateFlags flags,
                                                                      VkImageFormatProperties* out);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceImageFormatProperties2(VkPhysicalDevice device,
                                                                       const VkPhysicalDeviceImageFormatInfo2* info,
                                                                       VkImageFormatProperties2* out);
VKAPI_ATTR VkResult VKAPI_CALL EnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char* layer,
                                                                  uint32_t* count, VkExtensionProperties* properties);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_PHYSICAL_H_
