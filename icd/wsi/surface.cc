// What is the same for every window system: extension lists, and the answers of the vkGetPhysicalDeviceSurface*
// commands.
#include "icd/wsi/surface.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "icd/wsi/query.h"

namespace sluice::wsi {
namespace {

constexpr VkExtensionProperties kInstanceExtensions[] = {
    {VK_KHR_SURFACE_EXTENSION_NAME, VK_KHR_SURFACE_SPEC_VERSION},
    {VK_KHR_GET_SURFACE_CAPABILITIES_2_EXTENSION_NAME, VK_KHR_GET_SURFACE_CAPABILITIES_2_SPEC_VERSION},
    {VK_EXT_HEADLESS_SURFACE_EXTENSION_NAME, VK_EXT_HEADLESS_SURFACE_SPEC_VERSION},
#ifdef SLUICE_WSI_XCB
    {"VK_KHR_xcb_surface", 6},
#endif
#ifdef SLUICE_WSI_XLIB
    {"VK_KHR_xlib_surface", 6},
#endif
#ifdef SLUICE_WSI_WAYLAND
    {"VK_KHR_wayland_surface", 6},
#endif
};
constexpr VkExtensionProperties kDeviceExtensions[] = {
    {VK_KHR_SWAPCHAIN_EXTENSION_NAME, VK_KHR_SWAPCHAIN_SPEC_VERSION},
    {VK_KHR_SWAPCHAIN_MUTABLE_FORMAT_EXTENSION_NAME, VK_KHR_SWAPCHAIN_MUTABLE_FORMAT_SPEC_VERSION},
    {VK_KHR_INCREMENTAL_PRESENT_EXTENSION_NAME, VK_KHR_INCREMENTAL_PRESENT_SPEC_VERSION},
};

constexpr VkPresentModeKHR kModes[] = {VK_PRESENT_MODE_FIFO_KHR, VK_PRESENT_MODE_FIFO_RELAXED_KHR,
                                       VK_PRESENT_MODE_MAILBOX_KHR, VK_PRESENT_MODE_IMMEDIATE_KHR};

// Formats of swapchains, those in the order `native` first; only what the device can render to and copy from.
std::vector<VkSurfaceFormatKHR> Formats(const PhysicalDevice& device, ChannelOrder native) {
  constexpr VkFormat kBgra[] = {VK_FORMAT_B8G8R8A8_UNORM, VK_FORMAT_B8G8R8A8_SRGB};
  constexpr VkFormat kRgba[] = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_SRGB};
  std::vector<VkFormat> candidates(std::begin(kBgra), std::end(kBgra));
  candidates.insert(native == ChannelOrder::kBgra ? candidates.end() : candidates.begin(), std::begin(kRgba),
                    std::end(kRgba));
  std::vector<VkSurfaceFormatKHR> formats;
  for (const VkFormat format : candidates) {
    VkFormatProperties properties = {};
    device.vk->GetPhysicalDeviceFormatProperties(device.handle, format, &properties);
    if ((properties.optimalTilingFeatures & VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BIT) == 0) continue;
    formats.push_back({format, VK_COLOR_SPACE_SRGB_NONLINEAR_KHR});
  }
  return formats;
}

VkExtent2D Clamp(VkExtent2D extent, uint32_t limit) {
  return {std::clamp(extent.width, 1u, limit), std::clamp(extent.height, 1u, limit)};
}

}  // namespace

std::span<const VkExtensionProperties> InstanceExtensions() {
  return kInstanceExtensions;
}
std::span<const VkExtensionProperties> DeviceExtensions() {
  return kDeviceExtensions;
}

bool OrderOf(VkFormat format, ChannelOrder* order) {
  switch (format) {
    case VK_FORMAT_B8G8R8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_SRGB:
      *order = ChannelOrder::kBgra;
      return true;
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_R8G8B8A8_SRGB:
      *order = ChannelOrder::kRgba;
      return true;
    default:
      return false;
  }
}

bool FamilyCanPresent(const PhysicalDevice& device, uint32_t family) {
  uint32_t count = 0;
  device.vk->GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  device.vk->GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  constexpr VkQueueFlags kCopies = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  return family < count && (families[family].queueFlags & kCopies) != 0;
}

uint32_t MaxImageExtent(const PhysicalDevice& device) {
  VkPhysicalDeviceProperties properties = {};
  device.vk->GetPhysicalDeviceProperties(device.handle, &properties);
  return properties.limits.maxImageDimension2D;
}

void DestroySurface(VkSurfaceKHR surface) {
  delete SurfaceOf(surface);
}

VkResult GetSurfaceSupport(const PhysicalDevice& device, uint32_t family, VkSurfaceKHR surface, VkBool32* supported) {
  bool pixels = false;
  *supported = VK_FALSE;
  const VkResult result = SurfaceOf(surface)->Supported(&pixels);
  if (result != VK_SUCCESS) return result;
  *supported = pixels && FamilyCanPresent(device, family) ? VK_TRUE : VK_FALSE;
  return VK_SUCCESS;
}

VkResult GetSurfaceCapabilities(const PhysicalDevice& device, VkSurfaceKHR handle, VkSurfaceCapabilitiesKHR* result) {
  Surface* surface = SurfaceOf(handle);
  VkExtent2D extent = {};
  if (const VkResult r = surface->Extent(&extent); r != VK_SUCCESS) return r;
  const uint32_t limit = MaxImageExtent(device);
  VkSurfaceCapabilitiesKHR caps = {};
  caps.minImageCount = kMinImages;
  caps.maxImageCount = kMaxImages;
  if (extent.width == kAnyExtent) {
    caps.currentExtent = extent;
    caps.minImageExtent = {1, 1};
    caps.maxImageExtent = {limit, limit};
  } else {
    caps.currentExtent = caps.minImageExtent = caps.maxImageExtent = Clamp(extent, limit);
  }
  caps.maxImageArrayLayers = 1;
  caps.supportedTransforms = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR;
  caps.currentTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR;
  caps.supportedCompositeAlpha = surface->Alpha();
  caps.supportedUsageFlags = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                             VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT |
                             VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT;
  *result = caps;
  return VK_SUCCESS;
}

VkResult GetSurfaceCapabilities2(const PhysicalDevice& device, const VkPhysicalDeviceSurfaceInfo2KHR& info,
                                 VkSurfaceCapabilities2KHR* result) {
  for (auto* next = static_cast<VkBaseOutStructure*>(result->pNext); next != nullptr; next = next->pNext) {
    void* chained = next;
    if (next->sType == VK_STRUCTURE_TYPE_SURFACE_PROTECTED_CAPABILITIES_KHR) {
      static_cast<VkSurfaceProtectedCapabilitiesKHR*>(chained)->supportsProtected = VK_FALSE;
    }
  }
  return GetSurfaceCapabilities(device, info.surface, &result->surfaceCapabilities);
}

VkResult GetSurfaceFormats(const PhysicalDevice& device, VkSurfaceKHR surface, uint32_t* count,
                           VkSurfaceFormatKHR* formats) {
  const std::vector<VkSurfaceFormatKHR> all = Formats(device, SurfaceOf(surface)->NativeOrder());
  return FillArray<VkSurfaceFormatKHR>(all, count, formats,
                                       [](const VkSurfaceFormatKHR& from, VkSurfaceFormatKHR& to) { to = from; });
}

VkResult GetSurfaceFormats2(const PhysicalDevice& device, const VkPhysicalDeviceSurfaceInfo2KHR& info, uint32_t* count,
                            VkSurfaceFormat2KHR* formats) {
  const std::vector<VkSurfaceFormatKHR> all = Formats(device, SurfaceOf(info.surface)->NativeOrder());
  return FillArray<VkSurfaceFormatKHR>(
      all, count, formats, [](const VkSurfaceFormatKHR& from, VkSurfaceFormat2KHR& to) { to.surfaceFormat = from; });
}

VkResult GetSurfacePresentModes(const PhysicalDevice& /*device*/, VkSurfaceKHR /*surface*/, uint32_t* count,
                                VkPresentModeKHR* modes) {
  return FillArray<VkPresentModeKHR>(kModes, count, modes,
                                     [](const VkPresentModeKHR& from, VkPresentModeKHR& to) { to = from; });
}

VkResult GetPresentRectangles(const PhysicalDevice& /*device*/, VkSurfaceKHR surface, uint32_t* count,
                              VkRect2D* rects) {
  VkRect2D whole = {};
  if (const VkResult r = SurfaceOf(surface)->Extent(&whole.extent); r != VK_SUCCESS) return r;
  return FillArray<VkRect2D>(std::span(&whole, 1), count, rects, [](const VkRect2D& from, VkRect2D& to) { to = from; });
}

VkResult GetDeviceGroupPresentCapabilities(VkDeviceGroupPresentCapabilitiesKHR* capabilities) {
  std::fill(std::begin(capabilities->presentMask), std::end(capabilities->presentMask), 0u);
  capabilities->presentMask[0] = 1;
  capabilities->modes = VK_DEVICE_GROUP_PRESENT_MODE_LOCAL_BIT_KHR;
  return VK_SUCCESS;
}

VkResult GetDeviceGroupSurfacePresentModes(VkSurfaceKHR /*surface*/, VkDeviceGroupPresentModeFlagsKHR* modes) {
  *modes = VK_DEVICE_GROUP_PRESENT_MODE_LOCAL_BIT_KHR;
  return VK_SUCCESS;
}

}  // namespace sluice::wsi
