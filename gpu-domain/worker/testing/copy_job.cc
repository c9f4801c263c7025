#include "gpu-domain/worker/testing/copy_job.h"

namespace sluice::worker::testing {

std::unique_ptr<CopyJob> CopyJob::Create() {
  std::unique_ptr<CopyJob> job(new CopyJob());
  return job->Init() ? std::move(job) : nullptr;
}

bool CopyJob::Init() {
  VkInstanceCreateInfo instance_info{};
  instance_info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  if (vkCreateInstance(&instance_info, nullptr, &instance_) != VK_SUCCESS) return false;
  uint32_t count = 1;
  if (vkEnumeratePhysicalDevices(instance_, &count, &physical_) < 0 || count == 0) return false;
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue_info{};
  queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo device_info{};
  device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  device_info.queueCreateInfoCount = 1;
  device_info.pQueueCreateInfos = &queue_info;
  if (vkCreateDevice(physical_, &device_info, nullptr, &device_) != VK_SUCCESS) return false;
  vkGetDeviceQueue(device_, 0, 0, &queue_);
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  if (vkCreateCommandPool(device_, &pool_info, nullptr, &pool_) != VK_SUCCESS) return false;
  VkCommandBufferAllocateInfo commands_info{};
  commands_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  commands_info.commandPool = pool_;
  commands_info.commandBufferCount = 1;
  if (vkAllocateCommandBuffers(device_, &commands_info, &commands_) != VK_SUCCESS) return false;
  VkFenceCreateInfo fence_info{};
  fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  if (vkCreateFence(device_, &fence_info, nullptr, &fence_) != VK_SUCCESS) return false;
  VkPhysicalDeviceMemoryProperties properties{};
  vkGetPhysicalDeviceMemoryProperties(physical_, &properties);
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  while (memory_type_ < properties.memoryTypeCount &&
         (properties.memoryTypes[memory_type_].propertyFlags & wanted) != wanted) {
    memory_type_++;
  }
  return memory_type_ < properties.memoryTypeCount;
}

CopyJob::~CopyJob() {
  if (device_ != VK_NULL_HANDLE) {
    if (!abandoned_) vkDeviceWaitIdle(device_);
    vkDestroyFence(device_, fence_, nullptr);
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

VkResult CopyJob::Allocate(uint64_t bytes, const void* next, VkDeviceMemory* memory) {
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = next;
  info.allocationSize = bytes;
  info.memoryTypeIndex = memory_type_;
  return vkAllocateMemory(device_, &info, nullptr, memory);
}

HostBuffer CopyJob::MakeBuffer(uint64_t bytes) {
  HostBuffer made;
  made.bytes = bytes;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  void* pointer = nullptr;
  VkMemoryRequirements needs{};
  if (vkCreateBuffer(device_, &info, nullptr, &made.buffer) != VK_SUCCESS) return made;
  vkGetBufferMemoryRequirements(device_, made.buffer, &needs);
  if (needs.size >= bytes && (needs.memoryTypeBits >> memory_type_ & 1) != 0 &&
      Allocate(needs.size, nullptr, &made.memory) == VK_SUCCESS &&
      vkBindBufferMemory(device_, made.buffer, made.memory, 0) == VK_SUCCESS &&
      vkMapMemory(device_, made.memory, 0, VK_WHOLE_SIZE, 0, &pointer) == VK_SUCCESS) {
    made.data = static_cast<uint8_t*>(pointer);
  }
  return made;
}

void CopyJob::Free(HostBuffer* buffer) {
  vkDestroyBuffer(device_, buffer->buffer, nullptr);
  vkFreeMemory(device_, buffer->memory, nullptr);
  *buffer = HostBuffer();
}

VkResult CopyJob::Submit(const HostBuffer& from, uint64_t from_at, const HostBuffer& to, uint64_t to_at,
                         uint64_t bytes) {
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VkResult result = vkBeginCommandBuffer(commands_, &begin);
  if (result != VK_SUCCESS) return result;
  const VkBufferCopy region{from_at, to_at, bytes};
  vkCmdCopyBuffer(commands_, from.buffer, to.buffer, 1, &region);
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                       nullptr, 0, nullptr);
  result = vkEndCommandBuffer(commands_);
  if (result != VK_SUCCESS) return result;
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  return vkQueueSubmit(queue_, 1, &submit, fence_);
}

VkResult CopyJob::Wait() {
  const VkResult result = vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX);
  if (result == VK_SUCCESS) vkResetFences(device_, 1, &fence_);
  return result;
}

VkResult CopyJob::Copy(const HostBuffer& from, uint64_t from_at, const HostBuffer& to, uint64_t to_at, uint64_t bytes) {
  const VkResult result = Submit(from, from_at, to, to_at, bytes);
  return result == VK_SUCCESS ? Wait() : result;
}

}  // namespace sluice::worker::testing
