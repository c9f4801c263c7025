// File: fake_driver.h
//
// A Vulkan driver that only looks (generated, flatbuf/vkgen/emit_fake.py): it reads every byte it is given and aborts
// when it sees a handle that it did not make, or that is destroyed. What the executor lets through is sound if this
// driver is content. Draws nothing.
#ifndef SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_DRIVER_H_
#define SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_DRIVER_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>

#include "gpu-domain/exec/policy.h"

namespace sluice::exec::testing {

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FakeGetInstanceProcAddr(VkInstance instance, const char* name);
// Objects made and not destroyed (descriptor sets, queues and physical devices, which end with others, not counted).
uint64_t FakeLive();
// Commands called so far.
uint64_t FakeCalls();
// Forgets every object. Between fuzz inputs.
void FakeReset();

// DriverPolicy on the fake driver. Accepts any resource id and feedback slot.
class FakePolicy : public DriverPolicy {
 public:
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr() override { return &FakeGetInstanceProcAddr; }
  VkResult vkQueueSubmit(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits, uint32_t,
                         uint64_t) override {
    return DriverPolicy::vkQueueSubmit(call, queue, count, submits, kNoSlot, 0);
  }
  VkResult vkQueueSubmit2(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits, uint32_t,
                          uint64_t) override {
    return DriverPolicy::vkQueueSubmit2(call, queue, count, submits, kNoSlot, 0);
  }
  VkResult vkAllocateMemory(Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                            const VkAllocationCallbacks* allocator, VkDeviceMemory* memory, uint32_t,
                            uint64_t) override {
    return DriverPolicy::vkAllocateMemory(call, device, info, allocator, memory, 0, 0);
  }
};

}  // namespace sluice::exec::testing

#endif  // SLUICE_GPU_DOMAIN_EXEC_TESTING_FAKE_DRIVER_H_
