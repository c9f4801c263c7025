// Devices and instances: creation and its errors, several at once, private data, debug utils.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {
namespace {

constexpr float kPriority = 1.0f;

struct QueueInfo {
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  QueueInfo() {
    queue.queueCount = 1;
    queue.pQueuePriorities = &kPriority;
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
  }
};

// Adds 1 to 64 words, and says whether it did.
bool Works(Gpu& gpu, uint32_t add) {
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {add, 64};
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 1, constants); });
  return data.as<uint32_t>()[63] == add;
}

}  // namespace

VK_CASE(device, errors) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  QueueInfo info;
  VkDevice device = VK_NULL_HANDLE;
  if (!t.validate()) {  // the layer would complain, and rightly
    const char* name = "VK_KHR_that_is_not_there";
    info.device.enabledExtensionCount = 1;
    info.device.ppEnabledExtensionNames = &name;
    t.Expect(vkCreateDevice(physical, &info.device, nullptr, &device) == VK_ERROR_EXTENSION_NOT_PRESENT,
             "an unknown extension is accepted");
    info.device.enabledExtensionCount = 0;
    VkPhysicalDeviceFeatures have;
    vkGetPhysicalDeviceFeatures(physical, &have);
    VkPhysicalDeviceFeatures want = {};
    if (!have.sparseBinding) {
      want.sparseBinding = VK_TRUE;
      info.device.pEnabledFeatures = &want;
      t.Expect(vkCreateDevice(physical, &info.device, nullptr, &device) == VK_ERROR_FEATURE_NOT_PRESENT,
               "a missing feature is accepted");
      VkPhysicalDeviceFeatures2 two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
      two.features = want;
      info.device.pEnabledFeatures = nullptr;
      info.device.pNext = &two;
      t.Expect(vkCreateDevice(physical, &info.device, nullptr, &device) == VK_ERROR_FEATURE_NOT_PRESENT,
               "a missing feature is accepted in a chain");
    }
  }
  VkImageFormatProperties properties;
  const VkResult result =
      vkGetPhysicalDeviceImageFormatProperties(physical, VK_FORMAT_ASTC_4x4_UNORM_BLOCK, VK_IMAGE_TYPE_1D,
                                               VK_IMAGE_TILING_LINEAR, VK_IMAGE_USAGE_STORAGE_BIT, 0, &properties);
  t.Result("format", result);
  t.Expect(result == VK_ERROR_FORMAT_NOT_SUPPORTED, "an odd image is supported: %d", result);
}

VK_CASE(device, minimal) {
  // No features, Vulkan 1.0 calls only.
  Gpu& gpu = t.gpu({.core_features = false, .api_version = VK_API_VERSION_1_0});
  t.Expect(Works(gpu, 5), "a 1.0 device does not work");
  VkQueue again = VK_NULL_HANDLE;
  vkGetDeviceQueue(gpu.device, gpu.family, 0, &again);
  t.Expect(again == gpu.queue, "the queue has two handles");
}

VK_CASE(device, all_extensions) {
  // Everything that the device offers, enabled at once.
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  const std::vector<VkExtensionProperties> all = DeviceExtensions(physical);
  std::vector<const char*> names;
  for (const VkExtensionProperties& extension : all) {
    // Those that need a window-system instance extension, or that the validation layer knows not to go with others.
    if (strstr(extension.extensionName, "swapchain") != nullptr ||
        strstr(extension.extensionName, "present") != nullptr)
      continue;
    names.push_back(extension.extensionName);
  }
  QueueInfo info;
  info.device.enabledExtensionCount = static_cast<uint32_t>(names.size());
  info.device.ppEnabledExtensionNames = names.data();
  VkDevice device = VK_NULL_HANDLE;
  VK(vkCreateDevice(physical, &info.device, nullptr, &device));
  for (const char* name :
       {"vkCmdDrawMultiEXT", "vkCmdBeginTransformFeedbackEXT", "vkCmdPushDescriptorSetKHR", "vkCmdSetVertexInputEXT",
        "vkCmdBeginConditionalRenderingEXT", "vkCmdSetPolygonModeEXT", "vkCmdSetLineStippleEXT",
        "vkCmdBeginRenderingKHR", "vkQueueSubmit2KHR", "vkGetBufferDeviceAddressKHR", "vkCmdSetColorWriteEnableEXT",
        "vkGetCalibratedTimestampsEXT"}) {
    t.Value(name, vkGetDeviceProcAddr(device, name) != nullptr ? 1 : 0);
  }
  vkDestroyDevice(device, nullptr);
}

VK_CASE(device, several) {
  // Two instances with two devices each, used in turn; destroyed in another order.
  auto a = std::make_unique<Gpu>(t, GpuOptions());
  auto b = std::make_unique<Gpu>(t, GpuOptions());
  auto c = std::make_unique<Gpu>(t, GpuOptions());
  for (uint32_t round = 1; round < 4; round++) {
    t.Expect(Works(*a, round) && Works(*b, round + 100) && Works(*c, round + 200), "round %u", round);
  }
  b.reset();
  t.Expect(Works(*a, 9) && Works(*c, 10), "after the second device went");
  a.reset();
  t.Expect(Works(*c, 11), "after the first device went");
  // Two devices of one instance.
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  QueueInfo info;
  VkDevice devices[2];
  for (VkDevice& device : devices) VK(vkCreateDevice(FirstDevice(holder.instance), &info.device, nullptr, &device));
  VkQueue queues[2];
  for (int i = 0; i < 2; i++) vkGetDeviceQueue(devices[i], 0, 0, &queues[i]);
  t.Expect(queues[0] != queues[1], "two devices have one queue");
  for (int i = 0; i < 2; i++) VK(vkQueueWaitIdle(queues[i]));
  for (const VkDevice device : devices) vkDestroyDevice(device, nullptr);
  vkDestroyDevice(VK_NULL_HANDLE, nullptr);
}

VK_CASE(device, again_and_again) {
  for (uint32_t round = 0; round < 12; round++) {
    Gpu gpu(t, GpuOptions());
    t.Expect(Works(gpu, round + 1), "round %u", round);
  }
}

VK_CASE(device, queue2_and_group) {
  Gpu& gpu = t.gpu();
  VkDeviceQueueInfo2 info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_INFO_2};
  info.queueFamilyIndex = gpu.family;
  VkQueue queue = VK_NULL_HANDLE;
  vkGetDeviceQueue2(gpu.device, &info, &queue);
  t.Expect(queue == gpu.queue, "vkGetDeviceQueue2 gives another queue");
  VkPeerMemoryFeatureFlags peer = 0;
  static_cast<void>(peer);
  // A device of a device group of one.
  QueueInfo create;
  VkDeviceGroupDeviceCreateInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO};
  group.physicalDeviceCount = 1;
  group.pPhysicalDevices = &gpu.physical;
  create.device.pNext = &group;
  VkDevice device = VK_NULL_HANDLE;
  VK(vkCreateDevice(gpu.physical, &create.device, nullptr, &device));
  vkDestroyDevice(device, nullptr);
}

VK_CASE(device, private_data) {
  Gpu& gpu = t.gpu();
  VkPrivateDataSlotCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PRIVATE_DATA_SLOT_CREATE_INFO};
  VkPrivateDataSlot slots[2];
  for (VkPrivateDataSlot& slot : slots) VK(vkCreatePrivateDataSlot(gpu.device, &info, nullptr, &slot));
  const VkFence fence = gpu.MakeFence();
  const Buffer buffer = gpu.MakeBuffer(64, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const auto fence_id = std::bit_cast<uint64_t>(fence), buffer_id = std::bit_cast<uint64_t>(buffer.buffer);
  uint64_t value = 77;
  vkGetPrivateData(gpu.device, VK_OBJECT_TYPE_FENCE, fence_id, slots[0], &value);
  t.Expect(value == 0, "unset private data is %llu", static_cast<unsigned long long>(value));
  VK(vkSetPrivateData(gpu.device, VK_OBJECT_TYPE_FENCE, fence_id, slots[0], 0x1122334455667788));
  VK(vkSetPrivateData(gpu.device, VK_OBJECT_TYPE_FENCE, fence_id, slots[1], 5));
  VK(vkSetPrivateData(gpu.device, VK_OBJECT_TYPE_BUFFER, buffer_id, slots[0], 6));
  VK(vkSetPrivateData(gpu.device, VK_OBJECT_TYPE_DEVICE, std::bit_cast<uint64_t>(gpu.device), slots[0], 8));
  uint64_t values[4] = {};
  vkGetPrivateData(gpu.device, VK_OBJECT_TYPE_FENCE, fence_id, slots[0], &values[0]);
  vkGetPrivateData(gpu.device, VK_OBJECT_TYPE_FENCE, fence_id, slots[1], &values[1]);
  vkGetPrivateData(gpu.device, VK_OBJECT_TYPE_BUFFER, buffer_id, slots[0], &values[2]);
  vkGetPrivateData(gpu.device, VK_OBJECT_TYPE_DEVICE, std::bit_cast<uint64_t>(gpu.device), slots[0], &values[3]);
  t.Bytes("values", values, sizeof values);
  t.Expect(values[0] == 0x1122334455667788 && values[1] == 5 && values[2] == 6 && values[3] == 8, "wrong values");
  for (const VkPrivateDataSlot slot : slots) vkDestroyPrivateDataSlot(gpu.device, slot, nullptr);
}

VK_CASE(device, debug_utils) {
  // Names, tags, labels and a messenger; what they say is for tools only, nothing may break.
  Gpu& gpu = t.gpu({.instance_extensions = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME}});
  INSTANCE_FUNCTION(gpu.instance, vkCreateDebugUtilsMessengerEXT);
  INSTANCE_FUNCTION(gpu.instance, vkDestroyDebugUtilsMessengerEXT);
  INSTANCE_FUNCTION(gpu.instance, vkSubmitDebugUtilsMessageEXT);
  INSTANCE_FUNCTION(gpu.instance, vkSetDebugUtilsObjectNameEXT);
  INSTANCE_FUNCTION(gpu.instance, vkSetDebugUtilsObjectTagEXT);
  INSTANCE_FUNCTION(gpu.instance, vkCmdBeginDebugUtilsLabelEXT);
  INSTANCE_FUNCTION(gpu.instance, vkCmdInsertDebugUtilsLabelEXT);
  INSTANCE_FUNCTION(gpu.instance, vkCmdEndDebugUtilsLabelEXT);
  INSTANCE_FUNCTION(gpu.instance, vkQueueBeginDebugUtilsLabelEXT);
  INSTANCE_FUNCTION(gpu.instance, vkQueueInsertDebugUtilsLabelEXT);
  INSTANCE_FUNCTION(gpu.instance, vkQueueEndDebugUtilsLabelEXT);
  int calls = 0;
  VkDebugUtilsMessengerCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_INFO_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
  info.pUserData = &calls;
  info.pfnUserCallback = [](VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                            const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) -> VkBool32 {
    if (data->pMessage != nullptr && strcmp(data->pMessage, "hello") == 0) ++*static_cast<int*>(user);
    return VK_FALSE;
  };
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  VK(vkCreateDebugUtilsMessengerEXT(gpu.instance, &info, nullptr, &messenger));
  VkDebugUtilsMessengerCallbackDataEXT data = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT};
  data.pMessage = "hello";
  vkSubmitDebugUtilsMessageEXT(gpu.instance, VK_DEBUG_UTILS_MESSAGE_SEVERITY_INFO_BIT_EXT,
                               VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT, &data);
  t.Value("calls", static_cast<uint64_t>(calls));
  t.Expect(calls == 1, "%d messages arrived", calls);
  vkDestroyDebugUtilsMessengerEXT(gpu.instance, messenger, nullptr);
  const Buffer buffer = gpu.MakeBuffer(64, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  VkDebugUtilsObjectNameInfoEXT name = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
  name.objectType = VK_OBJECT_TYPE_BUFFER;
  name.objectHandle = std::bit_cast<uint64_t>(buffer.buffer);
  name.pObjectName = "the buffer";
  VK(vkSetDebugUtilsObjectNameEXT(gpu.device, &name));
  name.objectType = VK_OBJECT_TYPE_QUEUE;
  name.objectHandle = std::bit_cast<uint64_t>(gpu.queue);
  name.pObjectName = "the queue";
  VK(vkSetDebugUtilsObjectNameEXT(gpu.device, &name));
  VkDebugUtilsObjectTagInfoEXT tag = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_TAG_INFO_EXT};
  tag.objectType = VK_OBJECT_TYPE_BUFFER;
  tag.objectHandle = std::bit_cast<uint64_t>(buffer.buffer);
  tag.tagName = 1;
  tag.tagSize = 4;
  tag.pTag = "abc";
  VK(vkSetDebugUtilsObjectTagEXT(gpu.device, &tag));
  VkDebugUtilsLabelEXT label = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT};
  label.pLabelName = "a label";
  vkQueueBeginDebugUtilsLabelEXT(gpu.queue, &label);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBeginDebugUtilsLabelEXT(commands, &label);
    vkCmdFillBuffer(commands, buffer.buffer, 0, VK_WHOLE_SIZE, 0x99);
    vkCmdInsertDebugUtilsLabelEXT(commands, &label);
    vkCmdEndDebugUtilsLabelEXT(commands);
  });
  vkQueueInsertDebugUtilsLabelEXT(gpu.queue, &label);
  vkQueueEndDebugUtilsLabelEXT(gpu.queue);
  t.Bytes("buffer", buffer.data, buffer.size);
}

VK_CASE(device, object_churn) {
  // Thousands of objects of many types, in random order.
  Gpu& gpu = t.gpu();
  Random random(1);
  std::vector<VkBuffer> buffers(200, VK_NULL_HANDLE);
  std::vector<VkImage> images(100, VK_NULL_HANDLE);
  std::vector<VkSampler> samplers(50, VK_NULL_HANDLE);
  std::vector<VkSemaphore> semaphores(100, VK_NULL_HANDLE);
  for (int i = 0; i < 20000; i++) {
    const uint32_t what = random.Next() % 4, slot = random.Next();
    if (what == 0) {
      VkBuffer& buffer = buffers[slot % buffers.size()];
      if (buffer != VK_NULL_HANDLE) {
        vkDestroyBuffer(gpu.device, buffer, nullptr);
        buffer = VK_NULL_HANDLE;
        continue;
      }
      VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
      info.size = 1 + random.Next() % 100000;
      info.usage = VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
      VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffer));
    } else if (what == 1) {
      VkImage& image = images[slot % images.size()];
      if (image != VK_NULL_HANDLE) {
        vkDestroyImage(gpu.device, image, nullptr);
        image = VK_NULL_HANDLE;
        continue;
      }
      VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
      info.imageType = VK_IMAGE_TYPE_2D;
      info.format = VK_FORMAT_R8G8B8A8_UNORM;
      info.extent = {1 + random.Next() % 100, 1 + random.Next() % 100, 1};
      info.mipLevels = info.arrayLayers = 1;
      info.samples = VK_SAMPLE_COUNT_1_BIT;
      info.usage = VK_IMAGE_USAGE_SAMPLED_BIT;
      VK(vkCreateImage(gpu.device, &info, nullptr, &image));
      if (i % 8 == 0) {
        VkMemoryRequirements requirements = {};
        vkGetImageMemoryRequirements(gpu.device, image, &requirements);
        t.Expect(requirements.size >= VkDeviceSize{4} * info.extent.width * info.extent.height,
                 "an image of %llu bytes", static_cast<unsigned long long>(requirements.size));
      }
    } else if (what == 2) {
      VkSampler& sampler = samplers[slot % samplers.size()];
      if (sampler != VK_NULL_HANDLE) {
        vkDestroySampler(gpu.device, sampler, nullptr);
        sampler = VK_NULL_HANDLE;
        continue;
      }
      VkSamplerCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
      VK(vkCreateSampler(gpu.device, &info, nullptr, &sampler));
    } else {
      VkSemaphore& semaphore = semaphores[slot % semaphores.size()];
      if (semaphore != VK_NULL_HANDLE) {
        vkDestroySemaphore(gpu.device, semaphore, nullptr);
        semaphore = VK_NULL_HANDLE;
        continue;
      }
      VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
      VK(vkCreateSemaphore(gpu.device, &info, nullptr, &semaphore));
    }
  }
  for (const VkBuffer buffer : buffers) vkDestroyBuffer(gpu.device, buffer, nullptr);
  for (const VkImage image : images) vkDestroyImage(gpu.device, image, nullptr);
  for (const VkSampler sampler : samplers) vkDestroySampler(gpu.device, sampler, nullptr);
  for (const VkSemaphore semaphore : semaphores) vkDestroySemaphore(gpu.device, semaphore, nullptr);
  t.Expect(Works(gpu, 3), "the device does not work afterwards");
}

}  // namespace sluice::vktest
