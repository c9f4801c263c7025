// File: program.h
//
// A small Vulkan program for tests: an instance, the first device, a queue, and buffers that the GPU fills. Works over
// whatever driver the loader finds.
//
//   Program program;
//   ASSERT_EQ(program.Open(), VK_SUCCESS);
//   EXPECT_EQ(program.Fill(0x12345678), VK_SUCCESS);     // the GPU wrote it and the host read it
#ifndef SLUICE_ICD_TESTING_PROGRAM_H_
#define SLUICE_ICD_TESTING_PROGRAM_H_

#include <vulkan/vulkan.h>

#include <cstdint>
#include <vector>

namespace sluice::icd::testing {

struct ProgramOptions {
  uint32_t api_version = VK_API_VERSION_1_0;
  std::vector<const char*> instance_extensions;
  std::vector<const char*> device_extensions;
  const void* instance_next = nullptr;
  uint32_t physical_device = 0;
};

class Program {
 public:
  Program() = default;
  ~Program() { Close(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  VkResult OpenInstance(const ProgramOptions& options = {});
  // Instance, device, queue and command pool. VK_ERROR_INITIALIZATION_FAILED: there is no such physical device.
  VkResult Open(const ProgramOptions& options = {});
  VkResult OpenDevice(const ProgramOptions& options = {});
  void Close();
  // Forgets all without a word to the driver.
  void Abandon();

  // Has the GPU fill a buffer of `bytes` with `value`, waits, and looks. VK_ERROR_UNKNOWN: other bytes are there.
  VkResult Fill(uint32_t value, VkDeviceSize bytes = 4096);
  // Submits a command buffer that fills a buffer `times` times; `fence` may be null.
  VkResult Submit(uint32_t value, uint32_t times, VkFence fence);

  VkInstance instance() const { return instance_; }
  const std::vector<VkPhysicalDevice>& physical_devices() const { return physical_; }
  VkPhysicalDevice physical() const { return chosen_; }
  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }

 private:
  VkResult MakeBuffer(VkDeviceSize bytes);

  VkInstance instance_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> physical_;
  VkPhysicalDevice chosen_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceSize bytes_ = 0;
  void* mapped_ = nullptr;
};

}  // namespace sluice::icd::testing

#endif  // SLUICE_ICD_TESTING_PROGRAM_H_
