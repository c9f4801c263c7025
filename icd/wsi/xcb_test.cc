// X11 windows on a real X server: what is presented is what the window shows; windows that change or go.
#include <gtest/gtest.h>
#include <vulkan/vulkan_core.h>
#include <xcb/xcb.h>
// After xcb.h:
#include <vulkan/vulkan_xcb.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "icd/wsi/testing/vulkan_rig.h"
#include "icd/wsi/testing/window_server.h"

namespace sluice::wsi {
namespace {

using testing::PatternPixel;
using testing::VulkanRig;
using testing::XServer;

constexpr uint64_t kForever = UINT64_MAX;
constexpr absl::Duration kPatience = absl::Seconds(60);

// A window at the top left corner and its connection.
class XWindow {
 public:
  XWindow(const std::string& display, VkExtent2D extent, uint8_t depth = 24)
      : connection_(xcb_connect(display.c_str(), nullptr)) {
    if (!alive()) return;
    xcb_screen_t* screen = xcb_setup_roots_iterator(xcb_get_setup(connection_)).data;
    FindVisual(screen, depth);
    const xcb_colormap_t colormap = xcb_generate_id(connection_);
    xcb_create_colormap(connection_, XCB_COLORMAP_ALLOC_NONE, colormap, screen->root, visual_);
    window_ = xcb_generate_id(connection_);
    const uint32_t values[] = {0, 0, 1, XCB_EVENT_MASK_STRUCTURE_NOTIFY, colormap};
    xcb_create_window(
        connection_, depth, window_, screen->root, 0, 0, static_cast<uint16_t>(extent.width),
        static_cast<uint16_t>(extent.height), 0, XCB_WINDOW_CLASS_INPUT_OUTPUT, visual_,
        XCB_CW_BACK_PIXEL | XCB_CW_BORDER_PIXEL | XCB_CW_OVERRIDE_REDIRECT | XCB_CW_EVENT_MASK | XCB_CW_COLORMAP,
        values);
    xcb_map_window(connection_, window_);
    Sync();
  }
  ~XWindow() { xcb_disconnect(connection_); }

  bool alive() const { return xcb_connection_has_error(connection_) == 0; }
  xcb_connection_t* connection() { return connection_; }
  xcb_window_t window() const { return window_; }
  xcb_visualid_t visual() const { return visual_; }

  VkSurfaceKHR NewSurface() {
    VkXcbSurfaceCreateInfoKHR info = {VK_STRUCTURE_TYPE_XCB_SURFACE_CREATE_INFO_KHR};
    info.connection = connection_;
    info.window = window_;
    VkSurfaceKHR surface = VK_NULL_HANDLE;
    EXPECT_EQ(CreateXcbSurface(info, &surface), VK_SUCCESS);
    return surface;
  }
  void Resize(VkExtent2D extent) {
    const uint32_t values[] = {extent.width, extent.height};
    xcb_configure_window(connection_, window_, XCB_CONFIG_WINDOW_WIDTH | XCB_CONFIG_WINDOW_HEIGHT, values);
    Sync();
  }
  void Destroy() {
    xcb_destroy_window(connection_, window_);
    Sync();
  }
  void Sync() { free(xcb_get_input_focus_reply(connection_, xcb_get_input_focus(connection_), nullptr)); }

  // What the server has of the window's pixels.
  std::vector<uint32_t> Pixels(VkExtent2D extent) {
    xcb_get_image_reply_t* reply = xcb_get_image_reply(
        connection_,
        xcb_get_image(connection_, XCB_IMAGE_FORMAT_Z_PIXMAP, window_, 0, 0, static_cast<uint16_t>(extent.width),
                      static_cast<uint16_t>(extent.height), ~0u),
        nullptr);
    if (reply == nullptr) return {};
    std::vector<uint32_t> pixels(size_t{extent.width} * extent.height);
    EXPECT_EQ(static_cast<size_t>(xcb_get_image_data_length(reply)), pixels.size() * 4);
    memcpy(pixels.data(), xcb_get_image_data(reply), pixels.size() * 4);
    free(reply);
    return pixels;
  }
  // Whether the window shows the pattern, sooner or later. `alpha`: of each pixel; the pattern's own if none is given.
  bool Shows(uint32_t frame, VkExtent2D extent, std::optional<uint32_t> alpha) {
    std::vector<uint32_t> expected;
    for (uint32_t y = 0; y < extent.height; y++) {
      for (uint32_t x = 0; x < extent.width; x++) {
        const uint32_t pixel = PatternPixel(frame, x, y);
        expected.push_back(alpha.has_value() ? (pixel & 0xffffff) | *alpha << 24 : pixel);
      }
    }
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      std::vector<uint32_t> pixels = Pixels(extent);
      if (depth_ == 24) {  // the fourth byte means nothing
        for (uint32_t& pixel : pixels) pixel = (pixel & 0xffffff) | alpha.value_or(0) << 24;
      }
      if (pixels == expected) return true;
    }
    return false;
  }
  // Errors and events that somebody else's requests have left in the program's queue.
  int StrayEvents() {
    int stray = 0;
    Sync();
    while (xcb_generic_event_t* event = xcb_poll_for_event(connection_)) {
      const int type = event->response_type & 0x7f;
      if (type != XCB_MAP_NOTIFY && type != XCB_CONFIGURE_NOTIFY && type != XCB_UNMAP_NOTIFY &&
          type != XCB_DESTROY_NOTIFY) {
        ADD_FAILURE() << "an event of type " << type << " in the program's queue";
        stray++;
      }
      free(event);
    }
    return stray;
  }

 private:
  void FindVisual(xcb_screen_t* screen, uint8_t depth) {
    depth_ = depth;
    for (auto d = xcb_screen_allowed_depths_iterator(screen); d.rem > 0; xcb_depth_next(&d)) {
      for (auto v = xcb_depth_visuals_iterator(d.data); v.rem > 0; xcb_visualtype_next(&v)) {
        if (d.data->depth == depth && v.data->_class == XCB_VISUAL_CLASS_TRUE_COLOR) visual_ = v.data->visual_id;
      }
    }
  }

  xcb_connection_t* const connection_;
  xcb_window_t window_ = 0;
  xcb_visualid_t visual_ = 0;
  uint8_t depth_ = 24;
};

class XcbTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(const std::vector<std::string>& arguments) {
    std::string why;
    server_ = XServer::Start(arguments, &why);
    if (server_ == nullptr) GTEST_SKIP() << why;
    rig_ = VulkanRig::Create(&why);
    if (rig_ == nullptr) GTEST_SKIP() << why;
  }
  void Restart(const std::vector<std::string>& arguments) {
    TearDown();
    Start(arguments);
  }
  void TearDown() override {
    if (rig_ != nullptr) {
      EXPECT_EQ(rig_->complaints(), 0u) << "of the validation layer";
    }
    rig_.reset();
    for (const VkSurfaceKHR surface : surfaces_) DestroySurface(surface);
    surfaces_.clear();
    if (window_ != nullptr && window_->alive()) {
      EXPECT_EQ(window_->StrayEvents(), 0);
    }
    window_.reset();
    server_.reset();
  }
  VkSurfaceKHR Open(VkExtent2D extent, uint8_t depth = 24) {
    window_ = std::make_unique<XWindow>(server_->display(), extent, depth);
    EXPECT_TRUE(window_->alive());
    surfaces_.push_back(window_->NewSurface());
    return surfaces_.back();
  }
  // Presents frames until one is not VK_SUCCESS; that result.
  VkResult PresentUntilItChanges(VkSwapchainKHR swapchain) {
    const absl::Time deadline = absl::Now() + kPatience;
    VkResult result = VK_SUCCESS;
    while (result == VK_SUCCESS && absl::Now() < deadline) result = rig_->PresentFrame(swapchain, 1);
    return result;
  }

  std::unique_ptr<XServer> server_;
  std::unique_ptr<VulkanRig> rig_;
  std::unique_ptr<XWindow> window_;
  std::vector<VkSurfaceKHR> surfaces_;
};

TEST_F(XcbTest, CapabilitiesAreTheWindows) {
  const VkSurfaceKHR surface = Open({123, 45});
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface, &caps), VK_SUCCESS);
  EXPECT_EQ(caps.currentExtent.width, 123u);
  EXPECT_EQ(caps.currentExtent.height, 45u);
  EXPECT_EQ(caps.minImageExtent.width, 123u);
  EXPECT_EQ(caps.maxImageExtent.height, 45u);
  VkBool32 supported = VK_FALSE;
  ASSERT_EQ(GetSurfaceSupport(rig_->physical(), rig_->family(), surface, &supported), VK_SUCCESS);
  EXPECT_EQ(supported, VK_TRUE);
  EXPECT_EQ(GetXcbPresentationSupport(rig_->physical(), 0, window_->connection(), window_->visual()), VK_TRUE);
  EXPECT_EQ(GetXcbPresentationSupport(rig_->physical(), 0, window_->connection(), 0xdeadbeef), VK_FALSE);
  EXPECT_EQ(GetXcbPresentationSupport(rig_->physical(), 99, window_->connection(), window_->visual()), VK_FALSE);
}

TEST_F(XcbTest, TheWindowShowsWhatWasRendered) {
  const VkExtent2D extent = {201, 97};
  const VkSurfaceKHR surface = Open(extent);
  uint32_t frame = 0;
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;
  for (const VkFormat format :
       {VK_FORMAT_B8G8R8A8_UNORM, VK_FORMAT_B8G8R8A8_SRGB, VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_SRGB}) {
    for (const VkPresentModeKHR mode : {VK_PRESENT_MODE_FIFO_KHR, VK_PRESENT_MODE_FIFO_RELAXED_KHR,
                                        VK_PRESENT_MODE_MAILBOX_KHR, VK_PRESENT_MODE_IMMEDIATE_KHR}) {
      swapchain =
          rig_->MakeSwapchain({.surface = surface, .extent = extent, .mode = mode, .format = format, .old = swapchain});
      ASSERT_EQ(rig_->PresentFrame(swapchain, ++frame), VK_SUCCESS);
      EXPECT_TRUE(window_->Shows(frame, extent, 0)) << "format " << format << ", mode " << mode;
    }
  }
}

TEST_F(XcbTest, ManyFramesEndWithTheLast) {
  const VkExtent2D extent = {300, 200};
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = Open(extent), .extent = extent});
  for (uint32_t frame = 0; frame < 40; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(39, extent, 0));
}

TEST_F(XcbTest, DestroyingASwapchainShowsItsLastFrame) {
  const VkExtent2D extent = {64, 64};
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = Open(extent), .extent = extent});
  for (uint32_t frame = 0; frame < 3; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  rig_->DestroySwapchain(swapchain);
  EXPECT_TRUE(window_->Shows(2, extent, 0));
}

TEST_F(XcbTest, AlphaOfAWindowThatHasIt) {
  const VkExtent2D extent = {60, 30};
  const VkSurfaceKHR surface = Open(extent, 32);
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface, &caps), VK_SUCCESS);
  ASSERT_NE(caps.supportedCompositeAlpha & VK_COMPOSITE_ALPHA_PRE_MULTIPLIED_BIT_KHR, 0u);
  const VkSwapchainKHR opaque = rig_->MakeSwapchain({.surface = surface, .extent = extent});
  ASSERT_EQ(rig_->PresentFrame(opaque, 3), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(3, extent, 255));
  const VkSwapchainKHR multiplied = rig_->MakeSwapchain(
      {.surface = surface, .extent = extent, .old = opaque, .alpha = VK_COMPOSITE_ALPHA_PRE_MULTIPLIED_BIT_KHR});
  ASSERT_EQ(rig_->PresentFrame(multiplied, 4), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(4, extent, std::nullopt));
}

TEST_F(XcbTest, WithoutSharedMemory) {
  Restart({"-extension", "MIT-SHM"});
  const VkExtent2D extent = {500, 400};
  const VkSurfaceKHR surface = Open(extent);
  const VkSwapchainKHR direct = rig_->MakeSwapchain({.surface = surface, .extent = extent});
  for (uint32_t frame = 0; frame < 5; frame++) ASSERT_EQ(rig_->PresentFrame(direct, frame), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(4, extent, 0));
  const VkSwapchainKHR converted =
      rig_->MakeSwapchain({.surface = surface, .extent = extent, .format = VK_FORMAT_R8G8B8A8_UNORM, .old = direct});
  ASSERT_EQ(rig_->PresentFrame(converted, 7), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(7, extent, 0));
}

TEST_F(XcbTest, OverTheNetworkWithSmallRequests) {
  // No descriptors, and no more than 256 KiB a request.
  Restart({"-listen", "tcp", "-extension", "BIG-REQUESTS"});
  const VkExtent2D extent = {640, 480};
  window_ = std::make_unique<XWindow>("127.0.0.1" + server_->display(), extent);
  if (!window_->alive()) GTEST_SKIP() << "no TCP connection to the X server";
  surfaces_.push_back(window_->NewSurface());
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surfaces_.back(), .extent = extent});
  ASSERT_EQ(rig_->PresentFrame(swapchain, 5), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(5, extent, 0));
}

TEST_F(XcbTest, AResizedWindowIsSuboptimalUntilTheSwapchainFits) {
  const VkSurfaceKHR surface = Open({100, 80});
  const VkSwapchainKHR old = rig_->MakeSwapchain({.surface = surface, .extent = {100, 80}});
  ASSERT_EQ(rig_->PresentFrame(old, 0), VK_SUCCESS);
  window_->Resize({150, 120});
  EXPECT_EQ(PresentUntilItChanges(old), VK_SUBOPTIMAL_KHR);
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface, &caps), VK_SUCCESS);
  EXPECT_EQ(caps.currentExtent.width, 150u);
  const VkSwapchainKHR young = rig_->MakeSwapchain({.surface = surface, .extent = {150, 120}, .old = old});
  for (uint32_t frame = 0; frame < 5; frame++) ASSERT_EQ(rig_->PresentFrame(young, frame), VK_SUCCESS);
  EXPECT_TRUE(window_->Shows(4, {150, 120}, 0));
}

TEST_F(XcbTest, ADestroyedWindowIsALostSurface) {
  const VkSurfaceKHR surface = Open({100, 80});
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface, .extent = {100, 80}});
  ASSERT_EQ(rig_->PresentFrame(swapchain, 0), VK_SUCCESS);
  window_->Destroy();
  EXPECT_EQ(PresentUntilItChanges(swapchain), VK_ERROR_SURFACE_LOST_KHR);
  uint32_t index = 0;
  EXPECT_EQ(rig_->Acquire(swapchain, kForever, &index), VK_ERROR_SURFACE_LOST_KHR);
  VkSurfaceCapabilitiesKHR caps = {};
  EXPECT_EQ(GetSurfaceCapabilities(rig_->physical(), surface, &caps), VK_ERROR_SURFACE_LOST_KHR);
  VkSwapchainKHR young = VK_NULL_HANDLE;
  EXPECT_EQ(rig_->TryMakeSwapchain({.surface = surface, .extent = {100, 80}, .old = swapchain}, &young),
            VK_ERROR_SURFACE_LOST_KHR);
}

TEST_F(XcbTest, AServerThatDiesIsALostSurface) {
  const VkSurfaceKHR surface = Open({100, 80});
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface, .extent = {100, 80}});
  ASSERT_EQ(rig_->PresentFrame(swapchain, 0), VK_SUCCESS);
  server_->Kill();
  EXPECT_EQ(PresentUntilItChanges(swapchain), VK_ERROR_SURFACE_LOST_KHR);
  VkSurfaceCapabilitiesKHR caps = {};
  EXPECT_EQ(GetSurfaceCapabilities(rig_->physical(), surface, &caps), VK_ERROR_SURFACE_LOST_KHR);
  EXPECT_EQ(GetXcbPresentationSupport(rig_->physical(), 0, window_->connection(), window_->visual()), VK_FALSE);
}

TEST_F(XcbTest, TheProgramUsesItsConnectionMeanwhile) {
  const VkExtent2D extent = {64, 48};
  const VkSwapchainKHR swapchain =
      rig_->MakeSwapchain({.surface = Open(extent), .extent = extent, .mode = VK_PRESENT_MODE_IMMEDIATE_KHR});
  std::atomic<bool> done = false;
  std::thread program([&] {
    while (!done.load()) window_->Sync();
  });
  for (uint32_t frame = 0; frame < 100; frame++) EXPECT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  done.store(true);
  program.join();
  EXPECT_TRUE(window_->Shows(99, extent, 0));
}

TEST_F(XcbTest, OneLostSurfaceDoesNotHinderAnother) {
  const VkExtent2D extent = {64, 48};
  const VkSwapchainKHR lost = rig_->MakeSwapchain({.surface = Open(extent), .extent = extent});
  XWindow other(server_->display(), extent);
  const VkSurfaceKHR surface = other.NewSurface();
  const VkSwapchainKHR good = rig_->MakeSwapchain({.surface = surface, .extent = extent});
  window_->Destroy();
  EXPECT_EQ(PresentUntilItChanges(lost), VK_ERROR_SURFACE_LOST_KHR);
  // A third swapchain whose window goes between acquiring and presenting.
  XWindow third(server_->display(), extent);
  const VkSurfaceKHR third_surface = third.NewSurface();
  const VkSwapchainKHR going = rig_->MakeSwapchain({.surface = third_surface, .extent = extent});
  std::vector<uint32_t> held(2);
  ASSERT_EQ(rig_->Acquire(going, kForever, &held[0]), VK_SUCCESS);
  third.Destroy();
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(going, kForever, &index), VK_SUCCESS);
  rig_->Render(going, index, 0);
  EXPECT_GE(rig_->Present({going}, {index}), 0);
  while (rig_->Acquire(going, 10'000'000, &index) >= 0) {
  }
  ASSERT_EQ(rig_->Acquire(good, kForever, &held[1]), VK_SUCCESS);
  rig_->Render(going, held[0], 1);
  rig_->Render(good, held[1], 2);
  std::vector<VkResult> results;
  EXPECT_EQ(rig_->Present({going, good}, held, &results), VK_ERROR_SURFACE_LOST_KHR);
  EXPECT_EQ(results, (std::vector<VkResult>{VK_ERROR_SURFACE_LOST_KHR, VK_SUCCESS}));
  EXPECT_TRUE(other.Shows(2, extent, 0));
  rig_->DestroySwapchain(good);
  rig_->DestroySwapchain(going);
  DestroySurface(surface);
  DestroySurface(third_surface);
}

}  // namespace
}  // namespace sluice::wsi
