#include "tests/scenes/compute_scene.h"

#include "tests/scenes/saxpy_comp.h"

namespace sluice::scenes {
namespace {

constexpr uint32_t kGroup = 128;  // local_size_x of saxpy.comp
constexpr float kA = 2.5f;

// Halves below 2^12: a * x + y stays exact in 24 bits.
float X(uint32_t i) {
  return static_cast<float>(i % 1021);
}
float Y(uint32_t i) {
  return static_cast<float>(i % 509) * 0.5f;
}

struct Arguments {
  float a;
  uint32_t count;
};

}  // namespace

float ComputeScene::Expected(uint32_t index) {
  return kA * X(index) + Y(index);
}

SceneStatus ComputeScene::Create(SceneDevice* device, uint32_t count) {
  device_ = device;
  count_ = count;
  const VkDeviceSize bytes = VkDeviceSize{4} * count;
  SceneStatus status = x_.Create(device, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  if (status.ok()) status = y_.Create(device, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  if (status.ok()) status = CreateDescriptors();
  if (status.ok()) status = CreatePipeline();
  if (status.ok()) status = commands_.Create(device);
  return status;
}

void ComputeScene::Destroy() {
  commands_.Destroy();
  if (device_ != nullptr && device_->device() != VK_NULL_HANDLE) {
    const VkDevice device = device_->device();
    vkDestroyPipeline(device, pipeline_, nullptr);
    vkDestroyPipelineLayout(device, layout_, nullptr);
    vkDestroyDescriptorPool(device, pool_, nullptr);
    vkDestroyDescriptorSetLayout(device, set_layout_, nullptr);
    device_ = nullptr;
  }
  y_.Destroy();
  x_.Destroy();
}

SceneStatus ComputeScene::CreateDescriptors() {
  const VkDevice device = device_->device();
  VkDescriptorSetLayoutBinding bindings[2] = {};
  for (uint32_t i = 0; i < 2; i++) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  layout.bindingCount = 2;
  layout.pBindings = bindings;
  VkResult result = vkCreateDescriptorSetLayout(device, &layout, nullptr, &set_layout_);
  if (result != VK_SUCCESS) return {"vkCreateDescriptorSetLayout", result};
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
  VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool.maxSets = 1;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  result = vkCreateDescriptorPool(device, &pool, nullptr, &pool_);
  if (result != VK_SUCCESS) return {"vkCreateDescriptorPool", result};
  VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  allocate.descriptorPool = pool_;
  allocate.descriptorSetCount = 1;
  allocate.pSetLayouts = &set_layout_;
  result = vkAllocateDescriptorSets(device, &allocate, &set_);
  if (result != VK_SUCCESS) return {"vkAllocateDescriptorSets", result};
  const VkDescriptorBufferInfo buffers[2] = {{x_.buffer(), 0, VK_WHOLE_SIZE}, {y_.buffer(), 0, VK_WHOLE_SIZE}};
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set_;
  write.dstBinding = 0;
  write.descriptorCount = 1;
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  VkWriteDescriptorSet writes[2] = {write, write};
  writes[0].pBufferInfo = &buffers[0];
  writes[1].pBufferInfo = &buffers[1];
  writes[1].dstBinding = 1;
  vkUpdateDescriptorSets(device, 2, writes, 0, nullptr);
  return {};
}

SceneStatus ComputeScene::CreatePipeline() {
  const VkDevice device = device_->device();
  const VkPushConstantRange constants = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Arguments)};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &constants;
  VkResult result = vkCreatePipelineLayout(device, &layout, nullptr, &layout_);
  if (result != VK_SUCCESS) return {"vkCreatePipelineLayout", result};
  VkShaderModule shader = VK_NULL_HANDLE;
  SceneStatus status = CreateShader(device, kSaxpyComp, sizeof(kSaxpyComp), &shader);
  if (!status.ok()) return status;
  VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  pipeline.stage.module = shader;
  pipeline.stage.pName = "main";
  pipeline.layout = layout_;
  result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline, nullptr, &pipeline_);
  vkDestroyShaderModule(device, shader, nullptr);
  if (result != VK_SUCCESS) return {"vkCreateComputePipelines", result};
  return {};
}

SceneStatus ComputeScene::Run() {
  auto* x = static_cast<float*>(x_.data());
  auto* y = static_cast<float*>(y_.data());
  for (uint32_t i = 0; i < count_; i++) {
    x[i] = X(i);
    y[i] = Y(i);
  }
  SceneStatus status = commands_.Begin();
  if (!status.ok()) return status;
  const VkCommandBuffer commands = commands_.buffer();
  const Arguments arguments = {kA, count_};
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
  vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(arguments), &arguments);
  vkCmdDispatch(commands, (count_ + kGroup - 1) / kGroup, 1, 1);
  VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                       nullptr, 0, nullptr);
  status = commands_.Submit();
  if (status.ok()) status = commands_.Wait();
  return status;
}

uint32_t ComputeScene::FirstWrong() const {
  for (uint32_t i = 0; i < count_; i++) {
    if (result(i) != Expected(i)) return i;
  }
  return count_;
}

void ComputeScene::Paint(uint8_t* rgba, uint32_t size) const {
  const uint64_t pixels = uint64_t{size} * size;
  for (uint64_t p = 0; p < pixels; p++) {
    const float value = result(static_cast<uint32_t>(p * count_ / pixels));
    // Results lie in 0 .. 2804: the whole part and the half make the colours. NaN and the like become black.
    const uint32_t halves = value >= 0.0f && value < 4096.0f ? static_cast<uint32_t>(value * 2.0f) : 0;
    rgba[4 * p] = static_cast<uint8_t>(halves * 255 / 5610);
    rgba[4 * p + 1] = static_cast<uint8_t>((halves >> 2) & 0xff);
    rgba[4 * p + 2] = static_cast<uint8_t>(255 - halves * 255 / 5610);
    rgba[4 * p + 3] = 255;
  }
}

}  // namespace sluice::scenes
