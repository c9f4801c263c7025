// File: saxpy_job.h
//
// A small Vulkan program for tests, written as a guest writes it (vulkan.h, nothing of Sluice): device, buffers, a
// compute pipeline, a submission, the result read back.
#ifndef SLUICE_GPU_DOMAIN_WORKER_TESTING_SAXPY_JOB_H_
#define SLUICE_GPU_DOMAIN_WORKER_TESTING_SAXPY_JOB_H_

#include <vulkan/vulkan.h>

#include <cstdint>
#include <memory>

namespace sluice::worker::testing {

class SaxpyJob {
 public:
  // Null, with *error set, when a call fails.
  static std::unique_ptr<SaxpyJob> Create(uint32_t elements, VkResult* error);
  ~SaxpyJob();

  // Sets x[i] = i, y[i] = 1; submits y = a * x + y; waits for the fence. VK_SUCCESS and all elements right, or not.
  VkResult Run(float a);
  bool Right(float a) const;
  // Submits work that waits for `event`, and returns.
  VkResult SubmitWait(VkEvent event);

  VkInstance instance() const { return instance_; }
  VkPhysicalDevice physical() const { return physical_; }
  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }

 private:
  explicit SaxpyJob(uint32_t elements) : elements_(elements) {}
  VkResult Init();
  VkResult MakeBuffer(int index);
  VkResult MakePipeline();
  VkResult Record(float a);
  VkResult Submit(VkFence fence);

  const uint32_t elements_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkBuffer buffers_[2] = {};
  VkDeviceMemory memory_[2] = {};
  float* data_[2] = {};
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkCommandPool command_pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace sluice::worker::testing

#endif  // SLUICE_GPU_DOMAIN_WORKER_TESTING_SAXPY_JOB_H_
