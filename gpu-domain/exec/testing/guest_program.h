// File: guest_program.h
//
// Plain Vulkan code, as a guest program would write it, against the entry points that are linked: the guest's encoders
// here, a driver in other programs. No trace of the wire.
#ifndef SLUICE_GPU_DOMAIN_EXEC_TESTING_GUEST_PROGRAM_H_
#define SLUICE_GPU_DOMAIN_EXEC_TESTING_GUEST_PROGRAM_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <vector>

namespace sluice::exec::testing {

// Instance, first device, its first queue family's first queue, a command pool. Check `ok` before use.
struct GuestDevice {
  bool ok = false;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;

  GuestDevice();
  // Destroys the five above. Everything else made on the device must be gone already.
  void Destroy();

  // A memory type among `bits` with `flags`.
  uint32_t MemoryType(uint32_t bits, VkMemoryPropertyFlags flags) const;
  VkCommandBuffer AllocateCommandBuffer(VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY) const;
  // Submits and waits through a fence.
  VkResult SubmitAndWait(VkCommandBuffer cb) const;
};

struct GuestBuffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  void* mapped = nullptr;
  VkDeviceSize size = 0;

  GuestBuffer(const GuestDevice& d, VkDeviceSize bytes, VkBufferUsageFlags usage);
  void Destroy(const GuestDevice& d);
};

// base + 3 * i for i < count (a multiple of 64), computed by a compute shader.
std::vector<uint32_t> RunCompute(const GuestDevice& d, uint32_t base, uint32_t count);
// A 64x64 RGBA8 picture: a red-green-blue triangle on dark blue.
std::vector<uint32_t> DrawTriangle(const GuestDevice& d);

}  // namespace sluice::exec::testing

#endif  // SLUICE_GPU_DOMAIN_EXEC_TESTING_GUEST_PROGRAM_H_
