// File: image.h
//
// One image of a swapchain, and the host-visible buffer through which its pixels come out. Private to this directory.
#ifndef SLUICE_ICD_WSI_IMAGE_H_
#define SLUICE_ICD_WSI_IMAGE_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <span>
#include <vector>

#include "icd/wsi/wsi.h"

namespace sluice::wsi {

// Flags with which the images of a swapchain are created.
VkImageCreateFlags ImageFlags(VkSwapchainCreateFlagsKHR flags);

// Thread-compatible: its owner says whose turn it is.
class SwapchainImage {
 public:
  explicit SwapchainImage(Device& device) : device_(device) {}
  SwapchainImage(const SwapchainImage&) = delete;
  SwapchainImage& operator=(const SwapchainImage&) = delete;
  ~SwapchainImage();

  // Call once. After an error only the destructor may be called.
  VkResult Init(const VkSwapchainCreateInfoKHR& info);

  VkImage image() const { return image_; }
  VkDeviceMemory memory() const { return memory_; }

  // Submits the copy of the image, which is in VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, into the buffer. `pool`: of the family
  // of `queue`.
  VkResult SubmitCopy(VkQueue queue, uint32_t family, VkCommandPool pool, std::span<const VkSemaphore> waits);
  // Waits for it.
  VkResult WaitCopy(uint64_t timeout_ns);
  // What was copied: rows without gaps.
  const uint8_t* pixels() const { return pixels_; }

 private:
  struct Recorded {
    uint32_t family;
    VkCommandBuffer commands;
  };

  VkResult InitImage(const VkSwapchainCreateInfoKHR& info);
  VkResult InitBuffer();
  VkResult Record(VkCommandPool pool, VkCommandBuffer* commands);

  Device& device_;
  VkExtent2D extent_ = {};
  VkImage image_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory buffer_memory_ = VK_NULL_HANDLE;
  bool coherent_ = true;
  const uint8_t* pixels_ = nullptr;
  VkFence fence_ = VK_NULL_HANDLE;
  std::vector<Recorded> recorded_;  // freed with their pools
};

// Waits for `waits` on the queue, for presents that show nothing.
VkResult SubmitWaits(const Device& device, VkQueue queue, std::span<const VkSemaphore> waits);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_IMAGE_H_
