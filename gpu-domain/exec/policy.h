// File: policy.h
//
// The decisions that generated code must not take. The executor decodes and checks a command, turns ids into driver
// handles, and hands the commands below to a Policy instead of to the driver; every other command goes straight to the
// driver. The worker implements it (quota, imported memory, fences); DriverPolicy is the plain one that tests and tools
// start from.
//
//   class WorkerPolicy : public exec::DriverPolicy {
//     VkResult vkAllocateMemory(exec::Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
//                               const VkAllocationCallbacks* allocator, VkDeviceMemory* memory, uint32_t resource_id,
//                               uint64_t resource_offset) override {
//       if (!quota_->Take(info->allocationSize)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
//       ...chain a VkImportMemoryHostPointerInfoEXT for resource_id...
//       return DriverPolicy::vkAllocateMemory(call, device, info, allocator, memory, 0, 0);
//     }
//   };
//
// Every pointer argument is private memory that lives until the method returns; structures may be copied and extended,
// never kept. Handles are driver handles that passed type and parent checks. Allocators are always null. Called on the
// thread that calls Context::Execute (or destroys the Context).
#ifndef SLUICE_GPU_DOMAIN_EXEC_POLICY_H_
#define SLUICE_GPU_DOMAIN_EXEC_POLICY_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>

#include "absl/status/status.h"

namespace sluice::exec {

class Arena;
class Context;
struct InstanceTable;  // flatbuf/vk/exec_dispatch.h (generated): one PFN per allowed instance command,
                       // `vk->CreateDevice(...)`
struct DeviceTable;    // the same for device commands

// What a policy may know of the command it is asked about.
struct Call {
  Context& context;
  Arena& arena;                      // memory until the command ends
  const InstanceTable* instance_vk;  // null in vkCreateInstance only
  const DeviceTable* device_vk;      // null in instance-level commands
  uint64_t dispatch_id = 0;          // wire id of the first handle argument (instance, device, queue ...)
  uint64_t object_id = 0;            // wire id of the object that is created or destroyed
  absl::Status lost;                 // set it to end the context after this command; codes as in Context::Execute
};

// No publication wanted: `slot` of vkQueueSubmit.
inline constexpr uint32_t kNoSlot = 0xffffffff;

// One method per `manual` command of flatbuf/vkgen/allow.toml. Same meaning as the Vulkan command, plus the extra
// arguments that the allow-list declares.
class Policy {
 public:
  virtual ~Policy() = default;

  // Global: the loader's entry point. Called once before vkCreateInstance.
  virtual PFN_vkGetInstanceProcAddr GetInstanceProcAddr() = 0;

  virtual VkResult vkCreateInstance(Call&, const VkInstanceCreateInfo*, const VkAllocationCallbacks*, VkInstance*) = 0;
  virtual void vkDestroyInstance(Call&, VkInstance, const VkAllocationCallbacks*) = 0;
  // As the driver's: two-call idiom. May hide devices.
  virtual VkResult vkEnumeratePhysicalDevices(Call&, VkInstance, uint32_t* count, VkPhysicalDevice* devices) = 0;
  virtual void vkGetPhysicalDeviceProperties(Call&, VkPhysicalDevice, VkPhysicalDeviceProperties*) = 0;
  // What guests see. Host-visible types that are not host-coherent must lose HOST_VISIBLE: guests never send flushes.
  virtual void vkGetPhysicalDeviceMemoryProperties(Call&, VkPhysicalDevice, VkPhysicalDeviceMemoryProperties*) = 0;
  // The same with chains, and without what does not cross (sparse resources).
  virtual void vkGetPhysicalDeviceProperties2(Call&, VkPhysicalDevice, VkPhysicalDeviceProperties2*) = 0;
  virtual void vkGetPhysicalDeviceFeatures2(Call&, VkPhysicalDevice, VkPhysicalDeviceFeatures2*) = 0;
  virtual void vkGetPhysicalDeviceMemoryProperties2(Call&, VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2*) = 0;
  virtual void vkGetPhysicalDeviceQueueFamilyProperties2(Call&, VkPhysicalDevice, uint32_t*,
                                                         VkQueueFamilyProperties2*) = 0;
  // Those that the driver has and that cross (flatbuf/vk/extensions.h). Two-call idiom.
  virtual VkResult vkEnumerateDeviceExtensionProperties(Call&, VkPhysicalDevice, uint32_t*, VkExtensionProperties*) = 0;
  virtual VkResult vkCreateDevice(Call&, VkPhysicalDevice, const VkDeviceCreateInfo*, const VkAllocationCallbacks*,
                                  VkDevice*) = 0;
  // All children are destroyed already. Must wait until the device is idle first.
  virtual void vkDestroyDevice(Call&, VkDevice, const VkAllocationCallbacks*) = 0;
  // `timeline`: the virtio-gpu ring_idx (1..63) that the guest binds to this queue.
  virtual void vkGetDeviceQueue(Call&, VkDevice, uint32_t family, uint32_t index, VkQueue*, uint8_t timeline) = 0;
  // `slot`: feedback slot in which the numbers of completed batches appear: `batch` is that of the last one here, the
  // others count down from it (without batches: of the submission itself). kNoSlot: none. The slot is checked by the
  // policy against its ring's RingLayout::feedback_slots(). Never waits for the GPU.
  virtual VkResult vkQueueSubmit(Call&, VkQueue, uint32_t count, const VkSubmitInfo*, uint32_t slot,
                                 uint64_t batch) = 0;
  virtual VkResult vkQueueSubmit2(Call&, VkQueue, uint32_t count, const VkSubmitInfo2*, uint32_t slot,
                                  uint64_t batch) = 0;
  // Does not cross the wire: the executor asks, before it destroys what the device owns.
  virtual VkResult vkDeviceWaitIdle(Call&, VkDevice) = 0;
  virtual VkResult vkCreateSemaphore(Call&, VkDevice, const VkSemaphoreCreateInfo*, const VkAllocationCallbacks*,
                                     VkSemaphore*) = 0;
  virtual void vkDestroySemaphore(Call&, VkDevice, VkSemaphore, const VkAllocationCallbacks*) = 0;
  virtual VkResult vkSignalSemaphore(Call&, VkDevice, const VkSemaphoreSignalInfo*) = 0;
  // `resource_id`: the kMemory blob that backs a host-visible allocation, from `resource_offset` (bytes) on; 0: device
  // memory.
  virtual VkResult vkAllocateMemory(Call&, VkDevice, const VkMemoryAllocateInfo*, const VkAllocationCallbacks*,
                                    VkDeviceMemory*, uint32_t resource_id, uint64_t resource_offset) = 0;
  virtual void vkFreeMemory(Call&, VkDevice, VkDeviceMemory, const VkAllocationCallbacks*) = 0;
  // May chain VkExternalMemory*CreateInfo, so that the object can be bound to imported memory.
  virtual VkResult vkCreateBuffer(Call&, VkDevice, const VkBufferCreateInfo*, const VkAllocationCallbacks*,
                                  VkBuffer*) = 0;
  virtual VkResult vkCreateImage(Call&, VkDevice, const VkImageCreateInfo*, const VkAllocationCallbacks*, VkImage*) = 0;
};

// Straight to the driver; loads libvulkan.so.1 on first use. vkAllocateMemory refuses resource_id != 0 and
// vkQueueSubmit refuses feedback slots (VK_ERROR_FEATURE_NOT_PRESENT): those need somebody who owns blobs and rings.
class DriverPolicy : public Policy {
 public:
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr() override;
  VkResult vkCreateInstance(Call&, const VkInstanceCreateInfo*, const VkAllocationCallbacks*, VkInstance*) override;
  void vkDestroyInstance(Call&, VkInstance, const VkAllocationCallbacks*) override;
  VkResult vkEnumeratePhysicalDevices(Call&, VkInstance, uint32_t*, VkPhysicalDevice*) override;
  void vkGetPhysicalDeviceProperties(Call&, VkPhysicalDevice, VkPhysicalDeviceProperties*) override;
  void vkGetPhysicalDeviceMemoryProperties(Call&, VkPhysicalDevice, VkPhysicalDeviceMemoryProperties*) override;
  void vkGetPhysicalDeviceProperties2(Call&, VkPhysicalDevice, VkPhysicalDeviceProperties2*) override;
  void vkGetPhysicalDeviceFeatures2(Call&, VkPhysicalDevice, VkPhysicalDeviceFeatures2*) override;
  // Asks vkGetPhysicalDeviceMemoryProperties for the structure itself.
  void vkGetPhysicalDeviceMemoryProperties2(Call&, VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2*) override;
  void vkGetPhysicalDeviceQueueFamilyProperties2(Call&, VkPhysicalDevice, uint32_t*,
                                                 VkQueueFamilyProperties2*) override;
  VkResult vkEnumerateDeviceExtensionProperties(Call&, VkPhysicalDevice, uint32_t*, VkExtensionProperties*) override;
  VkResult vkCreateDevice(Call&, VkPhysicalDevice, const VkDeviceCreateInfo*, const VkAllocationCallbacks*,
                          VkDevice*) override;
  void vkDestroyDevice(Call&, VkDevice, const VkAllocationCallbacks*) override;
  void vkGetDeviceQueue(Call&, VkDevice, uint32_t, uint32_t, VkQueue*, uint8_t) override;
  VkResult vkQueueSubmit(Call&, VkQueue, uint32_t, const VkSubmitInfo*, uint32_t, uint64_t) override;
  VkResult vkQueueSubmit2(Call&, VkQueue, uint32_t, const VkSubmitInfo2*, uint32_t, uint64_t) override;
  VkResult vkCreateSemaphore(Call&, VkDevice, const VkSemaphoreCreateInfo*, const VkAllocationCallbacks*,
                             VkSemaphore*) override;
  void vkDestroySemaphore(Call&, VkDevice, VkSemaphore, const VkAllocationCallbacks*) override;
  VkResult vkSignalSemaphore(Call&, VkDevice, const VkSemaphoreSignalInfo*) override;
  VkResult vkDeviceWaitIdle(Call&, VkDevice) override;
  VkResult vkAllocateMemory(Call&, VkDevice, const VkMemoryAllocateInfo*, const VkAllocationCallbacks*, VkDeviceMemory*,
                            uint32_t, uint64_t) override;
  void vkFreeMemory(Call&, VkDevice, VkDeviceMemory, const VkAllocationCallbacks*) override;
  VkResult vkCreateBuffer(Call&, VkDevice, const VkBufferCreateInfo*, const VkAllocationCallbacks*, VkBuffer*) override;
  VkResult vkCreateImage(Call&, VkDevice, const VkImageCreateInfo*, const VkAllocationCallbacks*, VkImage*) override;
};

// vkGetInstanceProcAddr of libvulkan.so.1, or null where there is no loader. Opened once per process.
PFN_vkGetInstanceProcAddr LoadVulkan();

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_POLICY_H_
