// File: pipeline.h
//
// Graphics pipelines, barriers and content hashes for vkbench cases.
#ifndef SLUICE_BENCH_VULKAN_PIPELINE_H_
#define SLUICE_BENCH_VULKAN_PIPELINE_H_

#include "bench/vulkan/device.h"

namespace vkbench {

struct PipeDesc {
  VkShaderModule vs = VK_NULL_HANDLE, fs = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkRenderPass rp = VK_NULL_HANDLE;
  uint32_t w = 16, h = 16;
  VkRect2D scissor{{0, 0}, {16, 16}};
  float spec = 1;
  bool additive = false, discard = false, depth = false, vertices = false, points = false;
};

inline VkPipeline makePipeline(VkDevice dev, VkPipelineCache cache, const PipeDesc& d) {
  VkSpecializationMapEntry se{0, 0, 4};
  VkSpecializationInfo spec{1, &se, 4, &d.spec};
  std::array<VkPipelineShaderStageCreateInfo, 2> st{};
  st[0] = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  st[0].stage = VK_SHADER_STAGE_VERTEX_BIT;
  st[0].module = d.vs;
  st[0].pName = "main";
  st[1] = st[0];
  st[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
  st[1].module = d.fs;
  st[1].pSpecializationInfo = d.additive ? &spec : nullptr;
  VkVertexInputBindingDescription vb{0, 20, VK_VERTEX_INPUT_RATE_VERTEX};
  std::array<VkVertexInputAttributeDescription, 2> va{
      {{0, 0, VK_FORMAT_R32G32B32_SFLOAT, 0}, {1, 0, VK_FORMAT_R32G32_SFLOAT, 12}}};
  VkPipelineVertexInputStateCreateInfo vi{VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  if (d.vertices) {
    vi.vertexBindingDescriptionCount = 1;
    vi.pVertexBindingDescriptions = &vb;
    vi.vertexAttributeDescriptionCount = 2;
    vi.pVertexAttributeDescriptions = va.data();
  }
  VkPipelineInputAssemblyStateCreateInfo ia{VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
  ia.topology = d.points ? VK_PRIMITIVE_TOPOLOGY_POINT_LIST : VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
  VkViewport vp{0, 0, float(d.w), float(d.h), 0, 1};
  VkPipelineViewportStateCreateInfo vs{VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
  vs.viewportCount = vs.scissorCount = 1;
  vs.pViewports = &vp;
  vs.pScissors = &d.scissor;
  VkPipelineRasterizationStateCreateInfo rs{VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
  rs.rasterizerDiscardEnable = d.discard;
  rs.cullMode = VK_CULL_MODE_NONE;
  rs.lineWidth = 1;
  VkPipelineMultisampleStateCreateInfo ms{VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
  ms.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
  VkPipelineDepthStencilStateCreateInfo ds{VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO};
  ds.depthTestEnable = ds.depthWriteEnable = d.depth;
  ds.depthCompareOp = VK_COMPARE_OP_LESS;
  VkPipelineColorBlendAttachmentState ba{};
  ba.colorWriteMask = 0xf;
  if (d.additive) {
    ba.blendEnable = VK_TRUE;
    ba.srcColorBlendFactor = ba.dstColorBlendFactor = VK_BLEND_FACTOR_ONE;
    ba.srcAlphaBlendFactor = ba.dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
  }
  VkPipelineColorBlendStateCreateInfo cb{VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
  cb.attachmentCount = 1;
  cb.pAttachments = &ba;
  VkGraphicsPipelineCreateInfo ci{VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
  ci.stageCount = d.discard ? 1 : 2;
  ci.pStages = st.data();
  ci.pVertexInputState = &vi;
  ci.pInputAssemblyState = &ia;
  ci.pViewportState = &vs;
  ci.pRasterizationState = &rs;
  ci.pMultisampleState = &ms;
  ci.pDepthStencilState = d.depth ? &ds : nullptr;
  ci.pColorBlendState = &cb;
  ci.layout = d.layout;
  ci.renderPass = d.rp;
  VkPipeline p;
  VK(vkCreateGraphicsPipelines(dev, cache, 1, &ci, nullptr, &p));
  return p;
}

inline void hostBarrier(VkCommandBuffer cb, VkPipelineStageFlags src, VkAccessFlags access) {
  VkMemoryBarrier mb{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  mb.srcAccessMask = access;
  mb.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(cb, src, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &mb, 0, nullptr, 0, nullptr);
}

inline void memBarrier(VkCommandBuffer cb, VkPipelineStageFlags src, VkAccessFlags sa, VkPipelineStageFlags dst,
                       VkAccessFlags da) {
  VkMemoryBarrier mb{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  mb.srcAccessMask = sa;
  mb.dstAccessMask = da;
  vkCmdPipelineBarrier(cb, src, dst, 0, 1, &mb, 0, nullptr, 0, nullptr);
}

inline void imageBarrier(VkCommandBuffer cb, VkImage img, VkImageLayout from, VkImageLayout to,
                         VkPipelineStageFlags src, VkAccessFlags sa, VkPipelineStageFlags dst, VkAccessFlags da) {
  VkImageMemoryBarrier b{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  b.srcAccessMask = sa;
  b.dstAccessMask = da;
  b.oldLayout = from;
  b.newLayout = to;
  b.srcQueueFamilyIndex = b.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  b.image = img;
  b.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  vkCmdPipelineBarrier(cb, src, dst, 0, 0, nullptr, 0, nullptr, 1, &b);
}

inline uint64_t hash64(const void* data, size_t bytes) {
  const uint64_t* p = static_cast<const uint64_t*>(data);
  std::array<uint64_t, 4> h{1, 2, 3, 4};
  size_t n = bytes / 8, i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) h[k] = (h[k] ^ p[i + k]) * 0x9e3779b97f4a7c15ull;
  for (; i < n; i++) h[0] = (h[0] ^ p[i]) * 0x9e3779b97f4a7c15ull;
  return h[0] ^ (h[1] << 1) ^ (h[2] << 2) ^ (h[3] << 3) ^ (h[0] >> 32);
}

}  // namespace vkbench

#endif  // SLUICE_BENCH_VULKAN_PIPELINE_H_
