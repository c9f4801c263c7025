// File: copy_job.h
//
// A guest program that has the GPU copy between buffers in host-visible memory. Talks to whatever the guest runtime's
// current channel is.
//
//   auto job = CopyJob::Create();
//   HostBuffer a = job->MakeBuffer(5000), b = job->MakeBuffer(5000);
//   memcpy(a.data, ...);
//   ASSERT_EQ(job->Copy(a, 0, b, 0, 5000), VK_SUCCESS);
#ifndef SLUICE_GPU_DOMAIN_WORKER_TESTING_COPY_JOB_H_
#define SLUICE_GPU_DOMAIN_WORKER_TESTING_COPY_JOB_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <memory>

namespace sluice::worker::testing {

struct HostBuffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint8_t* data = nullptr;  // null: could not be made
  uint64_t bytes = 0;
};

class CopyJob {
 public:
  // Instance, device, command buffer and fence; null if one of them fails.
  static std::unique_ptr<CopyJob> Create();
  ~CopyJob();

  // A buffer of `bytes` in memory of its own, mapped.
  HostBuffer MakeBuffer(uint64_t bytes);
  void Free(HostBuffer* buffer);
  // Host-visible, coherent memory.
  VkResult Allocate(uint64_t bytes, const void* next, VkDeviceMemory* memory);

  VkResult Submit(const HostBuffer& from, uint64_t from_at, const HostBuffer& to, uint64_t to_at, uint64_t bytes);
  VkResult Wait();
  VkResult Copy(const HostBuffer& from, uint64_t from_at, const HostBuffer& to, uint64_t to_at, uint64_t bytes);
  // The context is gone: what is destroyed now is the guest's half only.
  void Abandon() { abandoned_ = true; }

  VkPhysicalDevice physical() const { return physical_; }
  VkDevice device() const { return device_; }
  uint32_t memory_type() const { return memory_type_; }

 private:
  CopyJob() = default;
  bool Init();

  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  uint32_t memory_type_ = 0;
  bool abandoned_ = false;
};

}  // namespace sluice::worker::testing

#endif  // SLUICE_GPU_DOMAIN_WORKER_TESTING_COPY_JOB_H_
