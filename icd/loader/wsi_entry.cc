#include "icd/loader/wsi_entry.h"

#include <memory>
#include <utility>
#include <vector>

#include "icd/loader/instance.h"
#include "icd/loader/physical.h"

namespace sluice::icd {
namespace {

wsi::PhysicalDevice Physical(VkPhysicalDevice device) {
  return {device, &StateOf(device)->wsi};
}

// A structure of a chain. Null: it is not there.
template <typename T>
const T* Chained(const void* next, VkStructureType type) {
  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    const void* found = s;
    if (s->sType == type) return static_cast<const T*>(found);
  }
  return nullptr;
}

}  // namespace

bool AttachWsi(VkDevice device, const VkDeviceCreateInfo& info, DeviceState* state) {
  wsi::DeviceDescription description;
  description.handle = device;
  description.physical = Physical(guest::FromState<VkPhysicalDevice>(guest::State(device)->physical));
  if (!wsi::LoadDeviceFunctions(device, GetDeviceProcAddr, &description.vk)) return false;
  GetPhysicalDeviceMemoryProperties(description.physical.handle, &description.memory);
  if (info.queueCreateInfoCount == 0) return false;
  // An empty submission takes the channel's lock like any other: the program's own use of the queue does not matter.
  VkQueue queue = VK_NULL_HANDLE;
  ::vkGetDeviceQueue(device, info.pQueueCreateInfos[0].queueFamilyIndex, 0, &queue);
  description.signal_now = wsi::SignalThroughQueue(description.vk, queue);
  state->wsi = std::make_unique<wsi::Device>(std::move(description));
  return true;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateHeadlessSurfaceEXT(VkInstance, const VkHeadlessSurfaceCreateInfoEXT* info,
                                                        const VkAllocationCallbacks*, VkSurfaceKHR* surface) {
  return wsi::CreateHeadlessSurface(*info, surface);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateXcbSurfaceKHR(VkInstance, const VkXcbSurfaceCreateInfoKHR* info,
                                                   const VkAllocationCallbacks*, VkSurfaceKHR* surface) {
  return wsi::CreateXcbSurface(*info, surface);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateXlibSurfaceKHR(VkInstance, const VkXlibSurfaceCreateInfoKHR* info,
                                                    const VkAllocationCallbacks*, VkSurfaceKHR* surface) {
  return wsi::CreateXlibSurface(*info, surface);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateWaylandSurfaceKHR(VkInstance, const VkWaylandSurfaceCreateInfoKHR* info,
                                                       const VkAllocationCallbacks*, VkSurfaceKHR* surface) {
  return wsi::CreateWaylandSurface(*info, surface);
}

VKAPI_ATTR void VKAPI_CALL DestroySurfaceKHR(VkInstance, VkSurfaceKHR surface, const VkAllocationCallbacks*) {
  wsi::DestroySurface(surface);
}

VKAPI_ATTR VkBool32 VKAPI_CALL GetPhysicalDeviceXcbPresentationSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                          xcb_connection_t* connection,
                                                                          uint32_t visual_id) {
  return wsi::GetXcbPresentationSupport(Physical(device), family, connection, visual_id);
}

VKAPI_ATTR VkBool32 VKAPI_CALL
GetPhysicalDeviceXlibPresentationSupportKHR(VkPhysicalDevice device, uint32_t family, _XDisplay* display,
                                            unsigned long visual_id) {  // NOLINT(google-runtime-int): VisualID
  return wsi::GetXlibPresentationSupport(Physical(device), family, display, visual_id);
}

VKAPI_ATTR VkBool32 VKAPI_CALL GetPhysicalDeviceWaylandPresentationSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                              wl_display* display) {
  return wsi::GetWaylandPresentationSupport(Physical(device), family, display);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceSupportKHR(VkPhysicalDevice device, uint32_t family,
                                                                  VkSurfaceKHR surface, VkBool32* supported) {
  return wsi::GetSurfaceSupport(Physical(device), family, surface, supported);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                       VkSurfaceCapabilitiesKHR* capabilities) {
  return wsi::GetSurfaceCapabilities(Physical(device), surface, capabilities);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceCapabilities2KHR(VkPhysicalDevice device,
                                                                        const VkPhysicalDeviceSurfaceInfo2KHR* info,
                                                                        VkSurfaceCapabilities2KHR* capabilities) {
  return wsi::GetSurfaceCapabilities2(Physical(device), *info, capabilities);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceFormatsKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                  uint32_t* count, VkSurfaceFormatKHR* formats) {
  return wsi::GetSurfaceFormats(Physical(device), surface, count, formats);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfaceFormats2KHR(VkPhysicalDevice device,
                                                                   const VkPhysicalDeviceSurfaceInfo2KHR* info,
                                                                   uint32_t* count, VkSurfaceFormat2KHR* formats) {
  return wsi::GetSurfaceFormats2(Physical(device), *info, count, formats);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceSurfacePresentModesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                       uint32_t* count, VkPresentModeKHR* modes) {
  return wsi::GetSurfacePresentModes(Physical(device), surface, count, modes);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDevicePresentRectanglesKHR(VkPhysicalDevice device, VkSurfaceKHR surface,
                                                                     uint32_t* count, VkRect2D* rects) {
  return wsi::GetPresentRectangles(Physical(device), surface, count, rects);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateSwapchainKHR(VkDevice device, const VkSwapchainCreateInfoKHR* info,
                                                  const VkAllocationCallbacks*, VkSwapchainKHR* swapchain) {
  return wsi::CreateSwapchain(*StateOf(device)->wsi, *info, swapchain);
}

VKAPI_ATTR void VKAPI_CALL DestroySwapchainKHR(VkDevice device, VkSwapchainKHR swapchain,
                                               const VkAllocationCallbacks*) {
  StateOf(device)->private_data.Forget(vk::HandleValue(swapchain));
  wsi::DestroySwapchain(swapchain);
}

VKAPI_ATTR VkResult VKAPI_CALL GetSwapchainImagesKHR(VkDevice, VkSwapchainKHR swapchain, uint32_t* count,
                                                     VkImage* images) {
  return wsi::GetSwapchainImages(swapchain, count, images);
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImageKHR(VkDevice, VkSwapchainKHR swapchain, uint64_t timeout,
                                                   VkSemaphore semaphore, VkFence fence, uint32_t* index) {
  VkAcquireNextImageInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_ACQUIRE_NEXT_IMAGE_INFO_KHR;
  info.swapchain = swapchain;
  info.timeout = timeout;
  info.semaphore = semaphore;
  info.fence = fence;
  info.deviceMask = 1;
  return wsi::AcquireNextImage2(info, index);
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImage2KHR(VkDevice, const VkAcquireNextImageInfoKHR* info, uint32_t* index) {
  return wsi::AcquireNextImage2(*info, index);
}

VKAPI_ATTR VkResult VKAPI_CALL QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR* info) {
  const guest::GuestQueue* state = guest::State(queue);
  return wsi::QueuePresent(*static_cast<DeviceState*>(state->device->above)->wsi, queue, state->family, *info);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateImage(VkDevice device, const VkImageCreateInfo* info,
                                           const VkAllocationCallbacks* allocator, VkImage* image) {
  const auto* alias =
      Chained<VkImageSwapchainCreateInfoKHR>(info->pNext, VK_STRUCTURE_TYPE_IMAGE_SWAPCHAIN_CREATE_INFO_KHR);
  if (alias == nullptr || alias->swapchain == VK_NULL_HANDLE) return ::vkCreateImage(device, info, allocator, image);
  VkImageCreateInfo complete = *info;  // the runtime skips the structure
  wsi::CompleteAlias(alias->swapchain, &complete);
  return ::vkCreateImage(device, &complete, allocator, image);
}

VKAPI_ATTR VkResult VKAPI_CALL BindImageMemory2(VkDevice device, uint32_t count, const VkBindImageMemoryInfo* infos) {
  std::vector<VkBindImageMemoryInfo> complete;
  for (uint32_t i = 0; i < count; i++) {
    const auto* alias = Chained<VkBindImageMemorySwapchainInfoKHR>(
        infos[i].pNext, VK_STRUCTURE_TYPE_BIND_IMAGE_MEMORY_SWAPCHAIN_INFO_KHR);
    if (alias == nullptr || alias->swapchain == VK_NULL_HANDLE) continue;
    if (complete.empty()) complete.assign(infos, infos + count);
    complete[i].memory = wsi::ImageMemory(alias->swapchain, alias->imageIndex);
    complete[i].memoryOffset = 0;
    if (complete[i].memory == VK_NULL_HANDLE) return VK_ERROR_OUT_OF_DEVICE_MEMORY;  // no such image
  }
  return ::vkBindImageMemory2(device, count, complete.empty() ? infos : complete.data());
}

VKAPI_ATTR VkResult VKAPI_CALL GetDeviceGroupPresentCapabilitiesKHR(VkDevice,
                                                                    VkDeviceGroupPresentCapabilitiesKHR* capabilities) {
  return wsi::GetDeviceGroupPresentCapabilities(capabilities);
}

VKAPI_ATTR VkResult VKAPI_CALL GetDeviceGroupSurfacePresentModesKHR(VkDevice, VkSurfaceKHR surface,
                                                                    VkDeviceGroupPresentModeFlagsKHR* modes) {
  return wsi::GetDeviceGroupSurfacePresentModes(surface, modes);
}

}  // namespace sluice::icd
