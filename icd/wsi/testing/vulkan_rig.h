// File: vulkan_rig.h
//
// A Vulkan program for tests of the window-system code, on whatever driver the loader finds (the software one, if there
// are several), under the validation layer where it is installed: its complaints are counted.
//
//   std::unique_ptr<VulkanRig> rig = VulkanRig::Create(&why);
//   VkSwapchainKHR swapchain = rig->MakeSwapchain({.surface = surface, .extent = {64, 48}});
//   EXPECT_EQ(rig->PresentFrame(swapchain, 7), VK_SUCCESS);      // shows PatternPixel(7, x, y)
#ifndef SLUICE_ICD_WSI_TESTING_VULKAN_RIG_H_
#define SLUICE_ICD_WSI_TESTING_VULKAN_RIG_H_

#include <vulkan/vulkan_core.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "icd/wsi/wsi.h"
#include "vmm/base/mutex.h"

namespace sluice::wsi::testing {

// What frame `frame` shows at a place: 0xAARRGGBB, another one for each place and frame, alpha never 255.
uint32_t PatternPixel(uint32_t frame, uint32_t x, uint32_t y);

struct SwapchainRequest {
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  VkExtent2D extent = {64, 48};
  VkPresentModeKHR mode = VK_PRESENT_MODE_FIFO_KHR;
  VkFormat format = VK_FORMAT_B8G8R8A8_UNORM;
  uint32_t images = 3;
  VkSwapchainKHR old = VK_NULL_HANDLE;
  VkCompositeAlphaFlagBitsKHR alpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
  VkSwapchainCreateFlagsKHR flags = 0;
  const void* next = nullptr;
};

class VulkanRig {
 public:
  // Null, and why: there is no usable driver.
  static std::unique_ptr<VulkanRig> Create(std::string* why);
  ~VulkanRig();

  VkInstance instance() const { return instance_; }
  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }
  uint32_t family() const { return family_; }
  PhysicalDevice physical() const { return {physical_, &instance_functions_}; }
  Device& wsi() { return *wsi_; }
  bool validated() const { return validated_; }
  uint32_t complaints() const { return complaints_.load(); }

  // Result of CreateSwapchain; the swapchain is destroyed by DestroySwapchain or with the rig.
  VkResult TryMakeSwapchain(const SwapchainRequest& request, VkSwapchainKHR* swapchain);
  // As above, for those that succeed (the process ends else).
  VkSwapchainKHR MakeSwapchain(const SwapchainRequest& request);
  void DestroySwapchain(VkSwapchainKHR swapchain);

  VkResult Acquire(VkSwapchainKHR swapchain, uint64_t timeout_ns, uint32_t* index);
  // Fills an acquired image with the pattern of `frame`.
  void Render(VkSwapchainKHR swapchain, uint32_t index, uint32_t frame);
  // Presents rendered images, one per swapchain, in one call.
  VkResult Present(const std::vector<VkSwapchainKHR>& swapchains, const std::vector<uint32_t>& indices,
                   std::vector<VkResult>* results = nullptr, const void* next = nullptr);
  // Acquire (for ever), Render, Present; the first result that is not VK_SUCCESS, or VK_SUCCESS.
  VkResult PresentFrame(VkSwapchainKHR swapchain, uint32_t frame);
  // Fills any image of that size and format, which becomes VK_IMAGE_LAYOUT_PRESENT_SRC_KHR.
  void FillImage(VkImage image, VkExtent2D extent, VkFormat format, uint32_t frame, VkSemaphore wait,
                 VkSemaphore signal);

 private:
  struct Made {
    VkExtent2D extent;
    VkFormat format;
    std::vector<VkImage> images;
    VkSemaphore acquired = VK_NULL_HANDLE;
    VkSemaphore rendered = VK_NULL_HANDLE;
    bool acquired_signaled = false;
  };

  VulkanRig() = default;
  bool Init(std::string* why);
  bool InitInstance(std::string* why);
  bool InitDevice(std::string* why);
  VkSemaphore NewSemaphore();
  // A host-visible buffer of at least `bytes`, mapped.
  void NeedStaging(VkDeviceSize bytes);

  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool validated_ = false;
  std::atomic<uint32_t> complaints_ = 0;
  InstanceFunctions instance_functions_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  uint32_t family_ = 0;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  Mutex queue_mu_;  // external synchronization of queue_
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  VkBuffer staging_ = VK_NULL_HANDLE;
  VkDeviceMemory staging_memory_ = VK_NULL_HANDLE;
  VkDeviceSize staging_bytes_ = 0;
  uint8_t* staging_pixels_ = nullptr;
  std::unique_ptr<Device> wsi_;
  std::map<VkSwapchainKHR, Made> made_;
};

}  // namespace sluice::wsi::testing

#endif  // SLUICE_ICD_WSI_TESTING_VULKAN_RIG_H_
