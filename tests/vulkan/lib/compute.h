// File: compute.h
//
// A compute pipeline over storage buffers at bindings 0..n-1 of set 0, with push constants: what most compute cases
// are.
//
//   ComputeJob job(gpu, saxpy_comp, sizeof saxpy_comp, {&x, &y}, sizeof(Constants));
//   gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 16, &constants); });
#ifndef SLUICE_TESTS_VULKAN_LIB_COMPUTE_H_
#define SLUICE_TESTS_VULKAN_LIB_COMPUTE_H_

#include <vector>

#include "tests/vulkan/lib/gpu.h"

namespace sluice::vktest {

class ComputeJob {
 public:
  ComputeJob(Gpu& gpu, const uint32_t* code, size_t bytes, const std::vector<const Buffer*>& buffers,
             uint32_t constant_bytes = 0, const VkSpecializationInfo* specialization = nullptr,
             VkPipelineCreateFlags flags = 0);
  void Bind(VkCommandBuffer commands, const void* constants = nullptr) const;
  // Binds, dispatches, and makes the results visible to all that follows.
  void Dispatch(VkCommandBuffer commands, uint32_t groups, const void* constants = nullptr) const;

  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkDescriptorSet set = VK_NULL_HANDLE;

 private:
  const uint32_t constant_bytes_;
};

// Writes one buffer descriptor.
void WriteBuffer(const Gpu& gpu, VkDescriptorSet set, uint32_t binding, VkDescriptorType type, VkBuffer buffer,
                 VkDeviceSize offset = 0, VkDeviceSize range = VK_WHOLE_SIZE, uint32_t element = 0);
void WriteImage(const Gpu& gpu, VkDescriptorSet set, uint32_t binding, VkDescriptorType type, VkImageView view,
                VkSampler sampler = VK_NULL_HANDLE, uint32_t element = 0);

}  // namespace sluice::vktest

#endif  // SLUICE_TESTS_VULKAN_LIB_COMPUTE_H_
