// File: query.h
//
// Small things that the files of this directory share.
#ifndef SLUICE_ICD_WSI_QUERY_H_
#define SLUICE_ICD_WSI_QUERY_H_

#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "icd/wsi/wsi.h"

namespace sluice::wsi {

// Images of a swapchain.
inline constexpr uint32_t kMinImages = 2, kMaxImages = 16;

// Vulkan's way to return arrays: how many there are without `to`, else as many as fit, and VK_INCOMPLETE if not all.
template <typename From, typename To, typename Copy>
VkResult FillArray(std::span<const From> all, uint32_t* count, To* to, Copy copy) {
  const uint32_t available = static_cast<uint32_t>(all.size());
  if (to == nullptr) {
    *count = available;
    return VK_SUCCESS;
  }
  const uint32_t filled = std::min(*count, available);
  for (uint32_t i = 0; i < filled; i++) copy(all[i], to[i]);
  *count = filled;
  return filled < available ? VK_INCOMPLETE : VK_SUCCESS;
}

// Whether queues of the family can copy images, which is all that presenting needs.
bool FamilyCanPresent(const PhysicalDevice& device, uint32_t family);

// Longest side of an image.
uint32_t MaxImageExtent(const PhysicalDevice& device);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_QUERY_H_
