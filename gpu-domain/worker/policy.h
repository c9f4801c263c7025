// File: policy.h
//
// What a worker decides about the commands of one context (gpu-domain/exec/policy.h): which devices there are, how much
// memory may be held, which blob backs an allocation, what happens when a submission completes. Everything that is not
// decided here or in the executor goes to the driver as it is.
#ifndef SLUICE_GPU_DOMAIN_WORKER_POLICY_H_
#define SLUICE_GPU_DOMAIN_WORKER_POLICY_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "flatbuf/stats.h"
#include "gpu-domain/exec/policy.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/driver.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "gpu-domain/worker/host_copies.h"
#include "gpu-domain/worker/leaving_blobs.h"
#include "gpu-domain/worker/queue_tracker.h"

namespace sluice::worker {

// What the policy needs from its context. Called on the executing thread.
class PolicyHost {
 public:
  virtual ~PolicyHost() = default;
  // A kMemory blob of this context, or null.
  virtual std::shared_ptr<Blob> FindMemory(uint32_t resource) = 0;
  // Takes from the front-end's quota; nullopt: refused and counted.
  virtual std::optional<MemoryCharge> TakeMemory(uint64_t bytes) = 0;
  // The driver has freed memory in this blob; what was submitted before may still use it.
  virtual void DropLater(std::shared_ptr<Blob> blob, Unfinished unfinished) = 0;
  // All devices are gone.
  virtual void DropAll() = 0;
  // The device's work does not end, so nothing of it can be freed: the worker has to end. Does not return in a worker
  // process.
  virtual void OnHung(absl::string_view what) = 0;
};

struct WorkerPolicyOptions {
  absl::Duration gpu_timeout = absl::Seconds(30);
  uint64_t memory_bytes = 0;           // quota: the largest heap that guests are told of
  wire::WorkerStats* stats = nullptr;  // never null
};

// One thread at a time, as exec::Context. All arguments outlive it.
class WorkerPolicy : public exec::DriverPolicy {
 public:
  WorkerPolicy(const WorkerPolicyOptions& options, const VulkanDriver* driver, FenceTracker* fences, PolicyHost* host,
               QueueListener* listener);
  ~WorkerPolicy() override;

  // The ring whose message is executed next: feedback slots mean its slots.
  void SetRing(std::shared_ptr<Blob> ring) { ring_ = std::move(ring); }

  // Publishes what has completed on any queue. True: something is in flight, go on polling or hand over
  // (QueueTracker::Poll).
  bool PollQueues();
  void HandOverQueues();

  VkResult vkCreateInstance(exec::Call& call, const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                            VkInstance* instance) override;
  void vkDestroyInstance(exec::Call& call, VkInstance instance, const VkAllocationCallbacks* allocator) override;
  VkResult vkEnumeratePhysicalDevices(exec::Call& call, VkInstance instance, uint32_t* count,
                                      VkPhysicalDevice* devices) override;
  void vkGetPhysicalDeviceProperties(exec::Call& call, VkPhysicalDevice device,
                                     VkPhysicalDeviceProperties* properties) override;
  void vkGetPhysicalDeviceMemoryProperties(exec::Call& call, VkPhysicalDevice device,
                                           VkPhysicalDeviceMemoryProperties* properties) override;
  VkResult vkCreateDevice(exec::Call& call, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                          const VkAllocationCallbacks* allocator, VkDevice* device) override;
  void vkDestroyDevice(exec::Call& call, VkDevice device, const VkAllocationCallbacks* allocator) override;
  void vkGetDeviceQueue(exec::Call& call, VkDevice device, uint32_t family, uint32_t index, VkQueue* queue,
                        uint8_t timeline) override;
  VkResult vkQueueSubmit(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits, uint32_t slot,
                         uint64_t batch) override;
  VkResult vkQueueSubmit2(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits, uint32_t slot,
                          uint64_t batch) override;
  VkResult vkDeviceWaitIdle(exec::Call& call, VkDevice device) override;
  VkResult vkCreateSemaphore(exec::Call& call, VkDevice device, const VkSemaphoreCreateInfo* info,
                             const VkAllocationCallbacks* allocator, VkSemaphore* semaphore) override;
  void vkDestroySemaphore(exec::Call& call, VkDevice device, VkSemaphore semaphore,
                          const VkAllocationCallbacks* allocator) override;
  VkResult vkSignalSemaphore(exec::Call& call, VkDevice device, const VkSemaphoreSignalInfo* info) override;
  VkResult vkAllocateMemory(exec::Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                            const VkAllocationCallbacks* allocator, VkDeviceMemory* memory, uint32_t resource_id,
                            uint64_t resource_offset) override;
  void vkFreeMemory(exec::Call& call, VkDevice device, VkDeviceMemory memory,
                    const VkAllocationCallbacks* allocator) override;
  VkResult vkCreateBuffer(exec::Call& call, VkDevice device, const VkBufferCreateInfo* info,
                          const VkAllocationCallbacks* allocator, VkBuffer* buffer) override;
  VkResult vkCreateImage(exec::Call& call, VkDevice device, const VkImageCreateInfo* info,
                         const VkAllocationCallbacks* allocator, VkImage* image) override;

 private:
  struct Device {
    const DriverDevice* physical = nullptr;
    DeviceFunctions vk;
    std::map<uint32_t, uint32_t> queue_counts;  // by family, as created
    std::vector<VkQueue> queues;                // those that were asked for
  };
  struct Memory {
    MemoryCharge charge;         // empty for memory in a blob: the blob is charged
    std::shared_ptr<Blob> blob;  // null: the driver's own memory
  };

  Device* FindDevice(VkDevice device);
  void AddPoint(VkSemaphore semaphore, uint64_t value, std::vector<TimelinePoint>* points);
  Completion CompletionOf(const VkSubmitInfo& submit);
  Completion CompletionOf(const VkSubmitInfo2& submit);
  template <typename Info, typename Submit>
  VkResult SubmitBatches(exec::Call& call, VkQueue queue, uint32_t count, const Info* submits, uint32_t slot,
                         uint64_t batch, Submit submit);
  // Signals what the device's queues wait for and the host has not signaled.
  void Unblock(const Device& device, VkDevice handle);
  // `ending`: the device goes: what its queues wait for is not waited for.
  bool WaitDeviceIdle(const Device& device, VkDevice handle, bool ending);
  // Host-visible memory in [offset, ...) of a blob: imported, or kept equal by copies.
  VkResult Import(exec::Call& call, VkDevice device, VkMemoryAllocateInfo info, uint8_t* pointer,
                  VkDeviceMemory* memory);
  VkResult AllocateCopied(exec::Call& call, VkDevice device, const VkMemoryAllocateInfo& info,
                          std::shared_ptr<Blob> blob, uint64_t offset, VkDeviceMemory* memory);
  bool Hung(const Device& device);

  const WorkerPolicyOptions options_;
  const VulkanDriver* const driver_;
  FenceTracker* const fences_;
  PolicyHost* const host_;
  QueueListener* const listener_;
  std::shared_ptr<Blob> ring_;
  absl::flat_hash_map<VkDevice, Device> devices_;
  absl::flat_hash_map<VkQueue, std::shared_ptr<QueueTracker>> queues_;
  absl::flat_hash_map<VkSemaphore, std::shared_ptr<TimelineCounter>> timelines_;
  absl::flat_hash_map<VkDeviceMemory, Memory> memories_;
  HostCopies copies_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_POLICY_H_
