#include "gpu-domain/exec/checks.h"

namespace sluice::exec {
namespace {

bool ReferenceFits(const VkAttachmentReference& reference, uint32_t attachments) {
  return reference.attachment == VK_ATTACHMENT_UNUSED || reference.attachment < attachments;
}

bool ReferencesFit(const VkAttachmentReference* references, uint32_t count, uint32_t attachments) {
  for (uint32_t i = 0; references != nullptr && i < count; i++) {
    if (!ReferenceFits(references[i], attachments)) return false;
  }
  return true;
}

}  // namespace

bool QueryResultsFit(uint32_t aux, uint32_t count, uint64_t data_size, uint64_t stride, VkQueryResultFlags flags) {
  const uint64_t value = (flags & VK_QUERY_RESULT_64_BIT) != 0 ? 8 : 4;
  const uint64_t each = value * ((aux >> 24) + ((flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) != 0 ? 1 : 0));
  if (count == 0 || stride % value != 0 || stride > (1 << 20) || each > data_size) return false;
  return (count - 1) * stride <= data_size - each;
}

bool SpecializationFits(const VkSpecializationInfo& v) {
  for (uint32_t i = 0; i < v.mapEntryCount; i++) {
    const VkSpecializationMapEntry& entry = v.pMapEntries[i];
    if (entry.offset > v.dataSize || entry.size > v.dataSize - entry.offset) return false;
  }
  return true;
}

bool RenderPassIndicesFit(const VkRenderPassCreateInfo& v) {
  if (v.attachmentCount > 64 || v.subpassCount > 256 || v.dependencyCount > 4096) return false;
  for (uint32_t i = 0; i < v.subpassCount; i++) {
    const VkSubpassDescription& s = v.pSubpasses[i];
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
    const VkSubpassDependency& d = v.pDependencies[i];
    if ((d.srcSubpass != VK_SUBPASS_EXTERNAL && d.srcSubpass >= v.subpassCount) ||
        (d.dstSubpass != VK_SUBPASS_EXTERNAL && d.dstSubpass >= v.subpassCount)) {
      return false;
    }
  }
  return true;
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
  return descriptors <= 1'000'000;
}

bool ViewportsPresent(const VkGraphicsPipelineCreateInfo& v) {
  if (!Rasterizes(v)) return true;
  const VkPipelineViewportStateCreateInfo* state = v.pViewportState;
  return state != nullptr && (state->pViewports != nullptr || IsDynamic(v, VK_DYNAMIC_STATE_VIEWPORT)) &&
         (state->pScissors != nullptr || IsDynamic(v, VK_DYNAMIC_STATE_SCISSOR));
}

}  // namespace sluice::exec
