// Swapchains on surfaces without a window: who owns which image, in what order frames are shown, what each mode drops.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "icd/wsi/testing/vulkan_rig.h"
#include "vmm/base/mutex.h"

namespace sluice::wsi {
namespace {

using testing::PatternPixel;
using testing::SwapchainRequest;
using testing::VulkanRig;

constexpr uint64_t kForever = UINT64_MAX;

// Collects shown frames by their first pixels, and can hold the display still.
class Display {
 public:
  explicit Display(VkSurfaceKHR surface) {
    SetHeadlessSink(surface, [this](const HeadlessFrame& frame) { Show(frame); });
  }

  // The next frame is shown, and none after it until Go().
  void Hold() {
    MutexLock lock(&mu_);
    held_ = true;
  }
  void Go() {
    MutexLock lock(&mu_);
    held_ = false;
    changed_.SignalAll();
  }
  // Waits until `count` frames have been shown in all.
  std::vector<uint32_t> WaitFrames(size_t count) {
    MutexLock lock(&mu_);
    while (frames_.size() < count) changed_.Wait(&mu_);
    return frames_;
  }

 private:
  void Show(const HeadlessFrame& frame) {
    MutexLock lock(&mu_);
    frames_.push_back(Recognize(frame));
    changed_.SignalAll();
    while (held_) changed_.Wait(&mu_);
  }
  // The number of the pattern that all pixels show; 9999: none.
  static uint32_t Recognize(const HeadlessFrame& frame) {
    for (uint32_t number = 0; number < 256; number++) {
      bool all = true;
      for (uint32_t y = 0; all && y < frame.height; y++) {
        for (uint32_t x = 0; all && x < frame.width; x++) {
          uint32_t pixel;
          memcpy(&pixel, frame.pixels + (size_t{y} * frame.width + x) * 4, 4);
          all = pixel == PatternPixel(number, x, y);
        }
      }
      if (all) return number;
    }
    return 9999;
  }

  Mutex mu_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<uint32_t> frames_ ABSL_GUARDED_BY(mu_);
};

class HeadlessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    rig_ = VulkanRig::Create(&why);
    if (rig_ == nullptr) GTEST_SKIP() << why;
    surface_ = NewSurface();
    display_ = std::make_unique<Display>(surface_);
  }
  void TearDown() override {
    if (rig_ == nullptr) return;
    display_->Go();
    EXPECT_EQ(rig_->complaints(), 0u) << "of the validation layer";
    rig_.reset();
    for (const VkSurfaceKHR surface : surfaces_) DestroySurface(surface);
  }
  VkSurfaceKHR NewSurface() {
    VkSurfaceKHR surface = VK_NULL_HANDLE;
    const VkHeadlessSurfaceCreateInfoEXT info = {VK_STRUCTURE_TYPE_HEADLESS_SURFACE_CREATE_INFO_EXT};
    EXPECT_EQ(CreateHeadlessSurface(info, &surface), VK_SUCCESS);
    surfaces_.push_back(surface);
    return surface;
  }
  VkSwapchainKHR Make(VkPresentModeKHR mode, uint32_t images = 3) {
    return rig_->MakeSwapchain({.surface = surface_, .mode = mode, .images = images});
  }

  std::unique_ptr<VulkanRig> rig_;
  VkSurfaceKHR surface_ = VK_NULL_HANDLE;
  std::vector<VkSurfaceKHR> surfaces_;
  std::unique_ptr<Display> display_;
};

TEST_F(HeadlessTest, CapabilitiesAllowWhatWorks) {
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface_, &caps), VK_SUCCESS);
  EXPECT_EQ(caps.currentExtent.width, 0xffffffffu);
  EXPECT_GE(caps.minImageCount, 1u);
  EXPECT_GE(caps.maxImageCount, 3u);
  EXPECT_NE(caps.supportedUsageFlags & VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT, 0u);
  VkBool32 supported = VK_FALSE;
  ASSERT_EQ(GetSurfaceSupport(rig_->physical(), rig_->family(), surface_, &supported), VK_SUCCESS);
  EXPECT_EQ(supported, VK_TRUE);
  ASSERT_EQ(GetSurfaceSupport(rig_->physical(), 99, surface_, &supported), VK_SUCCESS);
  EXPECT_EQ(supported, VK_FALSE);
}

TEST_F(HeadlessTest, ArraysAreReturnedInParts) {
  uint32_t count = 0;
  ASSERT_EQ(GetSurfacePresentModes(rig_->physical(), surface_, &count, nullptr), VK_SUCCESS);
  ASSERT_GE(count, 3u);
  std::vector<VkPresentModeKHR> modes(count);
  count = 1;
  EXPECT_EQ(GetSurfacePresentModes(rig_->physical(), surface_, &count, modes.data()), VK_INCOMPLETE);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(modes[0], VK_PRESENT_MODE_FIFO_KHR);

  count = 0;
  ASSERT_EQ(GetSurfaceFormats(rig_->physical(), surface_, &count, nullptr), VK_SUCCESS);
  std::vector<VkSurfaceFormatKHR> formats(count);
  ASSERT_EQ(GetSurfaceFormats(rig_->physical(), surface_, &count, formats.data()), VK_SUCCESS);
  std::vector<VkSurfaceFormat2KHR> formats2(count, {VK_STRUCTURE_TYPE_SURFACE_FORMAT_2_KHR});
  VkPhysicalDeviceSurfaceInfo2KHR info = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SURFACE_INFO_2_KHR};
  info.surface = surface_;
  ASSERT_EQ(GetSurfaceFormats2(rig_->physical(), info, &count, formats2.data()), VK_SUCCESS);
  for (uint32_t i = 0; i < count; i++) EXPECT_EQ(formats[i].format, formats2[i].surfaceFormat.format);
  EXPECT_EQ(formats[0].format, VK_FORMAT_B8G8R8A8_UNORM);
}

TEST_F(HeadlessTest, FifoShowsEveryFrameInOrder) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR);
  std::vector<uint32_t> expected;
  for (uint32_t frame = 0; frame < 12; frame++) {
    ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
    expected.push_back(frame);
  }
  EXPECT_EQ(display_->WaitFrames(12), expected);
}

TEST_F(HeadlessTest, EveryFormatArrivesAsRendered) {
  for (const VkFormat format : {VK_FORMAT_B8G8R8A8_UNORM, VK_FORMAT_B8G8R8A8_SRGB}) {
    const VkSwapchainKHR swapchain = rig_->MakeSwapchain({.surface = surface_, .extent = {61, 7}, .format = format});
    ASSERT_EQ(rig_->PresentFrame(swapchain, 5), VK_SUCCESS);
    rig_->DestroySwapchain(swapchain);
  }
  EXPECT_EQ(display_->WaitFrames(2), (std::vector<uint32_t>{5, 5}));
}

TEST_F(HeadlessTest, FifoBlocksAProgramThatIsFaster) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR);
  display_->Hold();
  for (uint32_t frame = 0; frame < 3; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  display_->WaitFrames(1);  // is being shown; two more wait
  uint32_t index = 0;
  EXPECT_EQ(rig_->Acquire(swapchain, 0, &index), VK_NOT_READY);
  EXPECT_EQ(rig_->Acquire(swapchain, 1'000'000, &index), VK_TIMEOUT);
  display_->Go();
  EXPECT_EQ(rig_->PresentFrame(swapchain, 3), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(4), (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST_F(HeadlessTest, MailboxShowsTheNewest) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_MAILBOX_KHR);
  display_->Hold();
  ASSERT_EQ(rig_->PresentFrame(swapchain, 0), VK_SUCCESS);
  display_->WaitFrames(1);
  for (uint32_t frame = 1; frame < 3; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  display_->Go();
  EXPECT_EQ(display_->WaitFrames(2), (std::vector<uint32_t>{0, 2}));
}

TEST_F(HeadlessTest, MailboxGivesReplacedImagesBack) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_MAILBOX_KHR);
  // Far more than 60 a second: only possible when images come back without having been shown.
  for (uint32_t frame = 0; frame < 200; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  std::vector<uint32_t> frames = display_->WaitFrames(1);
  while (frames.back() != 199) frames = display_->WaitFrames(frames.size() + 1);
  EXPECT_LT(frames.size(), 200u);
  EXPECT_TRUE(std::is_sorted(frames.begin(), frames.end()));
}

TEST_F(HeadlessTest, ImmediateShowsEveryFrame) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_IMMEDIATE_KHR, 2);
  for (uint32_t frame = 0; frame < 100; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(100).back(), 99u);
}

TEST_F(HeadlessTest, RelaxedFifoShowsEveryFrameInOrder) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_RELAXED_KHR);
  for (uint32_t frame = 0; frame < 6; frame++) ASSERT_EQ(rig_->PresentFrame(swapchain, frame), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(6), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(HeadlessTest, ImagesCanBePresentedOutOfOrder) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR);
  uint32_t first = 0, second = 0;
  ASSERT_EQ(rig_->Acquire(swapchain, kForever, &first), VK_SUCCESS);
  ASSERT_EQ(rig_->Acquire(swapchain, kForever, &second), VK_SUCCESS);
  EXPECT_NE(first, second);
  rig_->Render(swapchain, second, 2);
  ASSERT_EQ(rig_->Present({swapchain}, {second}), VK_SUCCESS);
  rig_->Render(swapchain, first, 1);
  ASSERT_EQ(rig_->Present({swapchain}, {first}), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(2), (std::vector<uint32_t>{2, 1}));
}

TEST_F(HeadlessTest, MoreImagesThanThereAreTimesOut) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_IMMEDIATE_KHR, 2);
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(swapchain, 0, &index), VK_SUCCESS);
  ASSERT_EQ(rig_->Acquire(swapchain, 0, &index), VK_SUCCESS);
  EXPECT_EQ(rig_->Acquire(swapchain, 0, &index), VK_NOT_READY);
  EXPECT_EQ(rig_->Acquire(swapchain, 1000, &index), VK_TIMEOUT);
}

TEST_F(HeadlessTest, AnImageThatWasNotAcquiredIsNotPresented) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_IMMEDIATE_KHR);
  VkPresentInfoKHR info = {VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
  info.swapchainCount = 1;
  info.pSwapchains = &swapchain;
  for (const uint32_t index : {0u, 77u}) {
    info.pImageIndices = &index;
    EXPECT_EQ(QueuePresent(rig_->wsi(), rig_->queue(), rig_->family(), info), VK_ERROR_UNKNOWN);
  }
}

TEST_F(HeadlessTest, OneSwapchainPerSurface) {
  Make(VK_PRESENT_MODE_FIFO_KHR);
  VkSwapchainKHR second = VK_NULL_HANDLE;
  EXPECT_EQ(rig_->TryMakeSwapchain({.surface = surface_}, &second), VK_ERROR_NATIVE_WINDOW_IN_USE_KHR);
  EXPECT_EQ(second, static_cast<VkSwapchainKHR>(VK_NULL_HANDLE));
}

TEST_F(HeadlessTest, ASurfaceIsFreeAgainAfterItsSwapchain) {
  for (int i = 0; i < 3; i++) rig_->DestroySwapchain(Make(VK_PRESENT_MODE_FIFO_KHR));
}

TEST_F(HeadlessTest, AnOldSwapchainIsRetired) {
  const VkSwapchainKHR old = Make(VK_PRESENT_MODE_FIFO_KHR);
  uint32_t held = 0, index = 0;
  ASSERT_EQ(rig_->Acquire(old, kForever, &held), VK_SUCCESS);
  const VkSwapchainKHR young = rig_->MakeSwapchain({.surface = surface_, .extent = {32, 32}, .old = old});
  EXPECT_EQ(rig_->Acquire(old, kForever, &index), VK_ERROR_OUT_OF_DATE_KHR);
  // What was acquired before may still be shown.
  rig_->Render(old, held, 4);
  EXPECT_GE(rig_->Present({old}, {held}), 0);
  EXPECT_EQ(display_->WaitFrames(1), std::vector<uint32_t>{4});
  rig_->DestroySwapchain(old);
  ASSERT_EQ(rig_->PresentFrame(young, 5), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(2), (std::vector<uint32_t>{4, 5}));
}

TEST_F(HeadlessTest, AnOldSwapchainShowsItsLastFrameBeforeTheNewOneStarts) {
  const VkSwapchainKHR old = Make(VK_PRESENT_MODE_FIFO_KHR);
  for (uint32_t frame = 0; frame < 3; frame++) ASSERT_EQ(rig_->PresentFrame(old, frame), VK_SUCCESS);
  const VkSwapchainKHR young = rig_->MakeSwapchain({.surface = surface_, .old = old});
  ASSERT_EQ(rig_->PresentFrame(young, 9), VK_SUCCESS);
  std::vector<uint32_t> frames = display_->WaitFrames(2);
  while (frames.back() != 9) frames = display_->WaitFrames(frames.size() + 1);
  ASSERT_GE(frames.size(), 2u);
  EXPECT_EQ(frames[frames.size() - 2], 2u);
}

TEST_F(HeadlessTest, AnOldSwapchainIsRetiredEvenIfTheNewOneFails) {
  const VkSwapchainKHR old = Make(VK_PRESENT_MODE_FIFO_KHR);
  VkSwapchainKHR young = VK_NULL_HANDLE;
  EXPECT_LT(rig_->TryMakeSwapchain({.surface = surface_, .extent = {0, 0}, .old = old}, &young), 0);
  uint32_t index = 0;
  EXPECT_EQ(rig_->Acquire(old, kForever, &index), VK_ERROR_OUT_OF_DATE_KHR);
  Make(VK_PRESENT_MODE_FIFO_KHR);  // the surface is free
}

TEST_F(HeadlessTest, RetiringWakesWhoWaitsForAnImage) {
  const VkSwapchainKHR old = Make(VK_PRESENT_MODE_FIFO_KHR, 2);
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(old, 0, &index), VK_SUCCESS);
  ASSERT_EQ(rig_->Acquire(old, 0, &index), VK_SUCCESS);
  std::thread waiter([&] {
    uint32_t third = 0;
    EXPECT_EQ(rig_->Acquire(old, kForever, &third), VK_ERROR_OUT_OF_DATE_KHR);
  });
  VkSwapchainKHR young = VK_NULL_HANDLE;
  VkSwapchainCreateInfoKHR info = {VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
  info.surface = surface_;
  info.minImageCount = 2;
  info.imageFormat = VK_FORMAT_B8G8R8A8_UNORM;
  info.imageExtent = {8, 8};
  info.imageArrayLayers = 1;
  info.imageUsage = VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  info.compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
  info.presentMode = VK_PRESENT_MODE_FIFO_KHR;
  info.oldSwapchain = old;
  ASSERT_EQ(CreateSwapchain(rig_->wsi(), info, &young), VK_SUCCESS);
  waiter.join();
  DestroySwapchain(young);
}

TEST_F(HeadlessTest, SeveralSwapchainsInOnePresent) {
  const VkSurfaceKHR other = NewSurface();
  Display other_display(other);
  const VkSwapchainKHR first = Make(VK_PRESENT_MODE_FIFO_KHR);
  const VkSwapchainKHR second = rig_->MakeSwapchain({.surface = other, .extent = {16, 16}});
  for (uint32_t frame = 0; frame < 4; frame++) {
    std::vector<uint32_t> indices(2);
    ASSERT_EQ(rig_->Acquire(first, kForever, &indices[0]), VK_SUCCESS);
    ASSERT_EQ(rig_->Acquire(second, kForever, &indices[1]), VK_SUCCESS);
    rig_->Render(first, indices[0], frame);
    rig_->Render(second, indices[1], 100 + frame);
    std::vector<VkResult> results;
    ASSERT_EQ(rig_->Present({first, second}, indices, &results), VK_SUCCESS);
    EXPECT_EQ(results, (std::vector<VkResult>{VK_SUCCESS, VK_SUCCESS}));
  }
  EXPECT_EQ(display_->WaitFrames(4), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(other_display.WaitFrames(4), (std::vector<uint32_t>{100, 101, 102, 103}));
}

TEST_F(HeadlessTest, AnImageCanAliasASwapchainImage) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR);
  VkImageCreateInfo info = {VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  info.imageType = VK_IMAGE_TYPE_2D;
  info.format = VK_FORMAT_B8G8R8A8_UNORM;
  info.extent = {64, 48, 1};
  info.mipLevels = info.arrayLayers = 1;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  CompleteAlias(swapchain, &info);
  VkImage alias = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateImage(rig_->device(), &info, nullptr, &alias), VK_SUCCESS);
  VkMemoryRequirements needs = {};
  vkGetImageMemoryRequirements(rig_->device(), alias, &needs);
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(swapchain, kForever, &index), VK_SUCCESS);
  ASSERT_EQ(vkBindImageMemory(rig_->device(), alias, ImageMemory(swapchain, index), 0), VK_SUCCESS);
  rig_->Render(swapchain, index, 1);
  rig_->FillImage(alias, {64, 48}, VK_FORMAT_B8G8R8A8_UNORM, 2, VK_NULL_HANDLE, VK_NULL_HANDLE);
  ASSERT_EQ(rig_->Present({swapchain}, {index}), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(1), std::vector<uint32_t>{2});
  EXPECT_EQ(ImageMemory(swapchain, 99), static_cast<VkDeviceMemory>(VK_NULL_HANDLE));
  rig_->DestroySwapchain(swapchain);
  vkDestroyImage(rig_->device(), alias, nullptr);
}

TEST_F(HeadlessTest, MutableFormatsAllowViewsOfAnotherFormat) {
  const VkFormat formats[] = {VK_FORMAT_B8G8R8A8_UNORM, VK_FORMAT_B8G8R8A8_SRGB};
  VkImageFormatListCreateInfo list = {VK_STRUCTURE_TYPE_IMAGE_FORMAT_LIST_CREATE_INFO};
  list.viewFormatCount = 2;
  list.pViewFormats = formats;
  const VkSwapchainKHR swapchain =
      rig_->MakeSwapchain({.surface = surface_, .flags = VK_SWAPCHAIN_CREATE_MUTABLE_FORMAT_BIT_KHR, .next = &list});
  uint32_t count = 1;
  VkImage image = VK_NULL_HANDLE;
  ASSERT_EQ(GetSwapchainImages(swapchain, &count, &image), VK_INCOMPLETE);
  VkImageViewCreateInfo info = {VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
  info.image = image;
  info.viewType = VK_IMAGE_VIEW_TYPE_2D;
  info.format = VK_FORMAT_B8G8R8A8_SRGB;
  info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  VkImageView view = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateImageView(rig_->device(), &info, nullptr, &view), VK_SUCCESS);
  vkDestroyImageView(rig_->device(), view, nullptr);
}

TEST_F(HeadlessTest, ImageCountRules) {
  VkSurfaceCapabilitiesKHR caps = {};
  ASSERT_EQ(GetSurfaceCapabilities(rig_->physical(), surface_, &caps), VK_SUCCESS);
  for (const uint32_t images : {caps.minImageCount, caps.maxImageCount}) {
    const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR, images);
    uint32_t count = 0;
    ASSERT_EQ(GetSwapchainImages(swapchain, &count, nullptr), VK_SUCCESS);
    EXPECT_GE(count, images);
    rig_->DestroySwapchain(swapchain);
  }
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;
  EXPECT_LT(rig_->TryMakeSwapchain({.surface = surface_, .images = UINT32_MAX}, &swapchain), 0);
  EXPECT_LT(rig_->TryMakeSwapchain({.surface = surface_, .extent = {UINT32_MAX, UINT32_MAX}}, &swapchain), 0);
  EXPECT_LT(rig_->TryMakeSwapchain({.surface = surface_, .format = VK_FORMAT_R16G16B16A16_SFLOAT}, &swapchain), 0);
}

TEST_F(HeadlessTest, DamageBeyondTheImageIsHarmless) {
  const VkSwapchainKHR swapchain = Make(VK_PRESENT_MODE_FIFO_KHR);
  const VkRectLayerKHR rects[] = {{{-5, -5}, {UINT32_MAX, 3}, 0}, {{INT32_MAX, 0}, {UINT32_MAX, UINT32_MAX}, 0}};
  const VkPresentRegionKHR region = {2, rects};
  VkPresentRegionsKHR regions = {VK_STRUCTURE_TYPE_PRESENT_REGIONS_KHR};
  regions.swapchainCount = 1;
  regions.pRegions = &region;
  uint32_t index = 0;
  ASSERT_EQ(rig_->Acquire(swapchain, kForever, &index), VK_SUCCESS);
  rig_->Render(swapchain, index, 3);
  ASSERT_EQ(rig_->Present({swapchain}, {index}, nullptr, &regions), VK_SUCCESS);
  EXPECT_EQ(display_->WaitFrames(1), std::vector<uint32_t>{3});
}

TEST_F(HeadlessTest, DeviceGroupsOfOne) {
  VkDeviceGroupPresentCapabilitiesKHR caps = {VK_STRUCTURE_TYPE_DEVICE_GROUP_PRESENT_CAPABILITIES_KHR};
  ASSERT_EQ(GetDeviceGroupPresentCapabilities(&caps), VK_SUCCESS);
  EXPECT_EQ(caps.presentMask[0], 1u);
  EXPECT_EQ(caps.presentMask[1], 0u);
  VkDeviceGroupPresentModeFlagsKHR modes = 0;
  ASSERT_EQ(GetDeviceGroupSurfacePresentModes(surface_, &modes), VK_SUCCESS);
  EXPECT_EQ(modes, static_cast<VkDeviceGroupPresentModeFlagsKHR>(VK_DEVICE_GROUP_PRESENT_MODE_LOCAL_BIT_KHR));
  uint32_t count = 0;
  ASSERT_EQ(GetPresentRectangles(rig_->physical(), surface_, &count, nullptr), VK_SUCCESS);
  EXPECT_EQ(count, 1u);
}

}  // namespace
}  // namespace sluice::wsi
