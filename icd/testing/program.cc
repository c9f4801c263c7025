#include "icd/testing/program.h"

#include <cstring>

namespace sluice::icd::testing {

VkResult Program::OpenInstance(const ProgramOptions& options) {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "icd-test";
  application.apiVersion = options.api_version;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pNext = options.instance_next;
  info.pApplicationInfo = &application;
  info.enabledExtensionCount = static_cast<uint32_t>(options.instance_extensions.size());
  info.ppEnabledExtensionNames = options.instance_extensions.data();
  VkResult result = vkCreateInstance(&info, nullptr, &instance_);
  if (result != VK_SUCCESS) {
    instance_ = VK_NULL_HANDLE;
    return result;
  }
  uint32_t count = 0;
  result = vkEnumeratePhysicalDevices(instance_, &count, nullptr);
  if (result != VK_SUCCESS) return result;
  physical_.resize(count);
  return vkEnumeratePhysicalDevices(instance_, &count, physical_.data());
}

VkResult Program::Open(const ProgramOptions& options) {
  const VkResult result = OpenInstance(options);
  return result == VK_SUCCESS ? OpenDevice(options) : result;
}

VkResult Program::OpenDevice(const ProgramOptions& options) {
  if (options.physical_device >= physical_.size()) return VK_ERROR_INITIALIZATION_FAILED;
  chosen_ = physical_[options.physical_device];
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(options.device_extensions.size());
  info.ppEnabledExtensionNames = options.device_extensions.data();
  VkResult result = vkCreateDevice(chosen_, &info, nullptr, &device_);
  if (result != VK_SUCCESS) {
    device_ = VK_NULL_HANDLE;
    return result;
  }
  vkGetDeviceQueue(device_, family_, 0, &queue_);
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = family_;
  return vkCreateCommandPool(device_, &pool, nullptr, &pool_);
}

void Program::Close() {
  if (device_ != VK_NULL_HANDLE) {
    vkDeviceWaitIdle(device_);
    vkDestroyBuffer(device_, buffer_, nullptr);
    vkFreeMemory(device_, memory_, nullptr);
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
  Abandon();
}

void Program::Abandon() {
  instance_ = VK_NULL_HANDLE;
  physical_.clear();
  chosen_ = VK_NULL_HANDLE;
  device_ = VK_NULL_HANDLE;
  queue_ = VK_NULL_HANDLE;
  pool_ = VK_NULL_HANDLE;
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  bytes_ = 0;
  mapped_ = nullptr;
}

VkResult Program::MakeBuffer(VkDeviceSize bytes) {
  if (bytes_ >= bytes) return VK_SUCCESS;
  vkDestroyBuffer(device_, buffer_, nullptr);
  vkFreeMemory(device_, memory_, nullptr);
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  bytes_ = 0;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkResult result = vkCreateBuffer(device_, &info, nullptr, &buffer_);
  if (result != VK_SUCCESS) return result;
  VkMemoryRequirements needs{};
  vkGetBufferMemoryRequirements(device_, buffer_, &needs);
  VkPhysicalDeviceMemoryProperties types{};
  vkGetPhysicalDeviceMemoryProperties(chosen_, &types);
  constexpr VkMemoryPropertyFlags kWanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = VK_MAX_MEMORY_TYPES;
  for (uint32_t i = 0; i < types.memoryTypeCount; i++) {
    if ((needs.memoryTypeBits >> i & 1) != 0 && (types.memoryTypes[i].propertyFlags & kWanted) == kWanted) {
      allocate.memoryTypeIndex = i;
      break;
    }
  }
  if (allocate.memoryTypeIndex == VK_MAX_MEMORY_TYPES) {
    return vkDeviceWaitIdle(device_) == VK_ERROR_DEVICE_LOST ? VK_ERROR_DEVICE_LOST : VK_ERROR_FEATURE_NOT_PRESENT;
  }
  result = vkAllocateMemory(device_, &allocate, nullptr, &memory_);
  if (result != VK_SUCCESS) return result;
  result = vkBindBufferMemory(device_, buffer_, memory_, 0);
  if (result != VK_SUCCESS) return result;
  result = vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &mapped_);
  if (result == VK_SUCCESS) bytes_ = bytes;
  return result;
}

VkResult Program::Submit(uint32_t value, uint32_t times, VkFence fence) {
  VkResult result = MakeBuffer(4096);
  if (result != VK_SUCCESS) return result;
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  result = vkAllocateCommandBuffers(device_, &allocate, &commands);
  if (result != VK_SUCCESS) return result;
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  result = vkBeginCommandBuffer(commands, &begin);
  if (result != VK_SUCCESS) return result;
  for (uint32_t i = 0; i < times; i++) vkCmdFillBuffer(commands, buffer_, 0, VK_WHOLE_SIZE, value);
  result = vkEndCommandBuffer(commands);
  if (result != VK_SUCCESS) return result;
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  return vkQueueSubmit(queue_, 1, &submit, fence);
}

VkResult Program::Fill(uint32_t value, VkDeviceSize bytes) {
  VkResult result = MakeBuffer(bytes);
  if (result != VK_SUCCESS) return result;
  memset(mapped_, 0, bytes);
  VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  result = vkCreateFence(device_, &info, nullptr, &fence);
  if (result != VK_SUCCESS) return result;
  result = Submit(value, 1, fence);
  if (result == VK_SUCCESS) result = vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX);
  vkDestroyFence(device_, fence, nullptr);
  if (result != VK_SUCCESS) return result;
  const auto* words = static_cast<const uint32_t*>(mapped_);
  for (VkDeviceSize i = 0; i < bytes / 4; i++) {
    if (words[i] != value) return VK_ERROR_UNKNOWN;
  }
  return VK_SUCCESS;
}

}  // namespace sluice::icd::testing
