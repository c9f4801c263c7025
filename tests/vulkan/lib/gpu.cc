#include "tests/vulkan/lib/gpu.h"

#include <cstring>

namespace sluice::vktest {
namespace {

constexpr char kValidationLayer[] = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  // The layer itself calls this one "most likely a validation bug": it guesses the state of timeline semaphores.
  if (data->pMessageIdName != nullptr && strstr(data->pMessageIdName, "VkSemaphore-state-timeout") != nullptr)
    return VK_FALSE;
  static_cast<Test*>(user)->Expect(false, "validation: %s", data->pMessage);
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT MessengerInfo(Test& t) {
  VkDebugUtilsMessengerCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = OnMessage;
  info.pUserData = &t;
  return info;
}

void Append(void* chain, void* next) {
  auto* last = static_cast<VkBaseOutStructure*>(chain);
  while (last->pNext != nullptr) last = last->pNext;
  last->pNext = static_cast<VkBaseOutStructure*>(next);
}

}  // namespace

InstanceHolder::InstanceHolder(Test& t, uint32_t api_version, const std::vector<const char*>& extensions) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "vulkan_cases";
  application.apiVersion = api_version;
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  std::vector<const char*> names = extensions;
  VkDebugUtilsMessengerCreateInfoEXT messenger_info = MessengerInfo(t);
  const char* layer = kValidationLayer;
  if (t.validate()) {
    bool present = false;
    for (const char* name : names) present = present || strcmp(name, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0;
    if (!present) names.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    info.pNext = &messenger_info;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &layer;
  }
  info.enabledExtensionCount = static_cast<uint32_t>(names.size());
  info.ppEnabledExtensionNames = names.data();
  VK(vkCreateInstance(&info, nullptr, &instance));
  if (t.validate()) {
    INSTANCE_FUNCTION(instance, vkCreateDebugUtilsMessengerEXT);
    VK(vkCreateDebugUtilsMessengerEXT(instance, &messenger_info, nullptr, &messenger));
  }
}

InstanceHolder::~InstanceHolder() {
  if (messenger != VK_NULL_HANDLE) {
    INSTANCE_FUNCTION(instance, vkDestroyDebugUtilsMessengerEXT);
    vkDestroyDebugUtilsMessengerEXT(instance, messenger, nullptr);
  }
  vkDestroyInstance(instance, nullptr);
}

VkPhysicalDevice FirstDevice(VkInstance instance) {
  uint32_t count = 1;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  const VkResult result = vkEnumeratePhysicalDevices(instance, &count, &physical);
  if ((result != VK_SUCCESS && result != VK_INCOMPLETE) || count == 0) {
    Fatal("no Vulkan device (vkEnumeratePhysicalDevices: %d)", static_cast<int>(result));
  }
  return physical;
}

std::vector<VkExtensionProperties> DeviceExtensions(VkPhysicalDevice physical) {
  uint32_t count = 0;
  VK(vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr));
  std::vector<VkExtensionProperties> all(count);
  VK(vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, all.data()));
  all.resize(count);
  return all;
}

bool HasExtension(const std::vector<VkExtensionProperties>& all, const char* name) {
  for (const VkExtensionProperties& extension : all) {
    if (strcmp(extension.extensionName, name) == 0) return true;
  }
  return false;
}

Gpu::Gpu(Test& t, const GpuOptions& options)
    : test(t),
      holder(t, options.api_version, options.instance_extensions),
      instance(holder.instance),
      physical(FirstDevice(instance)) {
  vkGetPhysicalDeviceProperties(physical, &properties);
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  const std::vector<VkExtensionProperties> available = DeviceExtensions(physical);
  for (const char* name : options.extensions) {
    if (!HasExtension(available, name)) t.Skip("the device has no %s", name);
  }
  if (properties.apiVersion < options.api_version) t.Skip("the device's Vulkan is too old");

  uint32_t count = 16;
  VkQueueFamilyProperties families[16];
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
  constexpr VkQueueFlags kWanted = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  while (family < count && (families[family].queueFlags & kWanted) != kWanted) family++;
  if (family >= count) Fatal("no queue can draw and compute");

  features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  features11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  features12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  if (options.core_features && options.api_version >= VK_API_VERSION_1_3) {
    Append(&features, &features11);
    Append(&features, &features12);
    Append(&features, &features13);
  }
  if (options.features != nullptr) Append(&features, options.features);
  if (options.api_version >= VK_API_VERSION_1_1) vkGetPhysicalDeviceFeatures2(physical, &features);
  if (!options.core_features) features.features = {};
  if (!options.robust_buffer_access) features.features.robustBufferAccess = VK_FALSE;

  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue_info.queueFamilyIndex = family;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<uint32_t>(options.extensions.size());
  info.ppEnabledExtensionNames = options.extensions.data();
  if (options.api_version >= VK_API_VERSION_1_1) {
    info.pNext = &features;
  } else {
    info.pEnabledFeatures = &features.features;
  }
  VK(vkCreateDevice(physical, &info, nullptr, &device));
  vkGetDeviceQueue(device, family, 0, &queue);
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool_info.queueFamilyIndex = family;
  VK(vkCreateCommandPool(device, &pool_info, nullptr, &pool));
  Defer([this] { vkDestroyCommandPool(device, pool, nullptr); });
  fence_ = MakeFence();
}

Gpu::~Gpu() {
  vkDeviceWaitIdle(device);
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  vkDestroyDevice(device, nullptr);
}

PFN_vkVoidFunction Gpu::Function(const char* name) const {
  const PFN_vkVoidFunction function = vkGetDeviceProcAddr(device, name);
  if (function == nullptr) Fatal("the device has no %s", name);
  return function;
}

uint32_t Gpu::MemoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const {
  for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
    if ((allowed >> i & 1) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  Fatal("no memory type in %#x has the properties %#x", allowed, wanted);
}

VkDeviceMemory Gpu::Allocate(const VkMemoryRequirements& requirements, VkMemoryPropertyFlags wanted, const void* next) {
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = next};
  info.allocationSize = requirements.size;
  info.memoryTypeIndex = MemoryType(requirements.memoryTypeBits, wanted);
  VkDeviceMemory result = VK_NULL_HANDLE;
  VK(vkAllocateMemory(device, &info, nullptr, &result));
  Defer([this, result] { vkFreeMemory(device, result, nullptr); });
  return result;
}

Buffer Gpu::MakeBuffer(VkDeviceSize size, VkBufferUsageFlags usage, VkMemoryPropertyFlags wanted) {
  Buffer result;
  result.size = size;
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = size;
  info.usage = usage;
  VK(vkCreateBuffer(device, &info, nullptr, &result.buffer));
  // Before the memory is freed: buffers go first.
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(device, result.buffer, &requirements);
  VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  const bool addressed = (usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) != 0;
  result.memory = Allocate(requirements, wanted, addressed ? &flags : nullptr);
  Defer([this, buffer = result.buffer] { vkDestroyBuffer(device, buffer, nullptr); });
  VK(vkBindBufferMemory(device, result.buffer, result.memory, 0));
  if ((wanted & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0) {
    VK(vkMapMemory(device, result.memory, 0, VK_WHOLE_SIZE, 0, &result.data));
    memset(result.data, 0, size);
  }
  if (addressed) {
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    address.buffer = result.buffer;
    result.address = vkGetBufferDeviceAddress(device, &address);
    test.Expect(result.address != 0, "vkGetBufferDeviceAddress returned 0");
  }
  return result;
}

Image Gpu::MakeImage(const ImageOptions& options) {
  Image result;
  result.options = options;
  VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO, .pNext = options.next};
  info.flags = options.flags;
  info.imageType = options.type;
  info.format = options.format;
  info.extent = options.extent;
  info.mipLevels = options.mips;
  info.arrayLayers = options.layers;
  info.samples = options.samples;
  info.tiling = options.tiling;
  info.usage = options.usage;
  info.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  VK(vkCreateImage(device, &info, nullptr, &result.image));
  VkMemoryRequirements requirements;
  vkGetImageMemoryRequirements(device, result.image, &requirements);
  result.memory = Allocate(requirements, options.memory);
  Defer([this, image = result.image] { vkDestroyImage(device, image, nullptr); });
  VK(vkBindImageMemory(device, result.image, result.memory, 0));
  constexpr VkImageUsageFlags kTransfer = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  if ((options.usage & ~kTransfer) != 0) {
    result.view = MakeView(result, options.view_type, options.format, result.whole());
  }
  return result;
}

VkImageView Gpu::MakeView(const Image& image, VkImageViewType type, VkFormat format,
                          const VkImageSubresourceRange& range, const void* next) {
  VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO, .pNext = next};
  info.image = image.image;
  info.viewType = type;
  info.format = format;
  info.subresourceRange = range;
  VkImageView view = VK_NULL_HANDLE;
  VK(vkCreateImageView(device, &info, nullptr, &view));
  Defer([this, view] { vkDestroyImageView(device, view, nullptr); });
  return view;
}

VkSampler Gpu::MakeSampler(const VkSamplerCreateInfo& info) {
  VkSampler sampler = VK_NULL_HANDLE;
  VK(vkCreateSampler(device, &info, nullptr, &sampler));
  Defer([this, sampler] { vkDestroySampler(device, sampler, nullptr); });
  return sampler;
}

VkShaderModule Gpu::MakeShader(const uint32_t* code, size_t bytes) {
  VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  info.codeSize = bytes;
  info.pCode = code;
  VkShaderModule shader = VK_NULL_HANDLE;
  VK(vkCreateShaderModule(device, &info, nullptr, &shader));
  Defer([this, shader] { vkDestroyShaderModule(device, shader, nullptr); });
  return shader;
}

VkCommandBuffer Gpu::MakeCommands(VkCommandBufferLevel level) {
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool;
  info.level = level;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VK(vkAllocateCommandBuffers(device, &info, &commands));
  return commands;
}

VkFence Gpu::MakeFence(bool signaled) {
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  info.flags = signaled ? VK_FENCE_CREATE_SIGNALED_BIT : 0;
  VkFence fence = VK_NULL_HANDLE;
  VK(vkCreateFence(device, &info, nullptr, &fence));
  Defer([this, fence] { vkDestroyFence(device, fence, nullptr); });
  return fence;
}

VkSemaphore Gpu::MakeSemaphore() {
  VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  VK(vkCreateSemaphore(device, &info, nullptr, &semaphore));
  Defer([this, semaphore] { vkDestroySemaphore(device, semaphore, nullptr); });
  return semaphore;
}

VkSemaphore Gpu::MakeTimeline(uint64_t value) {
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  type.initialValue = value;
  VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  VK(vkCreateSemaphore(device, &info, nullptr, &semaphore));
  Defer([this, semaphore] { vkDestroySemaphore(device, semaphore, nullptr); });
  return semaphore;
}

VkEvent Gpu::MakeEvent(VkEventCreateFlags flags) {
  VkEventCreateInfo info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO, .flags = flags};
  VkEvent event = VK_NULL_HANDLE;
  VK(vkCreateEvent(device, &info, nullptr, &event));
  Defer([this, event] { vkDestroyEvent(device, event, nullptr); });
  return event;
}

VkQueryPool Gpu::MakeQueries(VkQueryType type, uint32_t count, VkQueryPipelineStatisticFlags statistics) {
  VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = type;
  info.queryCount = count;
  info.pipelineStatistics = statistics;
  VkQueryPool queries = VK_NULL_HANDLE;
  VK(vkCreateQueryPool(device, &info, nullptr, &queries));
  Defer([this, queries] { vkDestroyQueryPool(device, queries, nullptr); });
  return queries;
}

VkDescriptorSetLayout Gpu::MakeSetLayout(const std::vector<VkDescriptorSetLayoutBinding>& bindings,
                                         VkDescriptorSetLayoutCreateFlags flags, const void* next) {
  VkDescriptorSetLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .pNext = next};
  info.flags = flags;
  info.bindingCount = static_cast<uint32_t>(bindings.size());
  info.pBindings = bindings.data();
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  VK(vkCreateDescriptorSetLayout(device, &info, nullptr, &layout));
  Defer([this, layout] { vkDestroyDescriptorSetLayout(device, layout, nullptr); });
  return layout;
}

VkPipelineLayout Gpu::MakeLayout(const std::vector<VkDescriptorSetLayout>& sets,
                                 const std::vector<VkPushConstantRange>& constants) {
  VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.setLayoutCount = static_cast<uint32_t>(sets.size());
  info.pSetLayouts = sets.data();
  info.pushConstantRangeCount = static_cast<uint32_t>(constants.size());
  info.pPushConstantRanges = constants.data();
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VK(vkCreatePipelineLayout(device, &info, nullptr, &layout));
  Defer([this, layout] { vkDestroyPipelineLayout(device, layout, nullptr); });
  return layout;
}

VkDescriptorPool Gpu::MakePool(uint32_t sets, const std::vector<VkDescriptorPoolSize>& sizes,
                               VkDescriptorPoolCreateFlags flags, const void* next) {
  VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .pNext = next};
  info.flags = flags;
  info.maxSets = sets;
  info.poolSizeCount = static_cast<uint32_t>(sizes.size());
  info.pPoolSizes = sizes.data();
  VkDescriptorPool result = VK_NULL_HANDLE;
  VK(vkCreateDescriptorPool(device, &info, nullptr, &result));
  Defer([this, result] { vkDestroyDescriptorPool(device, result, nullptr); });
  return result;
}

VkDescriptorSet Gpu::MakeSet(VkDescriptorPool from, VkDescriptorSetLayout layout, const void* next) {
  VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .pNext = next};
  info.descriptorPool = from;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  VK(vkAllocateDescriptorSets(device, &info, &set));
  return set;
}

VkPipeline Gpu::MakeCompute(VkShaderModule shader, VkPipelineLayout layout, const VkSpecializationInfo* constants,
                            VkPipelineCreateFlags flags) {
  VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.flags = flags;
  info.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = constants;
  info.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline));
  Defer([this, pipeline] { vkDestroyPipeline(device, pipeline, nullptr); });
  return pipeline;
}

}  // namespace sluice::vktest
