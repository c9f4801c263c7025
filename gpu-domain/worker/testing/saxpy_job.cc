#include "gpu-domain/worker/testing/saxpy_job.h"

#include "gpu-domain/worker/testing/saxpy_comp.h"

#define RETURN_IF_FAILED(call)                 \
  do {                                         \
    const VkResult result_ = (call);           \
    if (result_ != VK_SUCCESS) return result_; \
  } while (false)

namespace sluice::worker::testing {
namespace {
struct Push {
  float a;
  uint32_t n;
};
}  // namespace

std::unique_ptr<SaxpyJob> SaxpyJob::Create(uint32_t elements, VkResult* error) {
  std::unique_ptr<SaxpyJob> job(new SaxpyJob(elements));
  *error = job->Init();
  if (*error != VK_SUCCESS) return nullptr;
  return job;
}

SaxpyJob::~SaxpyJob() {
  if (device_ != VK_NULL_HANDLE) {
    vkDeviceWaitIdle(device_);
    vkDestroyFence(device_, fence_, nullptr);
    vkDestroyCommandPool(device_, command_pool_, nullptr);
    vkDestroyDescriptorPool(device_, pool_, nullptr);
    vkDestroyPipeline(device_, pipeline_, nullptr);
    vkDestroyPipelineLayout(device_, layout_, nullptr);
    vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
    for (int i = 0; i < 2; ++i) {
      vkDestroyBuffer(device_, buffers_[i], nullptr);
      vkFreeMemory(device_, memory_[i], nullptr);
    }
    vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

VkResult SaxpyJob::Init() {
  VkInstanceCreateInfo instance_info{};
  instance_info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  RETURN_IF_FAILED(vkCreateInstance(&instance_info, nullptr, &instance_));
  uint32_t count = 1;
  const VkResult enumerated = vkEnumeratePhysicalDevices(instance_, &count, &physical_);
  if (enumerated < 0) return enumerated;
  if (count == 0) return VK_ERROR_INITIALIZATION_FAILED;
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue_info{};
  queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo device_info{};
  device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  device_info.queueCreateInfoCount = 1;
  device_info.pQueueCreateInfos = &queue_info;
  RETURN_IF_FAILED(vkCreateDevice(physical_, &device_info, nullptr, &device_));
  vkGetDeviceQueue(device_, 0, 0, &queue_);
  RETURN_IF_FAILED(MakeBuffer(0));
  RETURN_IF_FAILED(MakeBuffer(1));
  RETURN_IF_FAILED(MakePipeline());
  VkFenceCreateInfo fence_info{};
  fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  return vkCreateFence(device_, &fence_info, nullptr, &fence_);
}

VkResult SaxpyJob::MakeBuffer(int index) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = elements_ * sizeof(float);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  RETURN_IF_FAILED(vkCreateBuffer(device_, &info, nullptr, &buffers_[index]));
  VkMemoryRequirements needs{};
  vkGetBufferMemoryRequirements(device_, buffers_[index], &needs);
  VkPhysicalDeviceMemoryProperties properties{};
  vkGetPhysicalDeviceMemoryProperties(physical_, &properties);
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  uint32_t type = 0;
  while (type < properties.memoryTypeCount && ((needs.memoryTypeBits & (1u << type)) == 0 ||
                                               (properties.memoryTypes[type].propertyFlags & wanted) != wanted)) {
    type++;
  }
  if (type == properties.memoryTypeCount) return VK_ERROR_FEATURE_NOT_PRESENT;
  VkMemoryAllocateInfo memory_info{};
  memory_info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  memory_info.allocationSize = needs.size;
  memory_info.memoryTypeIndex = type;
  RETURN_IF_FAILED(vkAllocateMemory(device_, &memory_info, nullptr, &memory_[index]));
  RETURN_IF_FAILED(vkBindBufferMemory(device_, buffers_[index], memory_[index], 0));
  void* pointer = nullptr;
  RETURN_IF_FAILED(vkMapMemory(device_, memory_[index], 0, VK_WHOLE_SIZE, 0, &pointer));
  data_[index] = static_cast<float*>(pointer);
  return VK_SUCCESS;
}

VkResult SaxpyJob::MakePipeline() {
  VkDescriptorSetLayoutBinding bindings[2]{};
  for (uint32_t i = 0; i < 2; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo set_info{};
  set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set_info.bindingCount = 2;
  set_info.pBindings = bindings;
  RETURN_IF_FAILED(vkCreateDescriptorSetLayout(device_, &set_info, nullptr, &set_layout_));
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
  VkPipelineLayoutCreateInfo layout_info{};
  layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set_layout_;
  layout_info.pushConstantRangeCount = 1;
  layout_info.pPushConstantRanges = &range;
  RETURN_IF_FAILED(vkCreatePipelineLayout(device_, &layout_info, nullptr, &layout_));
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = sizeof(kSaxpySpirv);
  module_info.pCode = kSaxpySpirv;
  VkShaderModule module = VK_NULL_HANDLE;
  RETURN_IF_FAILED(vkCreateShaderModule(device_, &module_info, nullptr, &module));
  VkComputePipelineCreateInfo pipeline_info{};
  pipeline_info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  pipeline_info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  pipeline_info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  pipeline_info.stage.module = module;
  pipeline_info.stage.pName = "main";
  pipeline_info.layout = layout_;
  const VkResult result = vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline_);
  vkDestroyShaderModule(device_, module, nullptr);
  RETURN_IF_FAILED(result);
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
  VkDescriptorPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  pool_info.maxSets = 1;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  RETURN_IF_FAILED(vkCreateDescriptorPool(device_, &pool_info, nullptr, &pool_));
  VkDescriptorSetAllocateInfo sets{};
  sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  sets.descriptorPool = pool_;
  sets.descriptorSetCount = 1;
  sets.pSetLayouts = &set_layout_;
  RETURN_IF_FAILED(vkAllocateDescriptorSets(device_, &sets, &set_));
  VkDescriptorBufferInfo infos[2]{};
  VkWriteDescriptorSet writes[2]{};
  for (uint32_t i = 0; i < 2; ++i) {
    infos[i] = VkDescriptorBufferInfo{buffers_[i], 0, VK_WHOLE_SIZE};
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstSet = set_;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &infos[i];
  }
  vkUpdateDescriptorSets(device_, 2, writes, 0, nullptr);
  VkCommandPoolCreateInfo command_pool{};
  command_pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  command_pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  RETURN_IF_FAILED(vkCreateCommandPool(device_, &command_pool, nullptr, &command_pool_));
  VkCommandBufferAllocateInfo buffers{};
  buffers.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  buffers.commandPool = command_pool_;
  buffers.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffers.commandBufferCount = 1;
  return vkAllocateCommandBuffers(device_, &buffers, &commands_);
}

VkResult SaxpyJob::Record(float a) {
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  RETURN_IF_FAILED(vkBeginCommandBuffer(commands_, &begin));
  vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
  const Push push{a, elements_};
  vkCmdPushConstants(commands_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push), &push);
  vkCmdDispatch(commands_, (elements_ + 63) / 64, 1, 1);
  return vkEndCommandBuffer(commands_);
}

VkResult SaxpyJob::Submit(VkFence fence) {
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  return vkQueueSubmit(queue_, 1, &submit, fence);
}

VkResult SaxpyJob::SubmitWait(VkEvent event) {
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  RETURN_IF_FAILED(vkBeginCommandBuffer(commands_, &begin));
  vkCmdWaitEvents(commands_, 1, &event, VK_PIPELINE_STAGE_HOST_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, nullptr, 0,
                  nullptr, 0, nullptr);
  RETURN_IF_FAILED(vkEndCommandBuffer(commands_));
  return Submit(VK_NULL_HANDLE);
}

VkResult SaxpyJob::Run(float a) {
  for (uint32_t i = 0; i < elements_; ++i) {
    data_[0][i] = static_cast<float>(i);
    data_[1][i] = 1.0F;
  }
  RETURN_IF_FAILED(Record(a));
  RETURN_IF_FAILED(vkResetFences(device_, 1, &fence_));
  RETURN_IF_FAILED(Submit(fence_));
  return vkWaitForFences(device_, 1, &fence_, VK_TRUE, 60'000'000'000);
}

bool SaxpyJob::Right(float a) const {
  for (uint32_t i = 0; i < elements_; ++i) {
    if (data_[1][i] != a * static_cast<float>(i) + 1.0F) return false;
  }
  return true;
}

}  // namespace sluice::worker::testing
