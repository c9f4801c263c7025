// Xlib windows on a real X server, and that no error ever reaches Xlib, which would end the program.
#include <gtest/gtest.h>

#include "icd/wsi/testing/vulkan_rig.h"
#include "icd/wsi/testing/window_server.h"

// Macros for common words come with these: last.
#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <vulkan/vulkan_xlib.h>

namespace sluice::wsi {
namespace {

using testing::PatternPixel;
using testing::VulkanRig;
using testing::XServer;

std::atomic<int> xlib_errors = 0;

int OnError(Display* /*display*/, XErrorEvent* /*event*/) {
  xlib_errors++;
  return 0;
}

TEST(XlibTest, PresentsAndLosesAWindow) {
  std::string why;
  const std::unique_ptr<XServer> server = XServer::Start({}, &why);
  if (server == nullptr) GTEST_SKIP() << why;
  std::unique_ptr<VulkanRig> rig = VulkanRig::Create(&why);
  if (rig == nullptr) GTEST_SKIP() << why;
  XInitThreads();
  XSetErrorHandler(OnError);
  Display* display = XOpenDisplay(server->display().c_str());
  ASSERT_NE(display, nullptr);
  constexpr uint32_t kWidth = 90, kHeight = 70;
  const Window window = XCreateSimpleWindow(display, DefaultRootWindow(display), 0, 0, kWidth, kHeight, 0, 0, 0);
  XMapWindow(display, window);
  XSync(display, 0);

  VkXlibSurfaceCreateInfoKHR info = {VK_STRUCTURE_TYPE_XLIB_SURFACE_CREATE_INFO_KHR};
  info.dpy = display;
  info.window = window;
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  ASSERT_EQ(CreateXlibSurface(info, &surface), VK_SUCCESS);
  const VisualID visual = XVisualIDFromVisual(DefaultVisual(display, DefaultScreen(display)));
  EXPECT_EQ(GetXlibPresentationSupport(rig->physical(), 0, display, visual), VK_TRUE);
  EXPECT_EQ(GetXlibPresentationSupport(rig->physical(), 0, display, 0x7777), VK_FALSE);

  const VkSwapchainKHR swapchain = rig->MakeSwapchain({.surface = surface, .extent = {kWidth, kHeight}});
  for (uint32_t frame = 0; frame < 8; frame++) ASSERT_EQ(rig->PresentFrame(swapchain, frame), VK_SUCCESS);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool shown = false;
  while (!shown && absl::Now() < deadline) {
    XImage* image = XGetImage(display, window, 0, 0, kWidth, kHeight, AllPlanes, ZPixmap);
    ASSERT_NE(image, nullptr);
    shown = true;
    for (uint32_t y = 0; y < kHeight; y++) {
      for (uint32_t x = 0; x < kWidth; x++) {
        const unsigned long pixel = XGetPixel(image, static_cast<int>(x), static_cast<int>(y));  // NOLINT
        shown = shown && (pixel & 0xffffff) == (PatternPixel(7, x, y) & 0xffffff);
      }
    }
    XDestroyImage(image);
  }
  EXPECT_TRUE(shown);

  XDestroyWindow(display, window);
  XSync(display, 0);
  VkResult result = VK_SUCCESS;
  while (result == VK_SUCCESS && absl::Now() < deadline) result = rig->PresentFrame(swapchain, 1);
  EXPECT_EQ(result, VK_ERROR_SURFACE_LOST_KHR);
  rig->DestroySwapchain(swapchain);
  EXPECT_EQ(rig->complaints(), 0u) << "of the validation layer";
  rig.reset();
  DestroySurface(surface);
  XSync(display, 0);
  EXPECT_EQ(xlib_errors.load(), 0);
  XCloseDisplay(display);
}

TEST(XlibTest, NoDisplayIsNoSurface) {
  VkXlibSurfaceCreateInfoKHR info = {VK_STRUCTURE_TYPE_XLIB_SURFACE_CREATE_INFO_KHR};
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  EXPECT_EQ(CreateXlibSurface(info, &surface), VK_ERROR_INITIALIZATION_FAILED);
}

}  // namespace
}  // namespace sluice::wsi
