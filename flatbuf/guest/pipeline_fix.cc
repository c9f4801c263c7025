#include "flatbuf/guest/pipeline_fix.h"

#include "flatbuf/vkgen/semantics.h"

namespace sluice::guest {

using vk::IsDynamic;

FixedPipeline::FixedPipeline(const VkGraphicsPipelineCreateInfo& from) : info_(from) {
  const VkGraphicsPipelineLibraryFlagsEXT own = vk::OwnState(info_);
  const bool before = (own & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT) != 0;
  const bool fragment = (own & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT) != 0;
  const bool output = (own & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT) != 0;
  info_.flags &= ~static_cast<VkPipelineCreateFlags>(VK_PIPELINE_CREATE_DERIVATIVE_BIT);
  info_.basePipelineHandle = VK_NULL_HANDLE;
  info_.basePipelineIndex = -1;

  if (!before && !fragment) {
    info_.stageCount = 0;
    info_.pStages = nullptr;
  }
  if (!before) info_.pRasterizationState = nullptr;
  if (!vk::HasVertexInput(info_)) {
    info_.pInputAssemblyState = nullptr;
  }
  if (!vk::HasVertexInput(info_) || IsDynamic(info_, VK_DYNAMIC_STATE_VERTEX_INPUT_EXT)) {
    info_.pVertexInputState = nullptr;
  }
  if (!before || !vk::HasTessellation(info_)) info_.pTessellationState = nullptr;
  const bool rasterizes = vk::Rasterizes(info_);
  if (!before || !rasterizes) info_.pViewportState = nullptr;
  if (!rasterizes || (!fragment && !output)) info_.pMultisampleState = nullptr;
  if (!rasterizes || !fragment) info_.pDepthStencilState = nullptr;
  if (!rasterizes || !output) info_.pColorBlendState = nullptr;
  // Without a render pass the formats tell which attachments there are.
  if (info_.renderPass == VK_NULL_HANDLE && output) {
    const auto* rendering =
        vk::FindInChain<VkPipelineRenderingCreateInfo>(info_.pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO);
    if (rendering == nullptr || rendering->colorAttachmentCount == 0) info_.pColorBlendState = nullptr;
    const bool depth = rendering != nullptr && (rendering->depthAttachmentFormat != VK_FORMAT_UNDEFINED ||
                                                rendering->stencilAttachmentFormat != VK_FORMAT_UNDEFINED);
    if (!depth) info_.pDepthStencilState = nullptr;
  }
  if (!before && !fragment && !output) {
    info_.renderPass = VK_NULL_HANDLE;
    info_.subpass = 0;
  }
  if (!before && !fragment && !vk::HasLibraries(info_)) info_.layout = VK_NULL_HANDLE;

  // Arrays that dynamic state replaces.
  if (info_.pViewportState != nullptr) {
    viewport_ = *info_.pViewportState;
    if (IsDynamic(info_, VK_DYNAMIC_STATE_VIEWPORT) || IsDynamic(info_, VK_DYNAMIC_STATE_VIEWPORT_WITH_COUNT)) {
      viewport_.pViewports = nullptr;
    }
    if (IsDynamic(info_, VK_DYNAMIC_STATE_SCISSOR) || IsDynamic(info_, VK_DYNAMIC_STATE_SCISSOR_WITH_COUNT)) {
      viewport_.pScissors = nullptr;
    }
    if (IsDynamic(info_, VK_DYNAMIC_STATE_VIEWPORT_WITH_COUNT)) viewport_.viewportCount = 0;
    if (IsDynamic(info_, VK_DYNAMIC_STATE_SCISSOR_WITH_COUNT)) viewport_.scissorCount = 0;
    info_.pViewportState = &viewport_;
  }
  if (info_.pMultisampleState != nullptr && IsDynamic(info_, VK_DYNAMIC_STATE_SAMPLE_MASK_EXT)) {
    multisample_ = *info_.pMultisampleState;
    multisample_.pSampleMask = nullptr;
    info_.pMultisampleState = &multisample_;
  }
}

void FixRendering(const VkGraphicsPipelineCreateInfo& pipeline, VkPipelineRenderingCreateInfo& link) {
  const bool output = (vk::OwnState(pipeline) & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT) != 0;
  if (pipeline.renderPass == VK_NULL_HANDLE && output && vk::Rasterizes(pipeline)) return;
  link.colorAttachmentCount = 0;
  link.pColorAttachmentFormats = nullptr;
  link.depthAttachmentFormat = VK_FORMAT_UNDEFINED;
  link.stencilAttachmentFormat = VK_FORMAT_UNDEFINED;
}

void WriteCreationFeedback(const void* next, uint64_t nanoseconds) {
  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO) continue;
    const void* any = s;
    const auto* feedback = static_cast<const VkPipelineCreationFeedbackCreateInfo*>(any);
    if (feedback->pPipelineCreationFeedback != nullptr) {
      VkPipelineCreationFeedback& out = *feedback->pPipelineCreationFeedback;
      out = {};
      if (nanoseconds != 0) out.flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
      out.duration = nanoseconds;
    }
    for (uint32_t i = 0; i < feedback->pipelineStageCreationFeedbackCount; i++) {
      feedback->pPipelineStageCreationFeedbacks[i] = {};
    }
  }
}

}  // namespace sluice::guest
