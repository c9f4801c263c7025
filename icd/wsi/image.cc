#include "icd/wsi/image.h"

#include <algorithm>

namespace sluice::wsi {
namespace {

constexpr VkImageSubresourceRange kWholeImage = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

// The first memory type of `types` that has all of `flags`; -1: none.
int FindType(const VkPhysicalDeviceMemoryProperties& memory, uint32_t types, VkMemoryPropertyFlags flags) {
  for (uint32_t i = 0; i < std::min(memory.memoryTypeCount, VK_MAX_MEMORY_TYPES); i++) {
    if ((types >> i & 1) != 0 && (memory.memoryTypes[i].propertyFlags & flags) == flags) return static_cast<int>(i);
  }
  return -1;
}

// As FindType, for the first of several wishes that has one.
int FindType(const VkPhysicalDeviceMemoryProperties& memory, uint32_t types,
             std::initializer_list<VkMemoryPropertyFlags> wishes) {
  for (const VkMemoryPropertyFlags flags : wishes) {
    if (const int type = FindType(memory, types, flags); type >= 0) return type;
  }
  return -1;
}

VkResult Allocate(const Device& device, const VkMemoryRequirements& needs,
                  std::initializer_list<VkMemoryPropertyFlags> wishes, VkDeviceMemory* memory,
                  VkMemoryPropertyFlags* got) {
  const int type = FindType(device.memory(), needs.memoryTypeBits, wishes);
  if (type < 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  *got = device.memory().memoryTypes[type].propertyFlags;
  VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = needs.size;
  info.memoryTypeIndex = static_cast<uint32_t>(type);
  return device.vk().AllocateMemory(device.handle(), &info, nullptr, memory);
}

// Batches wait before any of their commands: the copy is the first thing they do with the image.
VkResult Submit(const Device& device, VkQueue queue, std::span<const VkSemaphore> waits,
                std::span<const VkCommandBuffer> commands, VkFence fence) {
  const std::vector<VkPipelineStageFlags> stages(waits.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.waitSemaphoreCount = static_cast<uint32_t>(waits.size());
  submit.pWaitSemaphores = waits.data();
  submit.pWaitDstStageMask = stages.data();
  submit.commandBufferCount = static_cast<uint32_t>(commands.size());
  submit.pCommandBuffers = commands.data();
  return device.vk().QueueSubmit(queue, 1, &submit, fence);
}

}  // namespace

VkImageCreateFlags ImageFlags(VkSwapchainCreateFlagsKHR flags) {
  VkImageCreateFlags image = VK_IMAGE_CREATE_ALIAS_BIT;
  if ((flags & VK_SWAPCHAIN_CREATE_MUTABLE_FORMAT_BIT_KHR) != 0) {
    image |= VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT | VK_IMAGE_CREATE_EXTENDED_USAGE_BIT;
  }
  return image;
}

SwapchainImage::~SwapchainImage() {
  const DeviceFunctions& vk = device_.vk();
  vk.DestroyFence(device_.handle(), fence_, nullptr);
  vk.DestroyBuffer(device_.handle(), buffer_, nullptr);
  vk.FreeMemory(device_.handle(), buffer_memory_, nullptr);  // unmaps
  vk.DestroyImage(device_.handle(), image_, nullptr);
  vk.FreeMemory(device_.handle(), memory_, nullptr);
}

VkResult SwapchainImage::Init(const VkSwapchainCreateInfoKHR& info) {
  extent_ = info.imageExtent;
  if (const VkResult r = InitImage(info); r != VK_SUCCESS) return r;
  if (const VkResult r = InitBuffer(); r != VK_SUCCESS) return r;
  const VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  return device_.vk().CreateFence(device_.handle(), &fence, nullptr, &fence_);
}

VkResult SwapchainImage::InitImage(const VkSwapchainCreateInfoKHR& info) {
  VkImageFormatListCreateInfo formats = {VK_STRUCTURE_TYPE_IMAGE_FORMAT_LIST_CREATE_INFO};
  VkImageCreateInfo image = {VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  for (auto* next = static_cast<const VkBaseInStructure*>(info.pNext); next != nullptr; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_IMAGE_FORMAT_LIST_CREATE_INFO) continue;
    const void* chained = next;
    formats = *static_cast<const VkImageFormatListCreateInfo*>(chained);
    formats.pNext = nullptr;
    image.pNext = &formats;
  }
  image.flags = ImageFlags(info.flags);
  image.imageType = VK_IMAGE_TYPE_2D;
  image.format = info.imageFormat;
  image.extent = {info.imageExtent.width, info.imageExtent.height, 1};
  image.mipLevels = 1;
  image.arrayLayers = info.imageArrayLayers;
  image.samples = VK_SAMPLE_COUNT_1_BIT;
  image.tiling = VK_IMAGE_TILING_OPTIMAL;
  image.usage = info.imageUsage | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
  image.sharingMode = info.imageSharingMode;
  if (info.imageSharingMode == VK_SHARING_MODE_CONCURRENT) {
    image.queueFamilyIndexCount = info.queueFamilyIndexCount;
    image.pQueueFamilyIndices = info.pQueueFamilyIndices;
  }
  const DeviceFunctions& vk = device_.vk();
  if (const VkResult r = vk.CreateImage(device_.handle(), &image, nullptr, &image_); r != VK_SUCCESS) return r;
  VkMemoryRequirements needs = {};
  vk.GetImageMemoryRequirements(device_.handle(), image_, &needs);
  VkMemoryPropertyFlags got = 0;
  if (const VkResult r = Allocate(device_, needs, {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0}, &memory_, &got);
      r != VK_SUCCESS) {
    return r;
  }
  return vk.BindImageMemory(device_.handle(), image_, memory_, 0);
}

VkResult SwapchainImage::InitBuffer() {
  VkBufferCreateInfo buffer = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  buffer.size = VkDeviceSize{extent_.width} * extent_.height * 4;  // both fit in 16 bits or so: the device's limit
  buffer.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  const DeviceFunctions& vk = device_.vk();
  if (const VkResult r = vk.CreateBuffer(device_.handle(), &buffer, nullptr, &buffer_); r != VK_SUCCESS) return r;
  VkMemoryRequirements needs = {};
  vk.GetBufferMemoryRequirements(device_.handle(), buffer_, &needs);
  constexpr VkMemoryPropertyFlags kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  constexpr VkMemoryPropertyFlags kCoherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  VkMemoryPropertyFlags got = 0;
  if (const VkResult r = Allocate(device_, needs, {kVisible | kCoherent | kCached, kVisible | kCached, kVisible},
                                  &buffer_memory_, &got);
      r != VK_SUCCESS) {
    return r;
  }
  coherent_ = (got & kCoherent) != 0;
  if (const VkResult r = vk.BindBufferMemory(device_.handle(), buffer_, buffer_memory_, 0); r != VK_SUCCESS) return r;
  void* mapped = nullptr;
  if (const VkResult r = vk.MapMemory(device_.handle(), buffer_memory_, 0, VK_WHOLE_SIZE, 0, &mapped);
      r != VK_SUCCESS) {
    return r;
  }
  pixels_ = static_cast<const uint8_t*>(mapped);
  return VK_SUCCESS;
}

VkResult SwapchainImage::Record(VkCommandPool pool, VkCommandBuffer* commands) {
  const DeviceFunctions& vk = device_.vk();
  VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  if (const VkResult r = vk.AllocateCommandBuffers(device_.handle(), &allocate, commands); r != VK_SUCCESS) return r;
  const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  if (const VkResult r = vk.BeginCommandBuffer(*commands, &begin); r != VK_SUCCESS) return r;

  // The semaphores that the submit waits for have made the writes available; the layout changes are ours.
  VkImageMemoryBarrier image = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  image.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
  image.oldLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
  image.newLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  image.srcQueueFamilyIndex = image.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  image.image = image_;
  image.subresourceRange = kWholeImage;
  vk.CmdPipelineBarrier(*commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr, 0,
                        nullptr, 1, &image);

  VkBufferImageCopy copy = {};
  copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  copy.imageExtent = {extent_.width, extent_.height, 1};
  vk.CmdCopyImageToBuffer(*commands, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer_, 1, &copy);

  image.srcAccessMask = 0;
  image.dstAccessMask = 0;
  image.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  image.newLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
  VkBufferMemoryBarrier buffer = {VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  buffer.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  buffer.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  buffer.srcQueueFamilyIndex = buffer.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  buffer.buffer = buffer_;
  buffer.size = VK_WHOLE_SIZE;
  vk.CmdPipelineBarrier(*commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, nullptr, 1, &buffer, 1,
                        &image);
  return vk.EndCommandBuffer(*commands);
}

VkResult SwapchainImage::SubmitCopy(VkQueue queue, uint32_t family, VkCommandPool pool,
                                    std::span<const VkSemaphore> waits) {
  const auto known =
      std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& r) { return r.family == family; });
  VkCommandBuffer commands = VK_NULL_HANDLE;
  if (known != recorded_.end()) {
    commands = known->commands;
  } else {
    if (const VkResult r = Record(pool, &commands); r != VK_SUCCESS) return r;
    recorded_.push_back({family, commands});
  }
  if (const VkResult r = device_.vk().ResetFences(device_.handle(), 1, &fence_); r != VK_SUCCESS) return r;
  return Submit(device_, queue, waits, std::span(&commands, 1), fence_);
}

VkResult SwapchainImage::WaitCopy(uint64_t timeout_ns) {
  const DeviceFunctions& vk = device_.vk();
  if (const VkResult r = vk.WaitForFences(device_.handle(), 1, &fence_, VK_TRUE, timeout_ns); r != VK_SUCCESS) return r;
  if (coherent_) return VK_SUCCESS;
  VkMappedMemoryRange range = {VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
  range.memory = buffer_memory_;
  range.size = VK_WHOLE_SIZE;
  return vk.InvalidateMappedMemoryRanges(device_.handle(), 1, &range);
}

VkResult SubmitWaits(const Device& device, VkQueue queue, std::span<const VkSemaphore> waits) {
  return Submit(device, queue, waits, {}, VK_NULL_HANDLE);
}

}  // namespace sluice::wsi
