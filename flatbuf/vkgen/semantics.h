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

// The structure of type `type` in a chain, or null.
template <typename T>
const T* FindInChain(const void* next, VkStructureType type) {
  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType != type) continue;
    const void* any = s;
    return static_cast<const T*>(any);
  }
  return nullptr;
}

inline bool IsDynamic(const VkGraphicsPipelineCreateInfo& v, VkDynamicState state) {
  for (uint32_t i = 0; v.pDynamicState != nullptr && i < v.pDynamicState->dynamicStateCount; i++) {
    if (v.pDynamicState->pDynamicStates[i] == state) return true;
  }
  return false;
}

// VkGraphicsPipelineCreateInfo: the parts of the state that the structure itself describes; the others come from
// libraries or not at all.
inline bool HasLibraries(const VkGraphicsPipelineCreateInfo& v) {
  const auto* libraries =
      FindInChain<VkPipelineLibraryCreateInfoKHR>(v.pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
  return libraries != nullptr && libraries->libraryCount != 0;
}
inline VkGraphicsPipelineLibraryFlagsEXT OwnState(const VkGraphicsPipelineCreateInfo& v) {
  const auto* own = FindInChain<VkGraphicsPipelineLibraryCreateInfoEXT>(
      v.pNext, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
  if (own != nullptr) return own->flags;
  if (HasLibraries(v)) return 0;
  return VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT |
         VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT |
         VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT |
         VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
}
inline bool HasVertexInput(const VkGraphicsPipelineCreateInfo& v) {
  return (OwnState(v) & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT) != 0;
}
inline bool HasTessellation(const VkGraphicsPipelineCreateInfo& v) {
  for (uint32_t i = 0; v.pStages != nullptr && i < v.stageCount; i++) {
    if (v.pStages[i].stage == VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT ||
        v.pStages[i].stage == VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT) {
      return true;
    }
  }
  return false;
}
// Whether primitives may be rasterized: then viewports, samples, depth and blending count. A structure without
// pre-rasterization state cannot tell, so they may.
inline bool Rasterizes(const VkGraphicsPipelineCreateInfo& v) {
  if ((OwnState(v) & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT) == 0) return true;
  return v.pRasterizationState != nullptr && (v.pRasterizationState->rasterizerDiscardEnable == VK_FALSE ||
                                              IsDynamic(v, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE));
}

}  // namespace sluice::vk

#endif  // SLUICE_FLATBUF_VKGEN_SEMANTICS_H_
