// Wayland surfaces on a real compositor: what is presented is what the output shows; compositors that go or lie.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wayland-client.h>
// After wayland-client.h:
#include <vulkan/vulkan_core.h>
#include <vulkan/vulkan_wayland.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "icd/wsi/testing/vulkan_rig.h"
#include "icd/wsi/testing/window_server.h"
#include "xdg-shell-client.h"

namespace sluice::wsi {
namespace {

using testing::PatternPixel;
using testing::VulkanRig;
using testing::Weston;

constexpr uint64_t kForever = UINT64_MAX;
constexpr VkExtent2D kWindow = {320, 240};
constexpr absl::Duration kPatience = absl::Seconds(30);

// A program's connection and window. Requests that arrive before the window is configured are errors: Configure().
class WaylandWindow {
 public:
  explicit WaylandWindow(wl_display* display) : display_(display) {
    if (display_ == nullptr) return;
    wl_registry* registry = wl_display_get_registry(display_);
    static constexpr wl_registry_listener kListener = {OnGlobal, [](void*, wl_registry*, uint32_t) {}};
    wl_registry_add_listener(registry, &kListener, this);
    wl_display_roundtrip(display_);
    wl_registry_destroy(registry);
    if (compositor_ != nullptr) surface_ = wl_compositor_create_surface(compositor_);
  }
  ~WaylandWindow() {
    if (display_ == nullptr) return;
    if (toplevel_ != nullptr) xdg_toplevel_destroy(toplevel_);
    if (xdg_surface_ != nullptr) xdg_surface_destroy(xdg_surface_);
    if (surface_ != nullptr) wl_surface_destroy(surface_);
    if (shell_ != nullptr) xdg_wm_base_destroy(shell_);
    if (compositor_ != nullptr) wl_compositor_destroy(compositor_);
    wl_display_disconnect(display_);
  }

  wl_display* display() { return display_; }
  bool alive() const { return surface_ != nullptr; }

  // Gives the surface the role of a window, not yet usable.
  void TakeRole() {
    xdg_surface_ = xdg_wm_base_get_xdg_surface(shell_, surface_);
    static constexpr xdg_surface_listener kListener = {[](void* data, xdg_surface* surface, uint32_t serial) {
      xdg_surface_ack_configure(surface, serial);
      static_cast<WaylandWindow*>(data)->configured_ = true;
    }};
    xdg_surface_add_listener(xdg_surface_, &kListener, this);
    toplevel_ = xdg_surface_get_toplevel(xdg_surface_);
  }
  void Configure() {
    TakeRole();
    wl_surface_commit(surface_);
    while (!configured_ && wl_display_dispatch(display_) >= 0) {
    }
  }
  VkSurfaceKHR NewSurface() {
    VkWaylandSurfaceCreateInfoKHR info = {VK_STRUCTURE_TYPE_WAYLAND_SURFACE_CREATE_INFO_KHR};
    info.display = display_;
    info.surface = surface_;
    VkSurfaceKHR surface = VK_NULL_HANDLE;
    EXPECT_EQ(CreateWaylandSurface(info, &surface), VK_SUCCESS);
    return surface;
  }

 private:
  static void OnGlobal(void* data, wl_registry* registry, uint32_t name, const char* interface, uint32_t /*version*/) {
    auto* self = static_cast<WaylandWindow*>(data);
    if (strcmp(interface, wl_compositor_interface.name) == 0) {
      void* bound = wl_registry_bind(registry, name, &wl_compositor_interface, 4);
      self->compositor_ = static_cast<wl_compositor*>(bound);
    } else if (strcmp(interface, xdg_wm_base_interface.name) == 0) {
      void* bound = wl_registry_bind(registry, name, &xdg_wm_base_interface, 1);
      self->shell_ = static_cast<xdg_wm_base*>(bound);
    }
  }

  wl_display* const display_;
  wl_compositor* compositor_ = nullptr;
  wl_surface* surface_ = nullptr;
  xdg_wm_base* shell_ = nullptr;
  xdg_surface* xdg_surface_ = nullptr;
  xdg_toplevel* toplevel_ = nullptr;
  bool configured_ = false;
};

class WaylandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    weston_ = Weston::Start(&why);
    if (weston_ == nullptr) GTEST_SKIP() << why;
    rig_ = VulkanRig::Create(&why);
    if (rig_ == nullptr) GTEST_SKIP() << why;
    window_ = std::make_unique<WaylandWindow>(wl_display_connect(weston_->socket().c_str()));
    ASSERT_TRUE(window_->alive());
    surface_ = window_->NewSurface();
  }
  void TearDown() override {
    if (rig_ != nullptr) {
      EXPECT_EQ(rig_->complaints(), 0u) << "of the validation layer";
    }
    rig_.reset();
    DestroySurface(surface_);
    window_.reset();
    weston_.reset();
  }
  // Whether the output shows the frame, sooner or later (black edges aside, of which the patterns have none); inside of
  // `changed`, if given, and `before` outside.
  bool Shows(uint32_t frame, uint32_t before = 0, const VkRect2D* changed = nullptr) {
    std::vector<uint32_t> expected;
    for (uint32_t y = 0; y < kWindow.height; y++) {
      for (uint32_t x = 0; x < kWindow.width; x++) {
        const bool inside =
            changed == nullptr || (x - static_cast<uint32_t>(changed->offset.x) < changed->extent.width &&
                                   y - static_cast<uint32_t>(changed->offset.y) < changed->extent.height);
        expected.push_back(0xff000000 | PatternPixel(inside ? frame : before, x, y));
      }
    }
    const absl::Time deadline = absl::Now() + kPatience;
    testing::Picture picture;
    while (absl::Now() < deadline) {
      std::string why;
      if (!weston_->Screenshot(&picture, &why)) {
        ADD_FAILURE() << why;
        return false;
      }
      if (picture.width == kWindow.width && picture.height == kWindow.height && picture.pixels == expected) return true;
    }
    fprintf(stderr, "the output shows %u x %u pixels", picture.width, picture.height);
    for (size_t i = 0; i < std::min<size_t>(picture.pixels.size(), 4); i++) {
      fprintf(stderr, ", %08x for %08x", picture.pixels[i], expected[i]);
    }
    fprintf(stderr, "\n");
    return false;
  }
  VkResult PresentUntilItChanges(VkSwapchainKHR swapchain) {
    const absl::Time deadline = absl::Now() + kPatience;
    VkResult result = VK_SUCCESS;
    while (result == VK_SUCCESS && absl::Now() < deadline) result = rig_->PresentFrame(swapchain, 1);
    return result;
  }

  std::unique_ptr<Weston> weston_;
  std::unique_ptr<VulkanRig> rig_;
  std::unique_ptr<WaylandWindow> window_;
  VkSurfaceKHR surface_ = VK_NULL_HANDLE;
};

TEST_F(WaylandTest, TheSwapchainDecidesTheSize) {
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface_, &caps), VK_SUCCESS);
  EXPECT_EQ(caps.currentExtent.width, 0xffffffffu);
  EXPECT_GE(caps.maxImageExtent.width, 4096u);
  VkBool32 supported = VK_FALSE;
  ASSERT_EQ(GetSurfaceSupport(rig_->physical(), rig_->family(), surface_, &supported), VK_SUCCESS);
  EXPECT_EQ(supported, VK_TRUE);
  EXPECT_EQ(GetWaylandPresentationSupport(rig_->physical(), 0, window_->display()), VK_TRUE);
  EXPECT_EQ(GetWaylandPresentationSupport(rig_->physical(), 99, window_->display()), VK_FALSE);
}

TEST_F(WaylandTest, TheOutputShowsWhatWasRendered) {
  window_->Configure();
  uint32_t frame = 0;
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;
  for (const VkFormat format : {VK_FORMAT_B8G8R8A8_UNORM, VK_FORMAT_R8G8B8A8_UNORM}) {
    for (const VkPresentModeKHR mode : {VK_PRESENT_MODE_FIFO_KHR, VK_PRESENT_MODE_FIFO_RELAXED_KHR,
                                        VK_PRESENT_MODE_MAILBOX_KHR, VK_PRESENT_MODE_IMMEDIATE_KHR}) {
      swapchain = rig_->MakeSwapchain(
          {.surface = surface_, .extent = kWindow, .mode = mode, .format = format, .old = swapchain});
      for (int i = 0; i < 6; i++) ASSERT_EQ(rig_->PresentFrame(swapchain, ++frame), VK_SUCCESS);
      EXPECT_TRUE(Shows(frame)) << "format " << format << ", mode " << mode;
    }
  }
}

TEST_F(WaylandTest, OnlyWhatChangedIsRedrawn) {
  window_->Configure();
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface_, .extent = kWindow});
  ASSERT_EQ(rig_->PresentFrame(swapchain, 1), VK_SUCCESS);
  ASSERT_TRUE(Shows(1));
  // The rest of the new image is different too, which a program must not do: here it shows what was not taken over.
  const VkRectLayerKHR rect = {{100, 50}, {64, 32}, 0};
  const VkPresentRegionKHR region = {1, &rect};
  VkPresentRegionsKHR regions = {VK_STRUCTURE_TYPE_PRESENT_REGIONS_KHR};
  regions.swapchainCount = 1;
  regions.pRegions = &region;
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(swapchain, kForever, &index), VK_SUCCESS);
  rig_->Render(swapchain, index, 2);
  ASSERT_EQ(rig_->Present({swapchain}, {index}, nullptr, &regions), VK_SUCCESS);
  const VkRect2D changed = {{100, 50}, {64, 32}};
  EXPECT_TRUE(Shows(2, 1, &changed));
}

TEST_F(WaylandTest, FifoOfAHiddenSurfaceGoesOnSlowly) {
  // Without a role it is never shown, so the compositor never asks for a frame.
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface_, .extent = {32, 32}, .images = 2});
  for (uint32_t frame = 0; frame < 4; frame++) EXPECT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
}

TEST_F(WaylandTest, ACompositorThatDiesIsALostSurface) {
  window_->Configure();
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface_, .extent = kWindow});
  ASSERT_EQ(rig_->PresentFrame(swapchain, 0), VK_SUCCESS);
  weston_->Kill();
  EXPECT_EQ(PresentUntilItChanges(swapchain), VK_ERROR_SURFACE_LOST_KHR);
  uint32_t index = 0;
  EXPECT_EQ(rig_->Acquire(swapchain, kForever, &index), VK_ERROR_SURFACE_LOST_KHR);
  VkSurfaceCapabilitiesKHR caps = {};
  EXPECT_EQ(GetSurfaceCapabilities(rig_->physical(), surface_, &caps), VK_ERROR_SURFACE_LOST_KHR);
  VkSwapchainKHR young = VK_NULL_HANDLE;
  EXPECT_EQ(rig_->TryMakeSwapchain({.surface = surface_, .old = swapchain}, &young), VK_ERROR_SURFACE_LOST_KHR);
}

TEST_F(WaylandTest, AProtocolErrorIsALostSurface) {
  window_->TakeRole();  // not configured: a buffer is an error
  const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface_, .extent = kWindow});
  EXPECT_EQ(PresentUntilItChanges(swapchain), VK_ERROR_SURFACE_LOST_KHR);
}

TEST_F(WaylandTest, TheProgramReadsItsEventsMeanwhile) {
  window_->Configure();
  const VkSwapchainKHR swapchain =
      rig_->MakeSwapchain({.surface = surface_, .extent = kWindow, .mode = VK_PRESENT_MODE_MAILBOX_KHR});
  std::atomic<bool> done = false;
  std::thread program([&] {
    while (!done.load()) wl_display_roundtrip(window_->display());
  });
  for (uint32_t frame = 0; frame < 60; frame++) EXPECT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  done.store(true);
  program.join();
  EXPECT_TRUE(Shows(59));
}

// Compositors that are none: nothing to install.
struct Answer {
  std::string name, bytes;
};
void PrintTo(const Answer& answer, std::ostream* out) {
  *out << answer.name;
}
class HostileWaylandTest : public ::testing::TestWithParam<Answer> {};

TEST_P(HostileWaylandTest, NonsenseIsALostSurface) {
  std::string why;
  const std::unique_ptr<VulkanRig> rig = VulkanRig::Create(&why);
  if (rig == nullptr) GTEST_SKIP() << why;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  wl_display* display = wl_display_connect_to_fd(ends[0]);
  ASSERT_NE(display, nullptr);
  void* id = wl_proxy_create(static_cast<wl_proxy*>(static_cast<void*>(display)), &wl_surface_interface);
  VkWaylandSurfaceCreateInfoKHR info = {VK_STRUCTURE_TYPE_WAYLAND_SURFACE_CREATE_INFO_KHR};
  info.display = display;
  info.surface = static_cast<wl_surface*>(id);
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  ASSERT_EQ(CreateWaylandSurface(info, &surface), VK_SUCCESS);
  const std::string& bytes = GetParam().bytes;
  if (!bytes.empty()) {
    ASSERT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  close(ends[1]);
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;
  EXPECT_EQ(rig->TryMakeSwapchain({.surface = surface}, &swapchain), VK_ERROR_SURFACE_LOST_KHR);
  DestroySurface(surface);
  wl_proxy_destroy(static_cast<wl_proxy*>(id));
  wl_display_disconnect(display);
}

INSTANTIATE_TEST_SUITE_P(Answers, HostileWaylandTest,
                         ::testing::Values(Answer{"none", ""}, Answer{"zeros", std::string(64, '\0')},
                                           Answer{"ones", std::string(4096, '\xff')},
                                           Answer{"oversized", std::string("\1\0\0\0\0\0\xff\xff", 8)}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::wsi
