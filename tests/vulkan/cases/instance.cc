// What an instance and its physical devices say about themselves.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/vulkan/lib/gpu.h"

namespace sluice::vktest {
namespace {

std::string Hex(const void* data, size_t size) {
  std::string text;
  char digits[3];
  for (size_t i = 0; i < size; i++) {
    snprintf(digits, sizeof digits, "%02x", static_cast<const uint8_t*>(data)[i]);
    text += digits;
  }
  return text;
}

// A structure's own members (what follows sType and pNext) as bytes.
template <typename T>
void DumpStructure(Test& t, const char* key, const T& structure) {
  constexpr size_t kHead = sizeof(VkBaseOutStructure);
  const auto* bytes = static_cast<const uint8_t*>(static_cast<const void*>(&structure));
  t.Text(key, Hex(bytes + kHead, sizeof structure - kHead));
}

}  // namespace

VK_CASE(instance, version) {
  uint32_t version = 0;
  VK(vkEnumerateInstanceVersion(&version));
  t.Value("major", VK_API_VERSION_MAJOR(version));
  t.Expect(version >= VK_API_VERSION_1_3, "the loader's version is %#x", version);
}

VK_CASE(instance, unknown_layer_and_extension) {
  const char* name = "VK_LAYER_that_is_not_there";
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.enabledLayerCount = 1;
  info.ppEnabledLayerNames = &name;
  VkInstance instance = VK_NULL_HANDLE;
  t.Expect(vkCreateInstance(&info, nullptr, &instance) == VK_ERROR_LAYER_NOT_PRESENT, "an unknown layer is accepted");
  name = "VK_EXT_that_is_not_there";
  info.enabledLayerCount = 0;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &name;
  t.Expect(vkCreateInstance(&info, nullptr, &instance) == VK_ERROR_EXTENSION_NOT_PRESENT,
           "an unknown extension is accepted");
}

VK_CASE(instance, version_1_0_application) {
  // A program that asks for 1.0 only.
  InstanceHolder holder(t, VK_API_VERSION_1_0);
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(FirstDevice(holder.instance), &properties);
  t.Text("name", properties.deviceName);
}

VK_CASE(instance, no_application_info) {
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  VkInstance instance = VK_NULL_HANDLE;
  VK(vkCreateInstance(&info, nullptr, &instance));
  uint32_t count = 0;
  VK(vkEnumeratePhysicalDevices(instance, &count, nullptr));
  t.Value("devices", count);
  t.Expect(count > 0, "no device");
  vkDestroyInstance(instance, nullptr);
  vkDestroyInstance(VK_NULL_HANDLE, nullptr);
}

VK_CASE(instance, incomplete) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  uint32_t devices = 0;
  VK(vkEnumeratePhysicalDevices(holder.instance, &devices, nullptr));
  std::vector<VkPhysicalDevice> all(devices);
  VK(vkEnumeratePhysicalDevices(holder.instance, &devices, all.data()));
  std::vector<VkPhysicalDevice> again(devices + 3);
  uint32_t more = devices + 3;
  VK(vkEnumeratePhysicalDevices(holder.instance, &more, again.data()));
  t.Expect(more == devices && again[0] == all[0], "the second enumeration differs");
  uint32_t none = 0;
  const VkResult result = vkEnumeratePhysicalDevices(holder.instance, &none, all.data());
  t.Expect(result == VK_INCOMPLETE && none == 0, "an array of 0: result %d, count %u", result, none);

  uint32_t extensions = 2;
  VkExtensionProperties two[2];
  t.Expect(vkEnumerateDeviceExtensionProperties(all[0], nullptr, &extensions, two) == VK_INCOMPLETE && extensions == 2,
           "two of the extensions: not VK_INCOMPLETE");
}

VK_CASE(instance, properties) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(FirstDevice(holder.instance), &properties);
  t.Value("api", properties.apiVersion);
  t.Value("driver", properties.driverVersion);
  t.Value("vendor", properties.vendorID);
  t.Value("device", properties.deviceID);
  t.Value("type", properties.deviceType);
  t.Text("name", properties.deviceName);
  t.Text("cache_uuid", Hex(properties.pipelineCacheUUID, VK_UUID_SIZE));
  VkPhysicalDeviceLimits limits = properties.limits;
  limits.nonCoherentAtomSize = properties.limits.nonCoherentAtomSize;
  t.Value("limit.max_image_2d", limits.maxImageDimension2D);
  t.Value("limit.max_image_3d", limits.maxImageDimension3D);
  t.Value("limit.max_layers", limits.maxImageArrayLayers);
  t.Value("limit.push_constants", limits.maxPushConstantsSize);
  t.Value("limit.bound_sets", limits.maxBoundDescriptorSets);
  t.Value("limit.vertex_attributes", limits.maxVertexInputAttributes);
  t.Value("limit.compute_invocations", limits.maxComputeWorkGroupInvocations);
  t.Value("limit.viewports", limits.maxViewports);
  t.Value("limit.color_samples", limits.framebufferColorSampleCounts);
  t.Float("limit.timestamp_period", limits.timestampPeriod);
  t.Value("limit.atom", limits.nonCoherentAtomSize);
  t.Value("limit.min_map_alignment", limits.minMemoryMapAlignment);
  t.Value("limit.uniform_alignment", limits.minUniformBufferOffsetAlignment);
  t.Value("limit.storage_alignment", limits.minStorageBufferOffsetAlignment);
}

VK_CASE(instance, properties2_chain) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  VkPhysicalDeviceVulkan11Properties v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceVulkan12Properties v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
                                            .pNext = &v11};
  VkPhysicalDeviceVulkan13Properties v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES,
                                            .pNext = &v12};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v13};
  vkGetPhysicalDeviceProperties2(FirstDevice(holder.instance), &all);
  t.Text("name", all.properties.deviceName);
  t.Text("device_uuid", Hex(v11.deviceUUID, VK_UUID_SIZE));
  t.Text("driver_uuid", Hex(v11.driverUUID, VK_UUID_SIZE));
  t.Value("subgroup", v11.subgroupSize);
  t.Value("subgroup_stages", v11.subgroupSupportedStages);
  t.Value("subgroup_operations", v11.subgroupSupportedOperations);
  t.Value("multiview_views", v11.maxMultiviewViewCount);
  t.Value("per_set", v11.maxPerSetDescriptors);
  t.Value("max_allocation", v11.maxMemoryAllocationSize);
  t.Value("driver_id", v12.driverID);
  t.Text("driver_name", v12.driverName);
  t.Text("driver_info", v12.driverInfo);
  t.Value("timeline_difference", v12.maxTimelineSemaphoreValueDifference);
  t.Value("update_after_bind_samplers", v12.maxDescriptorSetUpdateAfterBindSamplers);
  t.Value("depth_resolve", v12.supportedDepthResolveModes);
  t.Value("inline_block", v13.maxInlineUniformBlockSize);
  t.Value("buffer_size", v13.maxBufferSize);
  t.Value("texel_alignment", v13.storageTexelBufferOffsetAlignmentBytes);
}

VK_CASE(instance, extension_properties) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  VkPhysicalDeviceTransformFeedbackPropertiesEXT feedback = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_PROPERTIES_EXT};
  VkPhysicalDeviceMultiDrawPropertiesEXT multi = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MULTI_DRAW_PROPERTIES_EXT,
                                                  .pNext = &feedback};
  VkPhysicalDevicePushDescriptorPropertiesKHR push = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR, .pNext = &multi};
  VkPhysicalDeviceRobustness2PropertiesEXT robust = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT, .pNext = &push};
  VkPhysicalDeviceLineRasterizationPropertiesEXT line = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_LINE_RASTERIZATION_PROPERTIES_EXT, .pNext = &robust};
  VkPhysicalDeviceCustomBorderColorPropertiesEXT border = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_PROPERTIES_EXT, .pNext = &line};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &border};
  vkGetPhysicalDeviceProperties2(physical, &all);
  t.Value("feedback.streams", feedback.maxTransformFeedbackStreams);
  t.Value("feedback.buffers", feedback.maxTransformFeedbackBuffers);
  t.Value("feedback.size", feedback.maxTransformFeedbackBufferSize);
  t.Value("feedback.draw", feedback.transformFeedbackDraw);
  t.Value("multi_draw", multi.maxMultiDrawCount);
  t.Value("push_descriptors", push.maxPushDescriptors);
  t.Value("robust.storage", robust.robustStorageBufferAccessSizeAlignment);
  t.Value("robust.uniform", robust.robustUniformBufferAccessSizeAlignment);
  t.Value("line.bits", line.lineSubPixelPrecisionBits);
  t.Value("border.samplers", border.maxCustomBorderColorSamplers);
}

VK_CASE(instance, features) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                          .pNext = &v11};
  VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                          .pNext = &v12};
  VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v13};
  vkGetPhysicalDeviceFeatures2(physical, &all);
  VkPhysicalDeviceFeatures plain;
  vkGetPhysicalDeviceFeatures(physical, &plain);
  t.Text("1.0", Hex(&plain, sizeof plain));
  t.Expect(memcmp(&plain, &all.features, sizeof plain) == 0, "features and features2 differ");
  DumpStructure(t, "1.1", v11);
  DumpStructure(t, "1.2", v12);
  DumpStructure(t, "1.3", v13);
}

VK_CASE(instance, memory_properties) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  VkPhysicalDeviceMemoryProperties2 two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  vkGetPhysicalDeviceMemoryProperties2(physical, &two);
  t.Value("types", memory.memoryTypeCount);
  for (uint32_t i = 0; i < memory.memoryTypeCount; i++) t.Value("type", memory.memoryTypes[i].propertyFlags);
  t.Value("heaps", memory.memoryHeapCount);
  for (uint32_t i = 0; i < memory.memoryHeapCount; i++) {
    t.Value("heap.flags", memory.memoryHeaps[i].flags);
    t.Expect(memory.memoryHeaps[i].size > 0, "heap %u has no bytes", i);
    t.Expect(memory.memoryHeaps[i].size == two.memoryProperties.memoryHeaps[i].size, "the two queries differ");
  }
}

VK_CASE(instance, queue_families) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  std::vector<VkQueueFamilyProperties2> two(count, {.sType = VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2});
  vkGetPhysicalDeviceQueueFamilyProperties2(physical, &count, two.data());
  t.Value("families", count);
  for (uint32_t i = 0; i < count; i++) {
    t.Value("flags", families[i].queueFlags);
    t.Value("count", families[i].queueCount);
    t.Value("timestamp_bits", families[i].timestampValidBits);
    t.Expect(families[i].queueFlags == two[i].queueFamilyProperties.queueFlags, "the two queries differ");
  }
}

VK_CASE(instance, device_extensions) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  std::vector<VkExtensionProperties> all = DeviceExtensions(FirstDevice(holder.instance));
  std::sort(all.begin(), all.end(), [](const VkExtensionProperties& a, const VkExtensionProperties& b) {
    return strcmp(a.extensionName, b.extensionName) < 0;
  });
  for (const VkExtensionProperties& extension : all) t.Value(extension.extensionName, extension.specVersion);
}

VK_CASE(instance, format_properties) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  char line[160];
  for (int format = 1; format <= VK_FORMAT_ASTC_12x12_SRGB_BLOCK; format++) {
    VkFormatProperties properties;
    vkGetPhysicalDeviceFormatProperties(physical, static_cast<VkFormat>(format), &properties);
    VkFormatProperties3 three = {.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_3};
    VkFormatProperties2 two = {.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2, .pNext = &three};
    vkGetPhysicalDeviceFormatProperties2(physical, static_cast<VkFormat>(format), &two);
    snprintf(line, sizeof line, "%x %x %x, %llx %llx %llx", properties.linearTilingFeatures,
             properties.optimalTilingFeatures, properties.bufferFeatures,
             static_cast<unsigned long long>(three.linearTilingFeatures),
             static_cast<unsigned long long>(three.optimalTilingFeatures),
             static_cast<unsigned long long>(three.bufferFeatures));
    t.Text("format." + std::to_string(format), line);
    t.Expect(two.formatProperties.optimalTilingFeatures == properties.optimalTilingFeatures,
             "format %d: the queries differ", format);
  }
}

VK_CASE(instance, image_format_properties) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  constexpr VkFormat kFormats[] = {VK_FORMAT_R8G8B8A8_UNORM,      VK_FORMAT_R32G32B32A32_SFLOAT,
                                   VK_FORMAT_D32_SFLOAT,          VK_FORMAT_R8_UINT,
                                   VK_FORMAT_BC1_RGB_UNORM_BLOCK, VK_FORMAT_ASTC_4x4_UNORM_BLOCK};
  char line[160];
  for (const VkFormat format : kFormats) {
    for (int type = VK_IMAGE_TYPE_1D; type <= VK_IMAGE_TYPE_3D; type++) {
      for (const VkImageUsageFlags usage :
           {VK_IMAGE_USAGE_SAMPLED_BIT, VK_IMAGE_USAGE_STORAGE_BIT, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT}) {
        VkImageFormatProperties p = {};
        const VkResult result = vkGetPhysicalDeviceImageFormatProperties(
            physical, format, static_cast<VkImageType>(type), VK_IMAGE_TILING_OPTIMAL, usage, 0, &p);
        VkPhysicalDeviceImageFormatInfo2 info = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2};
        info.format = format;
        info.type = static_cast<VkImageType>(type);
        info.tiling = VK_IMAGE_TILING_OPTIMAL;
        info.usage = usage;
        VkImageFormatProperties2 two = {.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2};
        t.Expect(vkGetPhysicalDeviceImageFormatProperties2(physical, &info, &two) == result, "the queries differ");
        if (result != VK_SUCCESS) p = {};
        snprintf(line, sizeof line, "%d: %u x %u x %u, %u mips, %u layers, samples %x", static_cast<int>(result),
                 p.maxExtent.width, p.maxExtent.height, p.maxExtent.depth, p.maxMipLevels, p.maxArrayLayers,
                 p.sampleCounts);
        t.Text("format." + std::to_string(format) + "." + std::to_string(type) + "." + std::to_string(usage), line);
      }
    }
  }
}

VK_CASE(instance, sparse_and_external) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  const VkPhysicalDevice physical = FirstDevice(holder.instance);
  uint32_t count = 0;
  vkGetPhysicalDeviceSparseImageFormatProperties(physical, VK_FORMAT_R8G8B8A8_UNORM, VK_IMAGE_TYPE_2D,
                                                 VK_SAMPLE_COUNT_1_BIT, VK_IMAGE_USAGE_SAMPLED_BIT,
                                                 VK_IMAGE_TILING_OPTIMAL, &count, nullptr);
  t.Value("sparse", count);
  VkPhysicalDeviceExternalFenceInfo fence = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_FENCE_INFO};
  fence.handleType = VK_EXTERNAL_FENCE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkExternalFenceProperties fences = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_FENCE_PROPERTIES};
  vkGetPhysicalDeviceExternalFenceProperties(physical, &fence, &fences);
  t.Value("external.fence", fences.externalFenceFeatures);
  VkPhysicalDeviceExternalBufferInfo buffer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  buffer.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkExternalBufferProperties buffers = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  vkGetPhysicalDeviceExternalBufferProperties(physical, &buffer, &buffers);
  t.Value("external.buffer", buffers.externalMemoryProperties.externalMemoryFeatures);
}

VK_CASE(instance, device_groups) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  uint32_t count = 0;
  VK(vkEnumeratePhysicalDeviceGroups(holder.instance, &count, nullptr));
  std::vector<VkPhysicalDeviceGroupProperties> groups(count,
                                                      {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES});
  VK(vkEnumeratePhysicalDeviceGroups(holder.instance, &count, groups.data()));
  t.Value("groups", count);
  for (const VkPhysicalDeviceGroupProperties& group : groups) t.Value("members", group.physicalDeviceCount);
  t.Expect(count > 0 && groups[0].physicalDevices[0] == FirstDevice(holder.instance),
           "the first group is not of the first device");
}

VK_CASE(instance, proc_addr) {
  Gpu& gpu = t.gpu();
  t.Expect(vkGetInstanceProcAddr(gpu.instance, "vkNoSuchFunction") == nullptr,
           "an instance function that does not exist");
  t.Expect(vkGetDeviceProcAddr(gpu.device, "vkNoSuchFunction") == nullptr, "a device function that does not exist");
  t.Expect(vkGetDeviceProcAddr(gpu.device, "vkCreateInstance") == nullptr, "a global function from a device");
  // Of extensions that are not enabled.
  t.Value("multi_draw", vkGetDeviceProcAddr(gpu.device, "vkCmdDrawMultiEXT") != nullptr ? 1 : 0);
  for (const char* name :
       {"vkCmdDraw", "vkCmdBeginRendering", "vkQueueSubmit2", "vkCmdPipelineBarrier2", "vkGetDeviceQueue2",
        "vkSetPrivateData", "vkWaitSemaphores", "vkGetBufferDeviceAddress", "vkCmdDrawIndirectCount",
        "vkCmdSetCullMode", "vkGetDeviceBufferMemoryRequirements", "vkUpdateDescriptorSetWithTemplate"}) {
    t.Expect(vkGetDeviceProcAddr(gpu.device, name) != nullptr, "%s is missing", name);
  }
}

VK_CASE(instance, tools) {
  InstanceHolder holder(t, VK_API_VERSION_1_3);
  uint32_t count = 0;
  const VkResult result = vkGetPhysicalDeviceToolProperties(FirstDevice(holder.instance), &count, nullptr);
  t.Result("result", result);
}

}  // namespace sluice::vktest
