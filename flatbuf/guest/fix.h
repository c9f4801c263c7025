// File: fix.h
//
// Members that the specification lets a program leave undefined because of other members of the same structure: the
// guest clears them in a copy before it encodes, so that the worker may check everything that it is sent. Named in
// allow.toml ([guest_fix]). Members that are undefined because of state in other objects are the subject of
// pipeline_fix.h. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_FIX_H_
#define SLUICE_FLATBUF_GUEST_FIX_H_

#include <string.h>
#include <vulkan/vulkan_core.h>

namespace sluice::guest {

// An enum that may hold anything, kept if it lies between 0 and `last`.
template <typename E>
void ClearIfUnknown(E* value, E last) {
  int32_t number = 0;
  static_assert(sizeof(E) == sizeof(number));
  memcpy(&number, value, sizeof(number));
  if (number < 0 || number > static_cast<int32_t>(last)) memset(static_cast<void*>(value), 0, sizeof(*value));
}

// The members of an image descriptor that its type does not use.
inline void FixImageInfo(VkDescriptorType type, VkDescriptorImageInfo& row) {
  if (type == VK_DESCRIPTOR_TYPE_SAMPLER) {
    row.imageView = VK_NULL_HANDLE;
    row.imageLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  } else if (type != VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER) {
    row.sampler = VK_NULL_HANDLE;
  }
}

// Comparison without compareEnable; a border color that nothing shows (or a custom one).
inline void FixSampler(VkSamplerCreateInfo& v) {
  if (v.compareEnable == VK_FALSE) ClearIfUnknown(&v.compareOp, VK_COMPARE_OP_ALWAYS);
  const bool border = v.addressModeU == VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER ||
                      v.addressModeV == VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER ||
                      v.addressModeW == VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER;
  if (!border) v.borderColor = VK_BORDER_COLOR_FLOAT_TRANSPARENT_BLACK;
}

inline void FixQueryPool(VkQueryPoolCreateInfo& v) {
  if (v.queryType != VK_QUERY_TYPE_PIPELINE_STATISTICS) v.pipelineStatistics = 0;
}

// Logic operations may be switched on later (dynamic state), so that a known value is kept.
inline void FixColorBlend(VkPipelineColorBlendStateCreateInfo& v) {
  if (v.logicOpEnable == VK_FALSE) ClearIfUnknown(&v.logicOp, VK_LOGIC_OP_SET);
}

inline void FixLayoutBinding(VkDescriptorSetLayoutBinding& v) {
  if (v.descriptorCount == 0) v.stageFlags = 0;
}

// Derivatives are a hint that worker and driver do without: their base may be another element of the same call.
template <typename Info>
void FixDerivative(Info& v) {
  v.flags &= ~static_cast<VkPipelineCreateFlags>(VK_PIPELINE_CREATE_DERIVATIVE_BIT);
  v.basePipelineHandle = VK_NULL_HANDLE;
  v.basePipelineIndex = -1;
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_FIX_H_
