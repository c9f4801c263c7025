#include <cstring>

#include "tests/vulkan/lib/gpu.h"

// Recording, submitting, and moving images in and out.
namespace sluice::vktest {

void Gpu::Begin(VkCommandBuffer commands, VkCommandBufferUsageFlags flags) const {
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = flags};
  VK(vkBeginCommandBuffer(commands, &info));
}

void Gpu::Submit(VkCommandBuffer commands, VkFence fence) const {
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  VK(vkQueueSubmit(queue, 1, &submit, fence));
}

void Gpu::Wait(VkFence fence) const {
  VK(vkWaitForFences(device, 1, &fence, VK_TRUE, kTimeoutNs));
}

void Gpu::SubmitAndWait(VkCommandBuffer commands) {
  Submit(commands, fence_);
  Wait(fence_);
  VK(vkResetFences(device, 1, &fence_));
}

void Gpu::Run(const std::function<void(VkCommandBuffer)>& record) {
  const VkCommandBuffer commands = MakeCommands();
  Begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  record(commands);
  FullBarrier(commands);
  VK(vkEndCommandBuffer(commands));
  SubmitAndWait(commands);
  vkFreeCommandBuffers(device, pool, 1, &commands);
}

namespace {

VkBufferImageCopy WholeLevel(const Image& image, uint32_t mip, uint32_t layer, VkImageAspectFlags aspect) {
  const auto level = [mip](uint32_t extent) { return extent >> mip == 0 ? 1 : extent >> mip; };
  VkBufferImageCopy region = {};
  region.imageSubresource = {aspect != 0 ? aspect : image.options.aspect, mip, layer, 1};
  region.imageExtent = {level(image.options.extent.width), level(image.options.extent.height),
                        image.options.type == VK_IMAGE_TYPE_3D ? level(image.options.extent.depth) : 1};
  return region;
}

}  // namespace

std::vector<uint8_t> Gpu::Read(const Image& image, uint32_t mip, uint32_t layer, VkImageAspectFlags aspect) {
  const VkBufferImageCopy region = WholeLevel(image, mip, layer, aspect);
  const uint32_t texel = TexelBytes(image.options.format, region.imageSubresource.aspectMask);
  if (texel == 0) Fatal("TexelBytes does not know format %d", static_cast<int>(image.options.format));
  const size_t size = size_t{texel} * region.imageExtent.width * region.imageExtent.height * region.imageExtent.depth;
  const Buffer buffer = MakeBuffer(size, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  Run([&](VkCommandBuffer commands) {
    FullBarrier(commands);
    vkCmdCopyImageToBuffer(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, buffer.buffer, 1, &region);
  });
  return std::vector<uint8_t>(buffer.as<uint8_t>(), buffer.as<uint8_t>() + size);
}

void Gpu::Write(const Image& image, const void* data, size_t size, uint32_t mip, uint32_t layer) {
  const Buffer buffer = MakeBuffer(size, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  memcpy(buffer.data, data, size);
  const VkBufferImageCopy region = WholeLevel(image, mip, layer, 0);
  Run([&](VkCommandBuffer commands) {
    // Only this level and layer: what the others hold stays.
    VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.newLayout = VK_IMAGE_LAYOUT_GENERAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image.image;
    barrier.subresourceRange = {image.options.aspect, mip, 1, layer, 1};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &barrier);
    vkCmdCopyBufferToImage(commands, buffer.buffer, image.image, VK_IMAGE_LAYOUT_GENERAL, 1, &region);
  });
}

void FullBarrier(VkCommandBuffer commands) {
  VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  constexpr VkPipelineStageFlags kAll = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT;
  vkCmdPipelineBarrier(commands, kAll, kAll, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void ToLayout(VkCommandBuffer commands, const Image& image, VkImageLayout from, VkImageLayout to) {
  VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.oldLayout = from;
  barrier.newLayout = to;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.image = image.image;
  barrier.subresourceRange = image.whole();
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr,
                       0, nullptr, 1, &barrier);
}

uint32_t TexelBytes(VkFormat format, VkImageAspectFlags aspect) {
  if (aspect == VK_IMAGE_ASPECT_STENCIL_BIT) return 1;
  switch (format) {
    case VK_FORMAT_R8_UNORM:
    case VK_FORMAT_R8_UINT:
    case VK_FORMAT_R8_SNORM:
    case VK_FORMAT_R8_SINT:
    case VK_FORMAT_S8_UINT:
      return 1;
    case VK_FORMAT_R8G8_UNORM:
    case VK_FORMAT_R16_UINT:
    case VK_FORMAT_R16_SFLOAT:
    case VK_FORMAT_R5G6B5_UNORM_PACK16:
    case VK_FORMAT_A1R5G5B5_UNORM_PACK16:
    case VK_FORMAT_D16_UNORM:
    case VK_FORMAT_R16_UNORM:
    case VK_FORMAT_R8G8_UINT:
      return 2;
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_R8G8B8A8_SRGB:
    case VK_FORMAT_R8G8B8A8_UINT:
    case VK_FORMAT_R8G8B8A8_SINT:
    case VK_FORMAT_R8G8B8A8_SNORM:
    case VK_FORMAT_B8G8R8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_SRGB:
    case VK_FORMAT_R32_UINT:
    case VK_FORMAT_R32_SINT:
    case VK_FORMAT_R32_SFLOAT:
    case VK_FORMAT_R16G16_SFLOAT:
    case VK_FORMAT_R16G16_UINT:
    case VK_FORMAT_A2B10G10R10_UNORM_PACK32:
    case VK_FORMAT_B10G11R11_UFLOAT_PACK32:
    case VK_FORMAT_E5B9G9R9_UFLOAT_PACK32:
    case VK_FORMAT_D32_SFLOAT:
    case VK_FORMAT_D24_UNORM_S8_UINT:
    case VK_FORMAT_X8_D24_UNORM_PACK32:
    case VK_FORMAT_D32_SFLOAT_S8_UINT:
      return 4;
    case VK_FORMAT_R16G16B16A16_SFLOAT:
    case VK_FORMAT_R16G16B16A16_UNORM:
    case VK_FORMAT_R32G32_SFLOAT:
    case VK_FORMAT_R32G32_UINT:
    case VK_FORMAT_R16G16B16A16_UINT:
      return 8;
    case VK_FORMAT_R32G32B32A32_SFLOAT:
    case VK_FORMAT_R32G32B32A32_UINT:
    case VK_FORMAT_R32G32B32A32_SINT:
      return 16;
    default:
      return 0;
  }
}

}  // namespace sluice::vktest
