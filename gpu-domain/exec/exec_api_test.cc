// Vulkan 1.1 to 1.3 and extensions across the wire, on the driver of this machine: chains both ways, lists, what stays
// with the guest, and state that a program may leave undefined.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

namespace sluice::exec {
namespace {

using testing::GuestBuffer;
using testing::GuestDevice;
using testing::Harness;

// Not a structure of any extension.
constexpr auto kUnknown = static_cast<VkStructureType>(1999999000);

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Harness::HaveDriver()) GTEST_SKIP() << "no Vulkan driver";
    h = std::make_unique<Harness>();
    h->keep = true;
    d = std::make_unique<GuestDevice>();
    ASSERT_TRUE(d->ok) << h->status();
  }
  void TearDown() override {
    if (d == nullptr) return;
    d->Destroy();
    h->Pump();
    EXPECT_EQ(h->status(), absl::OkStatus());
    EXPECT_EQ(h->context().objects(), 0u);
    EXPECT_EQ(h->channel().ids().live(), 0u);
  }
  size_t Sent(vk::Opcode opcode) {
    h->Pump();
    return static_cast<size_t>(std::count_if(h->messages.begin(), h->messages.end(),
                                             [&](const auto& m) { return m.opcode == static_cast<uint16_t>(opcode); }));
  }

  std::unique_ptr<Harness> h;
  std::unique_ptr<GuestDevice> d;
};

TEST_F(ApiTest, OutputChainsAreFilledInAndWhatIsUnknownIsLeftAlone) {
  VkPhysicalDeviceVulkan12Properties v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  struct Unknown {
    VkStructureType type = kUnknown;
    void* next = nullptr;
    uint64_t value = 7;
  } unknown;
  unknown.next = &v12;
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                             .pNext = &unknown};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
  vkGetPhysicalDeviceProperties2(d->physical, &properties);
  VkPhysicalDeviceProperties plain;
  vkGetPhysicalDeviceProperties(d->physical, &plain);
  EXPECT_STREQ(properties.properties.deviceName, plain.deviceName);
  EXPECT_GT(strlen(driver.driverName), 0u);
  EXPECT_STREQ(driver.driverName, v12.driverName);
  EXPECT_EQ(properties.pNext, &driver);
  EXPECT_EQ(driver.pNext, &unknown);
  EXPECT_EQ(driver.sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  EXPECT_EQ(unknown.value, 7u);
  EXPECT_EQ(unknown.next, &v12);
}

TEST_F(ApiTest, FeaturesComeInChainsAndMakeADevice) {
  VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                          .pNext = &v13};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v12};
  vkGetPhysicalDeviceFeatures2(d->physical, &features);
  EXPECT_EQ(v12.timelineSemaphore, VK_TRUE);
  EXPECT_EQ(v13.dynamicRendering, VK_TRUE);
  EXPECT_EQ(features.features.sparseBinding, VK_FALSE);
  // All of them at once make a device.
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  const std::array<const char*, 2> extensions = {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME,
                                                 VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME};
  const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .pNext = &features,
                                   .queueCreateInfoCount = 1,
                                   .pQueueCreateInfos = &queue,
                                   .enabledExtensionCount = 2,
                                   .ppEnabledExtensionNames = extensions.data()};
  VkDevice device = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDevice(d->physical, &info, nullptr, &device), VK_SUCCESS) << h->status();
  // Numbers come back from what an extension brings.
  const std::array<VkCalibratedTimestampInfoEXT, 2> infos = {{
      {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
      {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT},
  }};
  auto calibrated =
      vk::FunctionCast<PFN_vkGetCalibratedTimestampsEXT>(vkGetDeviceProcAddr(device, "vkGetCalibratedTimestampsEXT"));
  ASSERT_NE(calibrated, nullptr);
  uint64_t stamps[2] = {}, deviation = 0;
  ASSERT_EQ(calibrated(device, 2, infos.data(), stamps, &deviation), VK_SUCCESS);
  EXPECT_NE(stamps[0], 0u);
  EXPECT_NE(stamps[1], 0u);
  vkDestroyDevice(device, nullptr);
}

TEST_F(ApiTest, ListsFollowTheTwoCallIdiom) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties2(d->physical, &count, nullptr);
  ASSERT_GE(count, 1u);
  std::vector<VkQueueFamilyProperties2> families(count, {.sType = VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2});
  vkGetPhysicalDeviceQueueFamilyProperties2(d->physical, &count, families.data());
  EXPECT_NE(families[0].queueFamilyProperties.queueFlags & VK_QUEUE_GRAPHICS_BIT, 0u);
  EXPECT_EQ(families[0].queueFamilyProperties.queueFlags & VK_QUEUE_SPARSE_BINDING_BIT, 0u);
  count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties2(d->physical, &count, families.data());
  EXPECT_EQ(count, 0u) << "no room, nothing written";

  auto domains = vk::FunctionCast<PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT>(
      vkGetInstanceProcAddr(d->instance, "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT"));
  ASSERT_NE(domains, nullptr);
  ASSERT_EQ(domains(d->physical, &count, nullptr), VK_SUCCESS);
  ASSERT_GE(count, 2u);
  std::vector<VkTimeDomainEXT> all(count);
  ASSERT_EQ(domains(d->physical, &count, all.data()), VK_SUCCESS);
  EXPECT_NE(std::find(all.begin(), all.end(), VK_TIME_DOMAIN_DEVICE_EXT), all.end());
  count = 1;
  EXPECT_EQ(domains(d->physical, &count, all.data()), VK_INCOMPLETE);
  EXPECT_EQ(count, 1u);

  VkPipelineCache cache = VK_NULL_HANDLE;
  const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  ASSERT_EQ(vkCreatePipelineCache(d->device, &info, nullptr, &cache), VK_SUCCESS);
  size_t size = 0;
  ASSERT_EQ(vkGetPipelineCacheData(d->device, cache, &size, nullptr), VK_SUCCESS);
  EXPECT_GE(size, sizeof(VkPipelineCacheHeaderVersionOne));
  std::vector<uint8_t> data(size);
  ASSERT_EQ(vkGetPipelineCacheData(d->device, cache, &size, data.data()), VK_SUCCESS);
  EXPECT_EQ(size, data.size());
  vkDestroyPipelineCache(d->device, cache, nullptr);
}

TEST_F(ApiTest, RequirementsOfWhatDoesNotExistYet) {
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 1000, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  const VkDeviceBufferMemoryRequirements ask = {.sType = VK_STRUCTURE_TYPE_DEVICE_BUFFER_MEMORY_REQUIREMENTS,
                                                .pCreateInfo = &info};
  VkMemoryDedicatedRequirements dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS,
                                             .prefersDedicatedAllocation = 77};
  VkMemoryRequirements2 out = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, .pNext = &dedicated};
  vkGetDeviceBufferMemoryRequirements(d->device, &ask, &out);
  EXPECT_GE(out.memoryRequirements.size, 1000u);
  EXPECT_NE(out.memoryRequirements.memoryTypeBits, 0u);
  EXPECT_LE(dedicated.prefersDedicatedAllocation, 1u);
}

TEST_F(ApiTest, DeviceAddressesAreValues) {
  GuestBuffer buffer(*d, 4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
  const VkBufferDeviceAddressInfo ask = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = buffer.buffer};
  EXPECT_NE(vkGetBufferDeviceAddress(d->device, &ask), 0u);
  buffer.Destroy(*d);
}

TEST_F(ApiTest, TemplatesAreExpandedAndInlineUniformsCross) {
  const std::array<VkDescriptorSetLayoutBinding, 2> bindings = {{
      {.binding = 0,
       .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
       .descriptorCount = 2,
       .stageFlags = VK_SHADER_STAGE_ALL},
      {.binding = 1,
       .descriptorType = VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK,
       .descriptorCount = 16,
       .stageFlags = VK_SHADER_STAGE_ALL},
  }};
  const std::array<VkDescriptorBindingFlags, 2> flags = {VK_DESCRIPTOR_BINDING_PARTIALLY_BOUND_BIT, 0};
  const VkDescriptorSetLayoutBindingFlagsCreateInfo binding_flags = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO,
      .bindingCount = 2,
      .pBindingFlags = flags.data()};
  const VkDescriptorSetLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                       .pNext = &binding_flags,
                                                       .bindingCount = 2,
                                                       .pBindings = bindings.data()};
  VkDescriptorSetLayoutSupport support = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_SUPPORT};
  vkGetDescriptorSetLayoutSupport(d->device, &layout_info, &support);
  EXPECT_EQ(support.supported, VK_TRUE);
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorSetLayout(d->device, &layout_info, nullptr, &layout), VK_SUCCESS);
  const std::array<VkDescriptorPoolSize, 2> sizes = {
      {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2}, {VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK, 16}}};
  const VkDescriptorPoolInlineUniformBlockCreateInfo inline_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_INLINE_UNIFORM_BLOCK_CREATE_INFO, .maxInlineUniformBlockBindings = 1};
  const VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                .pNext = &inline_info,
                                                .maxSets = 1,
                                                .poolSizeCount = 2,
                                                .pPoolSizes = sizes.data()};
  VkDescriptorPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorPool(d->device, &pool_info, nullptr, &pool), VK_SUCCESS);
  const VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                .descriptorPool = pool,
                                                .descriptorSetCount = 1,
                                                .pSetLayouts = &layout};
  VkDescriptorSet set = VK_NULL_HANDLE;
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &set), VK_SUCCESS);
  GuestBuffer buffer(*d, 4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  struct Data {
    uint64_t padding = 0;
    VkDescriptorBufferInfo buffers[2];
    uint32_t inlined[4] = {1, 2, 3, 4};
  } data;
  data.buffers[0] = {buffer.buffer, 0, 256};
  data.buffers[1] = {buffer.buffer, 256, VK_WHOLE_SIZE};
  const std::array<VkDescriptorUpdateTemplateEntry, 2> entries = {{
      {.dstBinding = 0,
       .descriptorCount = 2,
       .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
       .offset = offsetof(Data, buffers),
       .stride = sizeof(VkDescriptorBufferInfo)},
      {.dstBinding = 1,
       .descriptorCount = 16,
       .descriptorType = VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK,
       .offset = offsetof(Data, inlined)},
  }};
  const VkDescriptorUpdateTemplateCreateInfo template_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_UPDATE_TEMPLATE_CREATE_INFO,
      .descriptorUpdateEntryCount = 2,
      .pDescriptorUpdateEntries = entries.data(),
      .templateType = VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET,
      .descriptorSetLayout = layout};
  VkDescriptorUpdateTemplate update = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorUpdateTemplate(d->device, &template_info, nullptr, &update), VK_SUCCESS);
  vkUpdateDescriptorSetWithTemplate(d->device, set, update, &data);
  EXPECT_EQ(Sent(vk::Opcode::kUpdateDescriptorSets), 1u);
  EXPECT_EQ(h->status(), absl::OkStatus());
  vkDestroyDescriptorUpdateTemplate(d->device, update, nullptr);
  buffer.Destroy(*d);
  vkDestroyDescriptorPool(d->device, pool, nullptr);
  vkDestroyDescriptorSetLayout(d->device, layout, nullptr);
}

TEST_F(ApiTest, DescriptorSetsAreWaitedForOnlyWhereTheDriverMayRefuse) {
  const VkDescriptorSetLayoutBinding binding = {.binding = 0,
                                                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = 2,
                                                .stageFlags = VK_SHADER_STAGE_ALL};
  const VkDescriptorSetLayoutCreateInfo layout_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorSetLayout(d->device, &layout_info, nullptr, &layout), VK_SUCCESS);
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 5};
  const VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                .flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT,
                                                .maxSets = 8,
                                                .poolSizeCount = 1,
                                                .pPoolSizes = &size};
  VkDescriptorPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorPool(d->device, &pool_info, nullptr, &pool), VK_SUCCESS);
  const VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                .descriptorPool = pool,
                                                .descriptorSetCount = 1,
                                                .pSetLayouts = &layout};
  // Whether the last allocation asked for an answer.
  auto waited = [&] {
    h->Pump();
    const auto& m = h->messages.back();
    EXPECT_EQ(m.opcode, static_cast<uint16_t>(vk::Opcode::kAllocateDescriptorSets));
    return (m.flags & wire::kFrameReply) != 0;
  };
  std::array<VkDescriptorSet, 4> sets = {};
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &sets[0]), VK_SUCCESS);
  EXPECT_FALSE(waited());
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &sets[1]), VK_SUCCESS);
  EXPECT_FALSE(waited());
  // One descriptor is left, and two are wanted: the driver decides.
  vkAllocateDescriptorSets(d->device, &allocate, &sets[2]);
  EXPECT_TRUE(waited());
  ASSERT_EQ(vkResetDescriptorPool(d->device, pool, 0), VK_SUCCESS);
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &sets[0]), VK_SUCCESS);
  EXPECT_FALSE(waited()) << "an empty pool has room";
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &sets[1]), VK_SUCCESS);
  ASSERT_EQ(vkFreeDescriptorSets(d->device, pool, 1, &sets[0]), VK_SUCCESS);
  ASSERT_EQ(vkAllocateDescriptorSets(d->device, &allocate, &sets[0]), VK_SUCCESS);
  EXPECT_TRUE(waited()) << "the pool may be fragmented";
  vkDestroyDescriptorPool(d->device, pool, nullptr);
  vkDestroyDescriptorSetLayout(d->device, layout, nullptr);
}

TEST_F(ApiTest, TimelineSemaphoresCountOnBothSides) {
  const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                          .initialValue = 5};
  const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateSemaphore(d->device, &info, nullptr, &semaphore), VK_SUCCESS);
  uint64_t value = 0;
  ASSERT_EQ(vkGetSemaphoreCounterValue(d->device, semaphore, &value), VK_SUCCESS);
  EXPECT_EQ(value, 5u);
  const VkSemaphoreSignalInfo signal = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = 9};
  ASSERT_EQ(vkSignalSemaphore(d->device, &signal), VK_SUCCESS);
  ASSERT_EQ(vkGetSemaphoreCounterValue(d->device, semaphore, &value), VK_SUCCESS);
  EXPECT_EQ(value, 9u);
  vkDestroySemaphore(d->device, semaphore, nullptr);
}

}  // namespace
}  // namespace sluice::exec
