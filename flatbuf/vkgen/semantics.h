// File: semantics.h
//
// Conditions of the Vulkan specification that the registry states only in prose: which members count when. Named in
// allow.toml, used by the guest's encoders and the worker's decoders alike. Freestanding.
#ifndef SLUICE_FLATBUF_VKGEN_SEMANTICS_H_
#define SLUICE_FLATBUF_VKGEN_SEMANTICS_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

namespace sluice::vk {

// VkWriteDescriptorSet: exactly one of the three arrays is used, by descriptor type.
constexpr bool UsesImageInfo(VkDescriptorType type) {
  return type == VK_DESCRIPTOR_TYPE_SAMPLER || type == VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER ||
         type == VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE || type == VK_DESCRIPTOR_TYPE_STORAGE_IMAGE ||
         type == VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT;
}
constexpr bool UsesBufferInfo(VkDescriptorType type) {
  return type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER || type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ||
         type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC || type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC;
}
constexpr bool UsesTexelBuffer(VkDescriptorType type) {
  return type == VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER || type == VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER;
}

// VkGraphicsPipelineCreateInfo: state that counts only with tessellation stages, or only when primitives are
// rasterized.
inline bool HasTessellation(const VkGraphicsPipelineCreateInfo& v) {
  for (uint32_t i = 0; v.pStages != nullptr && i < v.stageCount; i++) {
    if (v.pStages[i].stage == VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT ||
        v.pStages[i].stage == VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT) {
      return true;
    }
  }
  return false;
}
inline bool Rasterizes(const VkGraphicsPipelineCreateInfo& v) {
  return v.pRasterizationState != nullptr && v.pRasterizationState->rasterizerDiscardEnable == VK_FALSE;
}
inline bool IsDynamic(const VkGraphicsPipelineCreateInfo& v, VkDynamicState state) {
  for (uint32_t i = 0; v.pDynamicState != nullptr && i < v.pDynamicState->dynamicStateCount; i++) {
    if (v.pDynamicState->pDynamicStates[i] == state) return true;
  }
  return false;
}

}  // namespace sluice::vk

#endif  // SLUICE_FLATBUF_VKGEN_SEMANTICS_H_
