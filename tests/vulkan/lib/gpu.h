// File: gpu.h
//
// Instance, device, queue and the few helpers that all cases need. Whatever a Make...() function returns belongs to the
// Gpu and is destroyed with it, in reverse order, once the device is idle. Failures of Vulkan calls end the program
// (they are never right).
//
//   Gpu& gpu = t.gpu({.extensions = {VK_EXT_MULTI_DRAW_EXTENSION_NAME}, .features = &multi_draw});
//   Buffer buffer = gpu.MakeBuffer(4096, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
//   gpu.Run([&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, buffer.buffer, 0, VK_WHOLE_SIZE, 7); });
//
// One thread, unless a case locks by itself.
#ifndef SLUICE_TESTS_VULKAN_LIB_GPU_H_
#define SLUICE_TESTS_VULKAN_LIB_GPU_H_

#include <vulkan/vulkan_core.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/vulkan/lib/test.h"

namespace sluice::vktest {

inline constexpr VkMemoryPropertyFlags kHostMemory =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
inline constexpr VkMemoryPropertyFlags kDeviceMemory = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
// Long enough for a loaded machine; a wait that lasts so long is a hang.
inline constexpr uint64_t kTimeoutNs = 60'000'000'000;

struct GpuOptions {
  // The case is skipped when the device lacks one.
  std::vector<const char*> extensions = {};
  std::vector<const char*> instance_extensions = {};
  // A chain of feature structures of those extensions: filled in with what the driver has, and all of that enabled.
  void* features = nullptr;
  // False: no feature of the core is enabled.
  bool core_features = true;
  bool robust_buffer_access = false;
  uint32_t api_version = VK_API_VERSION_1_3;
};

// `data` is the mapping of all of it, for host-visible memory.
struct Buffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkDeviceSize size = 0;
  void* data = nullptr;
  VkDeviceAddress address = 0;  // only with SHADER_DEVICE_ADDRESS
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct ImageOptions {
  VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
  VkExtent3D extent = {64, 64, 1};
  VkImageUsageFlags usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  VkImageAspectFlags aspect = VK_IMAGE_ASPECT_COLOR_BIT;
  VkImageType type = VK_IMAGE_TYPE_2D;
  VkImageViewType view_type = VK_IMAGE_VIEW_TYPE_2D;
  uint32_t mips = 1;
  uint32_t layers = 1;
  VkSampleCountFlagBits samples = VK_SAMPLE_COUNT_1_BIT;
  VkImageTiling tiling = VK_IMAGE_TILING_OPTIMAL;
  VkImageCreateFlags flags = 0;
  VkMemoryPropertyFlags memory = kDeviceMemory;
  const void* next = nullptr;
};

struct Image {
  VkImage image = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkImageView view = VK_NULL_HANDLE;  // none when the usage allows none
  ImageOptions options;
  VkImageSubresourceRange whole() const { return {options.aspect, 0, options.mips, 0, options.layers}; }
};

// An instance with the debug messenger that counts what the validation layer says, when Test::validate().
struct InstanceHolder {
  VkInstance instance = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  InstanceHolder(Test& t, uint32_t api_version, const std::vector<const char*>& extensions = {});
  ~InstanceHolder();
  InstanceHolder(const InstanceHolder&) = delete;
  InstanceHolder& operator=(const InstanceHolder&) = delete;
};

// The first physical device; ends the program when there is none.
VkPhysicalDevice FirstDevice(VkInstance instance);
std::vector<VkExtensionProperties> DeviceExtensions(VkPhysicalDevice physical);
bool HasExtension(const std::vector<VkExtensionProperties>& all, const char* name);

class Gpu {
 public:
  Gpu(Test& t, const GpuOptions& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  Test& test;
  InstanceHolder holder;
  const VkInstance instance;
  const VkPhysicalDevice physical;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t family = 0;
  VkCommandPool pool = VK_NULL_HANDLE;  // buffers can be reset one by one
  VkPhysicalDeviceProperties properties = {};
  VkPhysicalDeviceMemoryProperties memory = {};
  VkPhysicalDeviceFeatures2 features = {};  // enabled; the structures of 1.1 to 1.3 hang on it
  VkPhysicalDeviceVulkan11Features features11 = {};
  VkPhysicalDeviceVulkan12Features features12 = {};
  VkPhysicalDeviceVulkan13Features features13 = {};

  // Runs `undo` when the Gpu is destroyed.
  void Defer(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  // Never null: the program ends when the device has no such function. Use DEVICE_FUNCTION.
  PFN_vkVoidFunction Function(const char* name) const;

  uint32_t MemoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const;
  VkDeviceMemory Allocate(const VkMemoryRequirements& requirements, VkMemoryPropertyFlags wanted,
                          const void* next = nullptr);
  Buffer MakeBuffer(VkDeviceSize size, VkBufferUsageFlags usage, VkMemoryPropertyFlags wanted = kHostMemory);
  Image MakeImage(const ImageOptions& options);
  VkImageView MakeView(const Image& image, VkImageViewType type, VkFormat format, const VkImageSubresourceRange& range,
                       const void* next = nullptr);
  VkSampler MakeSampler(const VkSamplerCreateInfo& info);
  VkShaderModule MakeShader(const uint32_t* code, size_t bytes);
  VkCommandBuffer MakeCommands(VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY);
  VkFence MakeFence(bool signaled = false);
  VkSemaphore MakeSemaphore();
  VkSemaphore MakeTimeline(uint64_t value = 0);
  VkEvent MakeEvent(VkEventCreateFlags flags = 0);
  VkQueryPool MakeQueries(VkQueryType type, uint32_t count, VkQueryPipelineStatisticFlags statistics = 0);
  VkDescriptorSetLayout MakeSetLayout(const std::vector<VkDescriptorSetLayoutBinding>& bindings,
                                      VkDescriptorSetLayoutCreateFlags flags = 0, const void* next = nullptr);
  VkPipelineLayout MakeLayout(const std::vector<VkDescriptorSetLayout>& sets,
                              const std::vector<VkPushConstantRange>& constants = {});
  // Sets that are freed with the pool; `sizes` are for all of them.
  VkDescriptorPool MakePool(uint32_t sets, const std::vector<VkDescriptorPoolSize>& sizes,
                            VkDescriptorPoolCreateFlags flags = 0, const void* next = nullptr);
  VkDescriptorSet MakeSet(VkDescriptorPool pool, VkDescriptorSetLayout layout, const void* next = nullptr);
  VkPipeline MakeCompute(VkShaderModule shader, VkPipelineLayout layout,
                         const VkSpecializationInfo* constants = nullptr, VkPipelineCreateFlags flags = 0);

  void Begin(VkCommandBuffer commands, VkCommandBufferUsageFlags flags = 0) const;
  void Submit(VkCommandBuffer commands, VkFence fence = VK_NULL_HANDLE) const;
  void SubmitAndWait(VkCommandBuffer commands);
  void Wait(VkFence fence) const;
  // Records, submits and waits.
  void Run(const std::function<void(VkCommandBuffer)>& record);
  // All bytes of one level of one layer (all slices), tightly packed; the image is in GENERAL.
  std::vector<uint8_t> Read(const Image& image, uint32_t mip = 0, uint32_t layer = 0, VkImageAspectFlags aspect = 0);
  // The reverse; leaves the image in GENERAL.
  void Write(const Image& image, const void* data, size_t size, uint32_t mip = 0, uint32_t layer = 0);

 private:
  std::vector<std::function<void()>> undo_;
  VkFence fence_ = VK_NULL_HANDLE;
};

#define DEVICE_FUNCTION(gpu, name) const auto name = std::bit_cast<PFN_##name>((gpu).Function(#name))
#define INSTANCE_FUNCTION(instance, name) \
  const auto name = std::bit_cast<PFN_##name>(vkGetInstanceProcAddr((instance), #name))

// Everything before happens before everything after, the host included.
void FullBarrier(VkCommandBuffer commands);
// The same, and the image changes its layout.
void ToLayout(VkCommandBuffer commands, const Image& image, VkImageLayout from, VkImageLayout to);
inline void ToGeneral(VkCommandBuffer commands, const Image& image) {
  ToLayout(commands, image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_GENERAL);
}
// Bytes of a texel (of the aspect that ImageOptions names) of the formats that the cases use; 0: not known.
uint32_t TexelBytes(VkFormat format, VkImageAspectFlags aspect = VK_IMAGE_ASPECT_COLOR_BIT);
// A reproducible sequence.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 2 + 1) {}
  uint32_t Next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state >> 33) ^ static_cast<uint32_t>(state >> 11);
  }
  void Fill(void* data, size_t size) {
    for (size_t i = 0; i < size; i++) static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(Next() >> 5);
  }
};

}  // namespace sluice::vktest

#endif  // SLUICE_TESTS_VULKAN_LIB_GPU_H_
