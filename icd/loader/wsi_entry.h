// File: wsi_entry.h
//
// Entry points of the window-system extensions, over icd/wsi. Each behaves as the Vulkan command of its name.
#ifndef SLUICE_ICD_LOADER_WSI_ENTRY_H_
#define SLUICE_ICD_LOADER_WSI_ENTRY_H_

#include <vulkan/vulkan_core.h>

#include "icd/loader/state.h"
#include "icd/wsi/wsi.h"

namespace sluice::icd {

// Gives the device what its swapchains need. False: a function is missing.
bool AttachWsi(VkDevice device, const VkDeviceCreateInfo& info, DeviceState* state);

VKAPI_ATTR VkResult VKAPI_CALL CreateHeadlessSurfaceEXT(VkInstance, const VkHeadlessSurfaceCreateInfoEXT* info,
                                                        const VkAllocationCallbacks*, VkSurfaceKHR* surface);
VKAPI_ATTR VkResult VKAPI_CALL CreateXcbSurfaceKHR(VkInstance, const VkXcbSurfaceCreateInfoKHR* info,
                                                   const VkAllocationCallbacks*, VkSurfaceKHR* surface);
VKAPI_ATTR VkResult VKAPI_CALL CreateXlibSurfaceKHR(VkInstance, const VkXlibSurfaceCreateInfoKHR* info,
                                                    const VkAllocationCallbacks*, VkSurfaceKHR* surface);
VKAPI_ATTR VkResult VKAPI_CALL CreateWaylandSurfaceKHR(VkInstance, const VkWaylandSurfaceCreateInfoKHR* info,
                                                       const VkAllocationCallbacks*, VkSurfaceKHR* surface);
VKAPI_ATTR void VKAPI_CALL DestroySurfaceKHR(VkInstance, VkSurfaceKHR surface, const VkAllocationCallbacks*);

VKAPI_ATTR VkBool32 VKAPI_CALL GetPhysicalDeviceXcbPresentationSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                          xcb_connection_t* connection,
                                                                          uint32_t visual_id);
VKAPI_ATTR VkBool32 VKAPI_CALL
GetPhysicalDeviceXlibPresentationSupportKHR(VkPhysicalDevice device, uint32_t family, _XDisplay* display,
                                            unsigned long visual_id);  // NOLINT(google-runtime-int): VisualID
VKAPI_ATTR VkBool32 VKAPI_CALL GetPhysicalDeviceWaylandPresentationSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                              wl_display* display);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                  VkSurfaceKHR surface, VkBool32* supported);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                       VkSurfaceCapabilitiesKHR* capabilities);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceCapabilities2KHR(VkPhysicalDevice device,
                                                                        const VkPhysicalDeviceSurfaceInfo2KHR* info,
                                                                        VkSurfaceCapabilities2KHR* capabilities);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceFormatsKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                  uint32_t* count, VkSurfaceFormatKHR* formats);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceFormats2KHR(VkPhysicalDevice device,
                                                                   const VkPhysicalDeviceSurfaceInfo2KHR* info,
                                                                   uint32_t* count, VkSurfaceFormat2KHR* formats);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfacePresentModesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                       uint32_t* count, VkPresentModeKHR* modes);
VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDevicePresentRectanglesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                     uint32_t* count, VkRect2D* rects);

VKAPI_ATTR VkResult VKAPI_CALL CreateSwapchainKHR(VkDevice device, const VkSwapchainCreateInfoKHR* info,
                                                  const VkAllocationCallbacks*, VkSwapchainKHR* swapchain);
VKAPI_ATTR void VKAPI_CALL DestroySwapchainKHR(VkDevice device, VkSwapchainKHR swapchain, const VkAllocationCallbacks*);
VKAPI_ATTR VkResult VKAPI_CALL GetSwapchainImagesKHR(VkDevice, VkSwapchainKHR swapchain, uint32_t* count,
                                                     VkImage* images);
VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImageKHR(VkDevice, VkSwapchainKHR swapchain, uint64_t timeout,
                                                   VkSemaphore semaphore, VkFence fence, uint32_t* index);
VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImage2KHR(VkDevice, const VkAcquireNextImageInfoKHR* info, uint32_t* index);
VKAPI_ATTR VkResult VKAPI_CALL CreateImage(VkDevice device, const VkImageCreateInfo* info,
                                           const VkAllocationCallbacks* allocator, VkImage* image);
VKAPI_ATTR VkResult VKAPI_CALL BindImageMemory2(VkDevice device, uint32_t count, const VkBindImageMemoryInfo* infos);
VKAPI_ATTR VkResult VKAPI_CALL QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR* info);
VKAPI_ATTR VkResult VKAPI_CALL GetDeviceGroupPresentCapabilitiesKHR(VkDevice,
                                                                    VkDeviceGroupPresentCapabilitiesKHR* capabilities);
VKAPI_ATTR VkResult VKAPI_CALL GetDeviceGroupSurfacePresentModesKHR(VkDevice, VkSurfaceKHR surface,
                                                                    VkDeviceGroupPresentModeFlagsKHR* modes);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_WSI_ENTRY_H_
