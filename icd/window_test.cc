// Presentation through the whole driver, on a surface without a window: the loader, the driver, a GPU Domain.
#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <cstring>
#include <vector>

#include "icd/testing/domain.h"
#include "icd/testing/program.h"

namespace sluice::icd::testing {
namespace {

constexpr VkExtent2D kExtent = {64, 32};
constexpr VkImageSubresourceRange kWhole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

class WindowSystem : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(domain_.Start());
    domain_.UseHere();
    ProgramOptions options;
    options.api_version = VK_API_VERSION_1_1;
    options.instance_extensions = {VK_KHR_SURFACE_EXTENSION_NAME, VK_EXT_HEADLESS_SURFACE_EXTENSION_NAME};
    options.device_extensions = {VK_KHR_SWAPCHAIN_EXTENSION_NAME};
    ASSERT_EQ(program_.Open(options), VK_SUCCESS);
    const auto create = reinterpret_cast<PFN_vkCreateHeadlessSurfaceEXT>(
        vkGetInstanceProcAddr(program_.instance(), "vkCreateHeadlessSurfaceEXT"));
    const VkHeadlessSurfaceCreateInfoEXT surface = {VK_STRUCTURE_TYPE_HEADLESS_SURFACE_CREATE_INFO_EXT};
    ASSERT_EQ(create(program_.instance(), &surface, nullptr, &surface_), VK_SUCCESS);
    VkSwapchainCreateInfoKHR info = {VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
    info.surface = surface_;
    info.minImageCount = 3;
    info.imageFormat = VK_FORMAT_B8G8R8A8_UNORM;
    info.imageExtent = kExtent;
    info.imageArrayLayers = 1;
    info.imageUsage = VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    info.preTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR;
    info.compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
    info.presentMode = VK_PRESENT_MODE_FIFO_KHR;
    ASSERT_EQ(vkCreateSwapchainKHR(program_.device(), &info, nullptr, &swapchain_), VK_SUCCESS);
    uint32_t count = 0;
    ASSERT_EQ(vkGetSwapchainImagesKHR(program_.device(), swapchain_, &count, nullptr), VK_SUCCESS);
    images_.resize(count);
    ASSERT_EQ(vkGetSwapchainImagesKHR(program_.device(), swapchain_, &count, images_.data()), VK_SUCCESS);
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    ASSERT_EQ(vkCreateCommandPool(program_.device(), &pool, nullptr, &pool_), VK_SUCCESS);
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.commandBufferCount = 1;
    ASSERT_EQ(vkAllocateCommandBuffers(program_.device(), &allocate, &commands_), VK_SUCCESS);
    const VkSemaphoreCreateInfo semaphore = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    ASSERT_EQ(vkCreateSemaphore(program_.device(), &semaphore, nullptr, &acquired_), VK_SUCCESS);
    ASSERT_EQ(vkCreateSemaphore(program_.device(), &semaphore, nullptr, &rendered_), VK_SUCCESS);
  }
  void TearDown() override {
    if (program_.device() == VK_NULL_HANDLE) return;
    vkDeviceWaitIdle(program_.device());
    vkDestroySemaphore(program_.device(), acquired_, nullptr);
    vkDestroySemaphore(program_.device(), rendered_, nullptr);
    vkDestroyCommandPool(program_.device(), pool_, nullptr);
    vkDestroySwapchainKHR(program_.device(), swapchain_, nullptr);
    vkDestroySurfaceKHR(program_.instance(), surface_, nullptr);
  }
  void Transition(VkImage image, VkImageLayout from, VkImageLayout to) {
    VkImageMemoryBarrier barrier = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_MEMORY_READ_BIT;
    barrier.oldLayout = from;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image;
    barrier.subresourceRange = kWhole;
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &barrier);
  }
  // A new image over the memory of a swapchain image.
  VkImage Alias(uint32_t index) {
    VkImageSwapchainCreateInfoKHR swapchain = {VK_STRUCTURE_TYPE_IMAGE_SWAPCHAIN_CREATE_INFO_KHR};
    swapchain.swapchain = swapchain_;
    VkImageCreateInfo info = {VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO, &swapchain};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_B8G8R8A8_UNORM;
    info.extent = {kExtent.width, kExtent.height, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    VkImage image = VK_NULL_HANDLE;
    EXPECT_EQ(vkCreateImage(program_.device(), &info, nullptr, &image), VK_SUCCESS);
    VkBindImageMemorySwapchainInfoKHR memory = {VK_STRUCTURE_TYPE_BIND_IMAGE_MEMORY_SWAPCHAIN_INFO_KHR};
    memory.swapchain = swapchain_;
    memory.imageIndex = index;
    VkBindImageMemoryInfo bind = {VK_STRUCTURE_TYPE_BIND_IMAGE_MEMORY_INFO, &memory};
    bind.image = image;
    EXPECT_EQ(vkBindImageMemory2(program_.device(), 1, &bind), VK_SUCCESS);
    aliases_.push_back(image);
    return image;
  }
  // Acquires an image, clears it, or through an alias of it, and presents it.
  void ClearAndPresent(bool alias, float red) {
    uint32_t index = 0;
    ASSERT_EQ(vkAcquireNextImageKHR(program_.device(), swapchain_, UINT64_MAX, acquired_, VK_NULL_HANDLE, &index),
              VK_SUCCESS);
    const VkImage image = alias ? Alias(index) : images_[index];
    ASSERT_NE(image, static_cast<VkImage>(VK_NULL_HANDLE));
    ASSERT_EQ(vkQueueWaitIdle(program_.queue()), VK_SUCCESS);  // the commands are used again
    const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    ASSERT_EQ(vkBeginCommandBuffer(commands_, &begin), VK_SUCCESS);
    Transition(image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    const VkClearColorValue color = {{red, 0, 0, 1}};
    vkCmdClearColorImage(commands_, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &color, 1, &kWhole);
    Transition(image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    ASSERT_EQ(vkEndCommandBuffer(commands_), VK_SUCCESS);
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.waitSemaphoreCount = 1;
    submit.pWaitSemaphores = &acquired_;
    submit.pWaitDstStageMask = &stage;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &rendered_;
    ASSERT_EQ(vkQueueSubmit(program_.queue(), 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
    VkPresentInfoKHR present = {VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
    present.waitSemaphoreCount = 1;
    present.pWaitSemaphores = &rendered_;
    present.swapchainCount = 1;
    present.pSwapchains = &swapchain_;
    present.pImageIndices = &index;
    ASSERT_EQ(vkQueuePresentKHR(program_.queue(), &present), VK_SUCCESS);
  }

  Domain domain_;
  Program program_;
  VkSurfaceKHR surface_ = VK_NULL_HANDLE;
  VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
  std::vector<VkImage> images_;
  std::vector<VkImage> aliases_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkSemaphore acquired_ = VK_NULL_HANDLE, rendered_ = VK_NULL_HANDLE;
};

TEST_F(WindowSystem, FramesArePresented) {
  for (int frame = 0; frame < 20; frame++) ClearAndPresent(false, 0.05f * static_cast<float>(frame));
  EXPECT_EQ(vkDeviceWaitIdle(program_.device()), VK_SUCCESS);
}

TEST_F(WindowSystem, ImagesAliasThoseOfASwapchain) {
  for (int frame = 0; frame < 4; frame++) ClearAndPresent(true, 0.2f * static_cast<float>(frame));
  EXPECT_EQ(vkDeviceWaitIdle(program_.device()), VK_SUCCESS);
  for (const VkImage image : aliases_) vkDestroyImage(program_.device(), image, nullptr);
  EXPECT_EQ(program_.Fill(0x1234), VK_SUCCESS);  // the context is alive
}

}  // namespace
}  // namespace sluice::icd::testing
