// File: checks.h
//
// Rules of decoded structures that allow.toml names and that need more than an expression: indices between arrays, and
// state that a driver would follow without looking. They keep the plainest driver crashes away; what is structurally
// sound and still crashes a driver ends the worker process, which holds one front-end only.
#ifndef SLUICE_GPU_DOMAIN_EXEC_CHECKS_H_
#define SLUICE_GPU_DOMAIN_EXEC_CHECKS_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>

#include "flatbuf/vkgen/semantics.h"

namespace sluice::exec {

using vk::UsesBufferInfo;
using vk::UsesImageInfo;
using vk::UsesTexelBuffer;

// Exactly one bit, and one of `mask`.
constexpr bool IsOneOf(uint32_t value, uint32_t mask) {
  return value != 0 && (value & (value - 1)) == 0 && (value & ~mask) == 0;
}

// Object::aux of a command buffer: its level and, in the low bits, its recording state.
inline constexpr uint32_t kInitial = 0, kRecording = 1, kExecutable = 2, kStateMask = 3;
constexpr uint32_t LevelAux(VkCommandBufferLevel level) {
  return static_cast<uint32_t>(level) << 8;
}

// Object::aux of a query pool: queries in the low 24 bits, values per query above.
inline constexpr uint32_t kMaxQueries = 1u << 20;
inline uint32_t QueryAux(const VkQueryPoolCreateInfo& v) {
  const bool statistics = v.queryType == VK_QUERY_TYPE_PIPELINE_STATISTICS;
  return v.queryCount | static_cast<uint32_t>(statistics ? __builtin_popcount(v.pipelineStatistics) : 1) << 24;
}

// Every map entry lies within the data.
bool SpecializationFits(const VkSpecializationInfo& v);
// Attachment and subpass numbers name what is there.
bool RenderPassIndicesFit(const VkRenderPassCreateInfo& v);
bool RenderPassIndicesFit(const VkRenderPassCreateInfo2& v);
// At most 32 bindings and attributes with numbers below 32, strides and offsets below 64 KiB.
bool VertexInputFits(const VkPipelineVertexInputStateCreateInfo& v);
// Binding numbers below 4096 and at most 4 M descriptors in all.
bool LayoutBindingsFit(const VkDescriptorSetLayoutCreateInfo& v);
// What the structure's own state needs is there: state structures, viewports and scissors that are not dynamic, a
// layout for shaders.
bool GraphicsStatePresent(const VkGraphicsPipelineCreateInfo& v);
// A shader module, by handle or chained.
bool ModulePresent(const VkPipelineShaderStageCreateInfo& v);
// Inline uniform data: chained, as many bytes as descriptors.
bool InlineDataFits(const VkWriteDescriptorSet& v);
// Every name is an extension that crosses (flatbuf/vk/extensions.h), of an instance or of a device.
bool ExtensionsCross(const char* const* names, uint32_t count, bool instance);
// A derivative names its base by handle, or not at all: basePipelineIndex would refer to other elements of the same
// call.
template <typename Info>
bool BasePipelineFits(const Info& v) {
  return (v.flags & VK_PIPELINE_CREATE_DERIVATIVE_BIT) == 0 || v.basePipelineHandle != VK_NULL_HANDLE;
}

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_CHECKS_H_
