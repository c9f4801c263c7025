#include "tests/vulkan/lib/compute.h"

namespace sluice::vktest {

ComputeJob::ComputeJob(Gpu& gpu, const uint32_t* code, size_t bytes, const std::vector<const Buffer*>& buffers,
                       uint32_t constant_bytes, const VkSpecializationInfo* specialization, VkPipelineCreateFlags flags)
    : constant_bytes_(constant_bytes) {
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t i = 0; i < buffers.size(); i++) {
    bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  }
  set_layout = gpu.MakeSetLayout(bindings);
  std::vector<VkPushConstantRange> constants;
  if (constant_bytes != 0) constants.push_back({VK_SHADER_STAGE_COMPUTE_BIT, 0, constant_bytes});
  layout = gpu.MakeLayout({set_layout}, constants);
  pipeline = gpu.MakeCompute(gpu.MakeShader(code, bytes), layout, specialization, flags);
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, static_cast<uint32_t>(buffers.size()) + 1};
  set = gpu.MakeSet(gpu.MakePool(1, {size}), set_layout);
  for (uint32_t i = 0; i < buffers.size(); i++) {
    WriteBuffer(gpu, set, i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffers[i]->buffer);
  }
}

void ComputeJob::Bind(VkCommandBuffer commands, const void* constants) const {
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  if (constants != nullptr) {
    vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, constant_bytes_, constants);
  }
}

void ComputeJob::Dispatch(VkCommandBuffer commands, uint32_t groups, const void* constants) const {
  Bind(commands, constants);
  vkCmdDispatch(commands, groups, 1, 1);
  FullBarrier(commands);
}

void WriteBuffer(const Gpu& gpu, VkDescriptorSet set, uint32_t binding, VkDescriptorType type, VkBuffer buffer,
                 VkDeviceSize offset, VkDeviceSize range, uint32_t element) {
  const VkDescriptorBufferInfo info = {buffer, offset, range};
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set;
  write.dstBinding = binding;
  write.dstArrayElement = element;
  write.descriptorCount = 1;
  write.descriptorType = type;
  write.pBufferInfo = &info;
  vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
}

void WriteImage(const Gpu& gpu, VkDescriptorSet set, uint32_t binding, VkDescriptorType type, VkImageView view,
                VkSampler sampler, uint32_t element) {
  const VkDescriptorImageInfo info = {sampler, view, VK_IMAGE_LAYOUT_GENERAL};
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set;
  write.dstBinding = binding;
  write.dstArrayElement = element;
  write.descriptorCount = 1;
  write.descriptorType = type;
  write.pImageInfo = &info;
  vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
}

}  // namespace sluice::vktest
