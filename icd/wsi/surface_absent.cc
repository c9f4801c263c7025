// Window systems whose headers the build machine lacked. InstanceExtensions() does not name them.
#include "icd/wsi/wsi.h"

namespace sluice::wsi {

#ifndef SLUICE_WSI_XCB
VkResult CreateXcbSurface(const VkXcbSurfaceCreateInfoKHR&, VkSurfaceKHR*) {
  return VK_ERROR_EXTENSION_NOT_PRESENT;
}
VkBool32 GetXcbPresentationSupport(const PhysicalDevice&, uint32_t, xcb_connection_t*, uint32_t) {
  return VK_FALSE;
}
#endif

#ifndef SLUICE_WSI_XLIB
VkResult CreateXlibSurface(const VkXlibSurfaceCreateInfoKHR&, VkSurfaceKHR*) {
  return VK_ERROR_EXTENSION_NOT_PRESENT;
}
VkBool32 GetXlibPresentationSupport(const PhysicalDevice&, uint32_t, _XDisplay*,
                                    unsigned long) {  // NOLINT(google-runtime-int)
  return VK_FALSE;
}
#endif

#ifndef SLUICE_WSI_WAYLAND
VkResult CreateWaylandSurface(const VkWaylandSurfaceCreateInfoKHR&, VkSurfaceKHR*) {
  return VK_ERROR_EXTENSION_NOT_PRESENT;
}
VkBool32 GetWaylandPresentationSupport(const PhysicalDevice&, uint32_t, wl_display*) {
  return VK_FALSE;
}
#endif

}  // namespace sluice::wsi
