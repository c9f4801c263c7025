#include "gpu-domain/exec/checks.h"

#include "flatbuf/vk/extensions.h"

namespace sluice::exec {
namespace {

template <typename Reference>
bool ReferencesFit(const Reference* references, uint32_t count, uint32_t attachments) {
  for (uint32_t i = 0; references != nullptr && i < count; i++) {
    const uint32_t attachment = references[i].attachment;
    if (attachment != VK_ATTACHMENT_UNUSED && attachment >= attachments) return false;
  }
  return true;
}

// Either version of the structure.
template <typename Info>
bool IndicesFit(const Info& v) {
  if (v.attachmentCount > 64 || v.subpassCount > 256 || v.dependencyCount > 4096) return false;
  for (uint32_t i = 0; i < v.subpassCount; i++) {
    const auto& s = v.pSubpasses[i];
    if (s.colorAttachmentCount > 32 || s.inputAttachmentCount > 64) return false;
    if (!ReferencesFit(s.pInputAttachments, s.inputAttachmentCount, v.attachmentCount) ||
        !ReferencesFit(s.pColorAttachments, s.colorAttachmentCount, v.attachmentCount) ||
        !ReferencesFit(s.pResolveAttachments, s.colorAttachmentCount, v.attachmentCount) ||
        !ReferencesFit(s.pDepthStencilAttachment, 1, v.attachmentCount)) {
      return false;
    }
    for (uint32_t j = 0; j < s.preserveAttachmentCount; j++) {
      if (s.pPreserveAttachments[j] >= v.attachmentCount) return false;
    }
  }
  for (uint32_t i = 0; i < v.dependencyCount; i++) {
    const auto& d = v.pDependencies[i];
    if ((d.srcSubpass != VK_SUBPASS_EXTERNAL && d.srcSubpass >= v.subpassCount) ||
        (d.dstSubpass != VK_SUBPASS_EXTERNAL && d.dstSubpass >= v.subpassCount)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool SpecializationFits(const VkSpecializationInfo& v) {
  for (uint32_t i = 0; i < v.mapEntryCount; i++) {
    const VkSpecializationMapEntry& entry = v.pMapEntries[i];
    if (entry.offset > v.dataSize || entry.size > v.dataSize - entry.offset) return false;
  }
  return true;
}

bool RenderPassIndicesFit(const VkRenderPassCreateInfo& v) {
  return IndicesFit(v);
}

bool RenderPassIndicesFit(const VkRenderPassCreateInfo2& v) {
  for (uint32_t i = 0; i < v.subpassCount; i++) {
    const auto* resolve = vk::FindInChain<VkSubpassDescriptionDepthStencilResolve>(
        v.pSubpasses[i].pNext, VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_DEPTH_STENCIL_RESOLVE);
    if (resolve != nullptr && !ReferencesFit(resolve->pDepthStencilResolveAttachment, 1, v.attachmentCount)) {
      return false;
    }
  }
  return IndicesFit(v);
}

bool VertexInputFits(const VkPipelineVertexInputStateCreateInfo& v) {
  if (v.vertexBindingDescriptionCount > 32 || v.vertexAttributeDescriptionCount > 32) return false;
  for (uint32_t i = 0; i < v.vertexBindingDescriptionCount; i++) {
    if (v.pVertexBindingDescriptions[i].binding >= 32 || v.pVertexBindingDescriptions[i].stride > 65535) return false;
  }
  for (uint32_t i = 0; i < v.vertexAttributeDescriptionCount; i++) {
    const VkVertexInputAttributeDescription& a = v.pVertexAttributeDescriptions[i];
    if (a.binding >= 32 || a.location >= 32 || a.offset > 65535) return false;
    bool bound = false;
    for (uint32_t j = 0; j < v.vertexBindingDescriptionCount; j++) {
      bound = bound || v.pVertexBindingDescriptions[j].binding == a.binding;
    }
    if (!bound) return false;
  }
  return true;
}

bool LayoutBindingsFit(const VkDescriptorSetLayoutCreateInfo& v) {
  uint64_t descriptors = 0;
  for (uint32_t i = 0; i < v.bindingCount; i++) {
    if (v.pBindings[i].binding >= 4096) return false;
    descriptors += v.pBindings[i].descriptorCount;
  }
  return descriptors <= 4'000'000;
}

namespace {

// Depth and blending without a render pass: the formats tell whether they are looked at. A part that does not know them
// must be ready for any.
bool AttachmentStatePresent(const VkGraphicsPipelineCreateInfo& v, bool fragment, bool output) {
  if (v.renderPass != VK_NULL_HANDLE || !vk::Rasterizes(v)) return true;
  if (fragment && !output) return v.pDepthStencilState != nullptr && v.pMultisampleState != nullptr;
  const auto* rendering =
      vk::FindInChain<VkPipelineRenderingCreateInfo>(v.pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO);
  if (!output || rendering == nullptr) return true;
  const bool depth = rendering->depthAttachmentFormat != VK_FORMAT_UNDEFINED ||
                     rendering->stencilAttachmentFormat != VK_FORMAT_UNDEFINED;
  return (!fragment || !depth || v.pDepthStencilState != nullptr) &&
         (rendering->colorAttachmentCount == 0 || v.pColorBlendState != nullptr);
}

}  // namespace

bool GraphicsStatePresent(const VkGraphicsPipelineCreateInfo& v) {
  using vk::IsDynamic;
  const VkGraphicsPipelineLibraryFlagsEXT own = vk::OwnState(v);
  const bool before = (own & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT) != 0;
  const bool fragment = (own & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT) != 0;
  const bool output = (own & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT) != 0;
  if (own == 0 && !vk::HasLibraries(v)) return false;
  if (vk::HasVertexInput(v)) {
    if (v.pInputAssemblyState == nullptr) return false;
    if (v.pVertexInputState == nullptr && !IsDynamic(v, VK_DYNAMIC_STATE_VERTEX_INPUT_EXT)) return false;
  }
  if ((before || fragment) && v.layout == VK_NULL_HANDLE) return false;
  if (!AttachmentStatePresent(v, fragment, output)) return false;
  if (!before) return true;
  if (v.stageCount == 0 || v.pRasterizationState == nullptr) return false;
  if (vk::HasTessellation(v) && v.pTessellationState == nullptr) return false;
  if (!vk::Rasterizes(v)) return true;
  if (output && v.pMultisampleState == nullptr) return false;
  const VkPipelineViewportStateCreateInfo* state = v.pViewportState;
  if (state == nullptr) return false;
  return (state->pViewports != nullptr || IsDynamic(v, VK_DYNAMIC_STATE_VIEWPORT) ||
          IsDynamic(v, VK_DYNAMIC_STATE_VIEWPORT_WITH_COUNT)) &&
         (state->pScissors != nullptr || IsDynamic(v, VK_DYNAMIC_STATE_SCISSOR) ||
          IsDynamic(v, VK_DYNAMIC_STATE_SCISSOR_WITH_COUNT));
}

bool ModulePresent(const VkPipelineShaderStageCreateInfo& v) {
  return v.module != VK_NULL_HANDLE ||
         vk::FindInChain<VkShaderModuleCreateInfo>(v.pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO) != nullptr;
}

bool InlineDataFits(const VkWriteDescriptorSet& v) {
  if (v.descriptorType != VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK) return true;
  const auto* data = vk::FindInChain<VkWriteDescriptorSetInlineUniformBlock>(
      v.pNext, VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET_INLINE_UNIFORM_BLOCK);
  return data != nullptr && data->dataSize == v.descriptorCount && data->dataSize % 4 == 0 &&
         v.dstArrayElement % 4 == 0;
}

bool ExtensionsCross(const char* const* names, uint32_t count, bool instance) {
  for (uint32_t i = 0; i < count; i++) {
    const vk::Extension* extension = vk::FindExtension(names[i]);
    if (extension == nullptr || extension->guest || extension->instance != instance) return false;
  }
  return true;
}

}  // namespace sluice::exec
