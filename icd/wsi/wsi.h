// File: wsi.h
//
// Window systems for a Vulkan driver: surfaces, swapchains and presentation, in the program's own process, over any
// driver that fills the tables of functions.h. The functions below are the bodies of the entry points of
//   VK_KHR_surface, VK_KHR_get_surface_capabilities2, VK_EXT_headless_surface, VK_KHR_xcb_surface, VK_KHR_xlib_surface,
//   VK_KHR_wayland_surface, VK_KHR_swapchain (with its device-group commands), VK_KHR_swapchain_mutable_format,
//   VK_KHR_incremental_present
// Parameters and results are those of the Vulkan command of the same name unless a comment says more; where the
// specification requires valid usage, it is required here.
//
//   VkResult vkQueuePresentKHR(VkQueue queue, const VkPresentInfoKHR* info) {
//     return wsi::QueuePresent(*DeviceOf(queue).wsi, queue, FamilyOf(queue), *info);
//   }
//
// Handles: a VkSurfaceKHR or VkSwapchainKHR is a pointer to an object of this library. Memory comes from operator new;
// VkAllocationCallbacks are not used.
// Threads: as Vulkan's external-synchronization rules say, and no more. Each swapchain has one thread of its own, which
// calls WaitForFences and InvalidateMappedMemoryRanges of its own fences and memory and nothing else of the device.
// Errors: a window system that is gone, hangs up or answers nonsense ends in VK_ERROR_SURFACE_LOST_KHR.
#ifndef SLUICE_ICD_WSI_WSI_H_
#define SLUICE_ICD_WSI_WSI_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "icd/wsi/functions.h"

// Declared by vulkan_xcb.h, vulkan_xlib.h and vulkan_wayland.h, which need the window systems' own headers.
struct VkXcbSurfaceCreateInfoKHR;
struct VkXlibSurfaceCreateInfoKHR;
struct VkWaylandSurfaceCreateInfoKHR;
struct xcb_connection_t;
struct _XDisplay;
struct wl_display;

namespace sluice::wsi {

// What this library gives, as built (a build without a window system's headers lacks its surface). Static storage.
std::span<const VkExtensionProperties> InstanceExtensions();
std::span<const VkExtensionProperties> DeviceExtensions();

// ---- Surfaces: instance level -------------------------------------------------------------------------------------

// VK_ERROR_EXTENSION_NOT_PRESENT where the build lacks the window system, VK_ERROR_INITIALIZATION_FAILED where the
// machine lacks its client library.
VkResult CreateHeadlessSurface(const VkHeadlessSurfaceCreateInfoEXT& info, VkSurfaceKHR* surface);
VkResult CreateXcbSurface(const VkXcbSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface);
VkResult CreateXlibSurface(const VkXlibSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface);
VkResult CreateWaylandSurface(const VkWaylandSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface);
void DestroySurface(VkSurfaceKHR surface);

// ---- Surfaces: what a physical device can do with them ------------------------------------------------------------

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  const InstanceFunctions* vk = nullptr;  // outlives the object
};

VkBool32 GetXcbPresentationSupport(const PhysicalDevice& device, uint32_t family, xcb_connection_t* connection,
                                   uint32_t visual_id);
VkBool32 GetXlibPresentationSupport(const PhysicalDevice& device, uint32_t family, _XDisplay* display,
                                    unsigned long visual_id);  // NOLINT(google-runtime-int): VisualID
VkBool32 GetWaylandPresentationSupport(const PhysicalDevice& device, uint32_t family, wl_display* display);

VkResult GetSurfaceSupport(const PhysicalDevice& device, uint32_t family, VkSurfaceKHR surface, VkBool32* supported);
VkResult GetSurfaceCapabilities(const PhysicalDevice& device, VkSurfaceKHR surface, VkSurfaceCapabilitiesKHR* result);
VkResult GetSurfaceCapabilities2(const PhysicalDevice& device, const VkPhysicalDeviceSurfaceInfo2KHR& info,
                                 VkSurfaceCapabilities2KHR* result);
VkResult GetSurfaceFormats(const PhysicalDevice& device, VkSurfaceKHR surface, uint32_t* count,
                           VkSurfaceFormatKHR* formats);
VkResult GetSurfaceFormats2(const PhysicalDevice& device, const VkPhysicalDeviceSurfaceInfo2KHR& info, uint32_t* count,
                            VkSurfaceFormat2KHR* formats);
VkResult GetSurfacePresentModes(const PhysicalDevice& device, VkSurfaceKHR surface, uint32_t* count,
                                VkPresentModeKHR* modes);
VkResult GetPresentRectangles(const PhysicalDevice& device, VkSurfaceKHR surface, uint32_t* count, VkRect2D* rects);

// ---- Device level -------------------------------------------------------------------------------------------------

struct DeviceDescription {
  VkDevice handle = VK_NULL_HANDLE;
  PhysicalDevice physical;
  DeviceFunctions vk;
  VkPhysicalDeviceMemoryProperties memory = {};
  // Signals `semaphore` (binary, unsignaled, no operation pending) and `fence` (unsignaled, not in use) as a queue
  // would that has nothing else to do; either may be VK_NULL_HANDLE. Called on the thread that acquires an image, when
  // the image is free and no GPU work on it is left, so both may become signaled at once. Several threads may call at
  // once. Errors are those of vkQueueSubmit. SignalThroughQueue() makes one for any driver.
  std::function<VkResult(VkSemaphore semaphore, VkFence fence)> signal_now;
};

// What WSI keeps for a VkDevice. Create it with the device, destroy it before; it outlives its swapchains.
class Device {
 public:
  explicit Device(DeviceDescription description) : d_(std::move(description)) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  VkDevice handle() const { return d_.handle; }
  const PhysicalDevice& physical() const { return d_.physical; }
  const DeviceFunctions& vk() const { return d_.vk; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return d_.memory; }
  VkResult SignalNow(VkSemaphore semaphore, VkFence fence) { return d_.signal_now(semaphore, fence); }

 private:
  DeviceDescription d_;
};

// A signal_now that submits an empty batch to `queue`, which the caller synchronizes externally against this too.
std::function<VkResult(VkSemaphore, VkFence)> SignalThroughQueue(const DeviceFunctions& vk, VkQueue queue);

VkResult CreateSwapchain(Device& device, const VkSwapchainCreateInfoKHR& info, VkSwapchainKHR* swapchain);
// Shows the newest frame that is still queued, then frees everything. VK_NULL_HANDLE is ignored.
void DestroySwapchain(VkSwapchainKHR swapchain);
VkResult GetSwapchainImages(VkSwapchainKHR swapchain, uint32_t* count, VkImage* images);
// vkAcquireNextImageKHR is this with a device mask of 1.
VkResult AcquireNextImage2(const VkAcquireNextImageInfoKHR& info, uint32_t* index);
// `family`: the queue family of `queue`. Submits to `queue` (QueueSubmit, once per swapchain).
VkResult QueuePresent(Device& device, VkQueue queue, uint32_t family, const VkPresentInfoKHR& info);

// For vkCreateImage with VkImageSwapchainCreateInfoKHR: completes flags and usage, so that the image can alias one of
// the swapchain's. The driver must not see the structure in the chain.
void CompleteAlias(VkSwapchainKHR swapchain, VkImageCreateInfo* info);
// For vkBindImageMemory2 with VkBindImageMemorySwapchainInfoKHR: the memory to bind instead, at offset 0. It belongs to
// the swapchain. VK_NULL_HANDLE: no such image.
VkDeviceMemory ImageMemory(VkSwapchainKHR swapchain, uint32_t index);

VkResult GetDeviceGroupPresentCapabilities(VkDeviceGroupPresentCapabilitiesKHR* capabilities);
VkResult GetDeviceGroupSurfacePresentModes(VkSurfaceKHR surface, VkDeviceGroupPresentModeFlagsKHR* modes);

// ---- Tests --------------------------------------------------------------------------------------------------------

struct HeadlessFrame {
  const uint8_t* pixels = nullptr;  // 4 bytes each, rows without gaps; valid during the call
  uint32_t width = 0, height = 0;
  VkFormat format = VK_FORMAT_UNDEFINED;
};
// Gets each frame that the headless surface shows, on the swapchain's thread; while it runs, no other frame is shown.
// Set before the first swapchain is created.
void SetHeadlessSink(VkSurfaceKHR surface, std::function<void(const HeadlessFrame&)> sink);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_WSI_H_
