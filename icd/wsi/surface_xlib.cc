// VK_KHR_xlib_surface: X11 windows by way of the xcb connection in a Display.
#include "icd/wsi/symbols.h"
#include "icd/wsi/wsi.h"

// Macros for common words come with these: last, and in a file of their own.
#include <X11/Xlib-xcb.h>
#include <vulkan/vulkan_xcb.h>
#include <vulkan/vulkan_xlib.h>

namespace sluice::wsi {
namespace {

// Null: libX11-xcb is not there, so `display` can be none of its.
xcb_connection_t* ConnectionOf(Display* display) {
  using Function = decltype(&::XGetXCBConnection);
  static const Function function = [] {
    Function found = nullptr;
    FindFunction(OpenLibrary("libX11-xcb.so.1"), "XGetXCBConnection", &found);
    return found;
  }();
  return function == nullptr || display == nullptr ? nullptr : function(display);
}

}  // namespace

VkResult CreateXlibSurface(const VkXlibSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface) {
  VkXcbSurfaceCreateInfoKHR xcb = {VK_STRUCTURE_TYPE_XCB_SURFACE_CREATE_INFO_KHR};
  xcb.connection = ConnectionOf(info.dpy);
  xcb.window = static_cast<xcb_window_t>(info.window);
  return CreateXcbSurface(xcb, surface);
}

VkBool32 GetXlibPresentationSupport(const PhysicalDevice& device, uint32_t family, _XDisplay* display,
                                    unsigned long visual_id) {  // NOLINT(google-runtime-int)
  return GetXcbPresentationSupport(device, family, ConnectionOf(display), static_cast<uint32_t>(visual_id));
}

}  // namespace sluice::wsi
