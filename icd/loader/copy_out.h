// File: copy_out.h
//
// Vulkan's way to hand out a list: how many there are, or as many as there is room for.
#ifndef SLUICE_ICD_LOADER_COPY_OUT_H_
#define SLUICE_ICD_LOADER_COPY_OUT_H_

#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::icd {

template <typename T>
VkResult CopyOut(const std::vector<T>& from, uint32_t* count, T* to) {
  const auto have = static_cast<uint32_t>(from.size());
  if (to == nullptr) {
    *count = have;
    return VK_SUCCESS;
  }
  *count = std::min(*count, have);
  std::copy_n(from.begin(), *count, to);
  return *count < have ? VK_INCOMPLETE : VK_SUCCESS;
}

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_COPY_OUT_H_
