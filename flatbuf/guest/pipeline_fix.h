// File: pipeline_fix.h
//
// A graphics pipeline's state as far as it counts: what dynamic state, libraries, missing stages or dynamic rendering
// make irrelevant may be undefined in the program's structures, dangling pointers included. Freestanding.
//
//   FixedPipeline fixed(pCreateInfos[i]);
//   Encode(b, fixed.info());       // lives as long as `fixed` and the program's structures
#ifndef SLUICE_FLATBUF_GUEST_PIPELINE_FIX_H_
#define SLUICE_FLATBUF_GUEST_PIPELINE_FIX_H_

#include <vulkan/vulkan_core.h>

namespace sluice::guest {

// Makes shallow copies; nothing of the program's is changed. The structure that is chained with
// VkPipelineRenderingCreateInfo is fixed while it is encoded (FixRendering).
class FixedPipeline {
 public:
  explicit FixedPipeline(const VkGraphicsPipelineCreateInfo& from);
  FixedPipeline(const FixedPipeline&) = delete;
  FixedPipeline& operator=(const FixedPipeline&) = delete;

  const VkGraphicsPipelineCreateInfo& info() const { return info_; }

 private:
  VkGraphicsPipelineCreateInfo info_;
  VkPipelineViewportStateCreateInfo viewport_{};
  VkPipelineMultisampleStateCreateInfo multisample_{};
};

// Formats count only for the fragment output of a pipeline without render pass.
void FixRendering(const VkGraphicsPipelineCreateInfo& pipeline, VkPipelineRenderingCreateInfo& link);

// Answers VkPipelineCreationFeedbackCreateInfo, if the chain has one: how long the program waited for the pipeline (0:
// nobody knows, nothing is valid), and nothing valid about stages.
void WriteCreationFeedback(const void* next, uint64_t nanoseconds);

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_PIPELINE_FIX_H_
