// File: scene_device.h
//
// The small part of Vulkan set-up that every scene needs. The scenes in this directory are plain Vulkan programs
// without the C++ standard library: the same sources run natively against libvulkan and in a guest without an operating
// system against flatbuf/guest, so that their pictures can be compared byte for byte.
//
//   SceneDevice device;
//   TriangleScene scene;
//   SceneStatus status = device.Open({});
//   if (status.ok()) status = scene.Create(&device, 256);
//   if (status.ok()) status = scene.Render(0);
//   if (!status.ok()) Report(status.what, status.result);
//
// One thread. Objects are destroyed in the reverse order of their creation.
#ifndef SLUICE_TESTS_SCENES_SCENE_DEVICE_H_
#define SLUICE_TESTS_SCENES_SCENE_DEVICE_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

namespace sluice::scenes {

// Which step failed, and how. ok() when none did.
struct SceneStatus {
  const char* what = nullptr;  // a literal
  VkResult result = VK_SUCCESS;
  bool ok() const { return what == nullptr; }
};

struct SceneDeviceOptions {
  // Part of the device's name; null: the first device there is.
  const char* device_name = nullptr;
};

class SceneDevice {
 public:
  SceneDevice() = default;
  ~SceneDevice();
  SceneDevice(const SceneDevice&) = delete;
  SceneDevice& operator=(const SceneDevice&) = delete;

  // Instance, device, and one queue that can draw, compute and copy.
  SceneStatus Open(const SceneDeviceOptions& options);
  // Destroys everything, as the destructor does.
  void Close();

  VkDevice device() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  VkQueue queue() const { return queue_; }
  uint32_t family() const { return family_; }
  const VkPhysicalDeviceProperties& properties() const { return properties_; }
  // Index of a memory type among `allowed` (memoryTypeBits) with all of `wanted`; UINT32_MAX: none.
  uint32_t MemoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const;

 private:
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  VkPhysicalDeviceProperties properties_ = {};
  VkPhysicalDeviceMemoryProperties memory_ = {};
};

// A buffer in mapped, coherent host-visible memory.
class SceneBuffer {
 public:
  SceneBuffer() = default;
  ~SceneBuffer() { Destroy(); }
  SceneBuffer(const SceneBuffer&) = delete;
  SceneBuffer& operator=(const SceneBuffer&) = delete;

  SceneStatus Create(SceneDevice* device, VkDeviceSize bytes, VkBufferUsageFlags usage);
  void Destroy();
  VkBuffer buffer() const { return buffer_; }
  VkDeviceSize bytes() const { return bytes_; }
  void* data() const { return data_; }

 private:
  SceneDevice* device_ = nullptr;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceSize bytes_ = 0;
  void* data_ = nullptr;
};

// A command pool with one primary command buffer, and the fence of its last submission.
class SceneCommands {
 public:
  SceneCommands() = default;
  ~SceneCommands() { Destroy(); }
  SceneCommands(const SceneCommands&) = delete;
  SceneCommands& operator=(const SceneCommands&) = delete;

  SceneStatus Create(SceneDevice* device);
  void Destroy();
  // Starts recording anew (one-time submit).
  SceneStatus Begin();
  VkCommandBuffer buffer() const { return buffer_; }
  // Ends recording and submits; Wait sleeps until that has been executed.
  SceneStatus Submit();
  SceneStatus Wait();

 private:
  SceneDevice* device_ = nullptr;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer buffer_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

// SPIR-V of `bytes` as a shader module.
SceneStatus CreateShader(VkDevice device, const uint32_t* code, size_t bytes, VkShaderModule* module);

}  // namespace sluice::scenes

#endif  // SLUICE_TESTS_SCENES_SCENE_DEVICE_H_
