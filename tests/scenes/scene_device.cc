#include "tests/scenes/scene_device.h"

#include <string.h>

namespace sluice::scenes {
namespace {

constexpr uint32_t kMaxDevices = 8, kMaxFamilies = 16;

bool Contains(const char* text, const char* part) {
  const size_t n = strlen(part);
  for (; *text != 0; text++) {
    if (strncmp(text, part, n) == 0) return true;
  }
  return n == 0;
}

}  // namespace

SceneDevice::~SceneDevice() {
  Close();
}

void SceneDevice::Close() {
  if (device_ != VK_NULL_HANDLE) vkDestroyDevice(device_, nullptr);
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
  device_ = VK_NULL_HANDLE;
  instance_ = VK_NULL_HANDLE;
}

SceneStatus SceneDevice::Open(const SceneDeviceOptions& options) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "sluice scene";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  instance_info.pApplicationInfo = &application;
  VkResult result = vkCreateInstance(&instance_info, nullptr, &instance_);
  if (result != VK_SUCCESS) return {"vkCreateInstance", result};

  VkPhysicalDevice devices[kMaxDevices];
  uint32_t count = kMaxDevices;
  result = vkEnumeratePhysicalDevices(instance_, &count, devices);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return {"vkEnumeratePhysicalDevices", result};
  for (uint32_t i = 0; i < count && physical_ == VK_NULL_HANDLE; i++) {
    vkGetPhysicalDeviceProperties(devices[i], &properties_);
    if (options.device_name == nullptr || Contains(properties_.deviceName, options.device_name)) physical_ = devices[i];
  }
  if (physical_ == VK_NULL_HANDLE) return {"no Vulkan device", VK_ERROR_INITIALIZATION_FAILED};
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);

  VkQueueFamilyProperties families[kMaxFamilies];
  uint32_t family_count = kMaxFamilies;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &family_count, families);
  const VkQueueFlags wanted = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  family_ = family_count;
  for (uint32_t i = 0; i < family_count && family_ == family_count; i++) {
    if ((families[i].queueFlags & wanted) == wanted) family_ = i;
  }
  if (family_ == family_count) return {"no queue that draws and computes", VK_ERROR_INITIALIZATION_FAILED};

  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue_info.queueFamilyIndex = family_;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  device_info.queueCreateInfoCount = 1;
  device_info.pQueueCreateInfos = &queue_info;
  result = vkCreateDevice(physical_, &device_info, nullptr, &device_);
  if (result != VK_SUCCESS) return {"vkCreateDevice", result};
  vkGetDeviceQueue(device_, family_, 0, &queue_);
  return {};
}

uint32_t SceneDevice::MemoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const {
  for (uint32_t i = 0; i < memory_.memoryTypeCount; i++) {
    if ((allowed >> i & 1) != 0 && (memory_.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  return UINT32_MAX;
}

SceneStatus SceneBuffer::Create(SceneDevice* device, VkDeviceSize bytes, VkBufferUsageFlags usage) {
  device_ = device;
  bytes_ = bytes;
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = bytes;
  info.usage = usage;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkResult result = vkCreateBuffer(device->device(), &info, nullptr, &buffer_);
  if (result != VK_SUCCESS) return {"vkCreateBuffer", result};
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(device->device(), buffer_, &requirements);
  VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = device->MemoryType(
      requirements.memoryTypeBits, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
  if (allocate.memoryTypeIndex == UINT32_MAX) return {"no host-visible memory type", VK_ERROR_OUT_OF_DEVICE_MEMORY};
  result = vkAllocateMemory(device->device(), &allocate, nullptr, &memory_);
  if (result != VK_SUCCESS) return {"vkAllocateMemory (buffer)", result};
  result = vkBindBufferMemory(device->device(), buffer_, memory_, 0);
  if (result != VK_SUCCESS) return {"vkBindBufferMemory", result};
  result = vkMapMemory(device->device(), memory_, 0, VK_WHOLE_SIZE, 0, &data_);
  if (result != VK_SUCCESS) return {"vkMapMemory", result};
  return {};
}

void SceneBuffer::Destroy() {
  if (device_ == nullptr || device_->device() == VK_NULL_HANDLE) return;
  vkDestroyBuffer(device_->device(), buffer_, nullptr);
  vkFreeMemory(device_->device(), memory_, nullptr);
  device_ = nullptr;
}

SceneStatus SceneCommands::Create(SceneDevice* device) {
  device_ = device;
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool_info.queueFamilyIndex = device->family();
  VkResult result = vkCreateCommandPool(device->device(), &pool_info, nullptr, &pool_);
  if (result != VK_SUCCESS) return {"vkCreateCommandPool", result};
  VkCommandBufferAllocateInfo buffer_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  buffer_info.commandPool = pool_;
  buffer_info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffer_info.commandBufferCount = 1;
  result = vkAllocateCommandBuffers(device->device(), &buffer_info, &buffer_);
  if (result != VK_SUCCESS) return {"vkAllocateCommandBuffers", result};
  VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  result = vkCreateFence(device->device(), &fence_info, nullptr, &fence_);
  if (result != VK_SUCCESS) return {"vkCreateFence", result};
  return {};
}

void SceneCommands::Destroy() {
  if (device_ == nullptr || device_->device() == VK_NULL_HANDLE) return;
  vkDestroyFence(device_->device(), fence_, nullptr);
  vkDestroyCommandPool(device_->device(), pool_, nullptr);
  device_ = nullptr;
}

SceneStatus SceneCommands::Begin() {
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  const VkResult result = vkBeginCommandBuffer(buffer_, &info);
  if (result != VK_SUCCESS) return {"vkBeginCommandBuffer", result};
  return {};
}

SceneStatus SceneCommands::Submit() {
  VkResult result = vkEndCommandBuffer(buffer_);
  if (result != VK_SUCCESS) return {"vkEndCommandBuffer", result};
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &buffer_;
  result = vkQueueSubmit(device_->queue(), 1, &submit, fence_);
  if (result != VK_SUCCESS) return {"vkQueueSubmit", result};
  return {};
}

SceneStatus SceneCommands::Wait() {
  VkResult result = vkWaitForFences(device_->device(), 1, &fence_, VK_TRUE, 300'000'000'000);
  if (result != VK_SUCCESS) return {"vkWaitForFences", result};
  result = vkResetFences(device_->device(), 1, &fence_);
  if (result != VK_SUCCESS) return {"vkResetFences", result};
  return {};
}

SceneStatus CreateShader(VkDevice device, const uint32_t* code, size_t bytes, VkShaderModule* module) {
  VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  info.codeSize = bytes;
  info.pCode = code;
  const VkResult result = vkCreateShaderModule(device, &info, nullptr, module);
  if (result != VK_SUCCESS) return {"vkCreateShaderModule", result};
  return {};
}

}  // namespace sluice::scenes
