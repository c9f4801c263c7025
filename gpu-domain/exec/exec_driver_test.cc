// Recorded commands by group on the driver of this machine: what Vulkan 1.2, 1.3 and extensions add, through the
// guest's encoders and the executor, with results in memory.
#include <gtest/gtest.h>

#include <cstring>

#include "gpu-domain/exec/testing/fill_comp.h"
#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

namespace sluice::exec {
namespace {

using testing::GuestBuffer;
using testing::GuestDevice;
using testing::Harness;

constexpr uint32_t kSize = 16;

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Harness::HaveDriver()) GTEST_SKIP() << "no Vulkan driver";
    Open();
    if (skip) GTEST_SKIP() << "no Vulkan 1.3";
    ASSERT_TRUE(ok) << h.status();
  }
  void TearDown() override {
    if (!ok) return;
    EXPECT_EQ(vkDeviceWaitIdle(d.device), VK_SUCCESS);
    vkDestroyImageView(d.device, view, nullptr);
    vkDestroyImage(d.device, image, nullptr);
    vkFreeMemory(d.device, memory, nullptr);
    out->Destroy(d);
    d.Destroy();
    h.Pump();
    EXPECT_EQ(h.status(), absl::OkStatus());
    EXPECT_EQ(h.context().objects(), 0u);
  }

  // A 1.3 device with what the tests need, in the place of GuestDevice's.
  void Open() {
    VkPhysicalDeviceProperties properties;
    ASSERT_TRUE(d.ok) << h.status();
    vkGetPhysicalDeviceProperties(d.physical, &properties);
    vkDestroyCommandPool(d.device, d.pool, nullptr);
    vkDestroyDevice(d.device, nullptr);
    vkDestroyInstance(d.instance, nullptr);
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &app};
    ASSERT_EQ(vkCreateInstance(&instance_info, nullptr, &d.instance), VK_SUCCESS);
    uint32_t count = 1;
    ASSERT_GE(vkEnumeratePhysicalDevices(d.instance, &count, &d.physical), 0);
    ASSERT_EQ(count, 1u);
    vkGetPhysicalDeviceProperties(d.physical, &properties);
    skip = properties.apiVersion < VK_API_VERSION_1_3;
    if (skip) return;
    VkPhysicalDeviceConditionalRenderingFeaturesEXT conditional = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT, .conditionalRendering = VK_TRUE};
    VkPhysicalDeviceVulkan13Features features13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                                   .pNext = &conditional,
                                                   .synchronization2 = VK_TRUE,
                                                   .dynamicRendering = VK_TRUE};
    VkPhysicalDeviceVulkan12Features features12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                   .pNext = &features13,
                                                   .imagelessFramebuffer = VK_TRUE};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    const char* names[] = {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME};
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .pNext = &features12,
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queue_info,
                                            .enabledExtensionCount = 2,
                                            .ppEnabledExtensionNames = names};
    ASSERT_EQ(vkCreateDevice(d.physical, &device_info, nullptr, &d.device), VK_SUCCESS) << h.status();
    vkGetDeviceQueue(d.device, 0, 0, &d.queue);
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                               .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    ASSERT_EQ(vkCreateCommandPool(d.device, &pool_info, nullptr, &d.pool), VK_SUCCESS);
    const VkImageCreateInfo image_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                          .imageType = VK_IMAGE_TYPE_2D,
                                          .format = VK_FORMAT_R8G8B8A8_UNORM,
                                          .extent = {kSize, kSize, 1},
                                          .mipLevels = 1,
                                          .arrayLayers = 1,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT |
                                                   VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT};
    ASSERT_EQ(vkCreateImage(d.device, &image_info, nullptr, &image), VK_SUCCESS);
    VkMemoryRequirements requirements;
    vkGetImageMemoryRequirements(d.device, image, &requirements);
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .allocationSize = requirements.size,
                                           .memoryTypeIndex = d.MemoryType(requirements.memoryTypeBits, 0)};
    ASSERT_EQ(vkAllocateMemory(d.device, &allocate, nullptr, &memory), VK_SUCCESS);
    ASSERT_EQ(vkBindImageMemory(d.device, image, memory, 0), VK_SUCCESS);
    const VkImageViewCreateInfo view_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                             .image = image,
                                             .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                             .format = VK_FORMAT_R8G8B8A8_UNORM,
                                             .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    ASSERT_EQ(vkCreateImageView(d.device, &view_info, nullptr, &view), VK_SUCCESS);
    out = std::make_unique<GuestBuffer>(d, 4096,
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                            VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                            VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT);
    ASSERT_NE(out->mapped, nullptr);
    memset(out->mapped, 0xee, 4096);
    cb = d.AllocateCommandBuffer();
    ok = true;
  }
  void Begin(VkCommandBuffer buffer, const VkCommandBufferInheritanceInfo* inheritance = nullptr,
             VkCommandBufferUsageFlags flags = 0) {
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = flags, .pInheritanceInfo = inheritance};
    ASSERT_EQ(vkBeginCommandBuffer(buffer, &begin), VK_SUCCESS);
  }
  void Run() {
    ASSERT_EQ(vkEndCommandBuffer(cb), VK_SUCCESS);
    ASSERT_EQ(d.SubmitAndWait(cb), VK_SUCCESS) << h.status();
  }
  void Transition(VkImageLayout from, VkImageLayout to) {
    const VkImageMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                           .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                           .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                           .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                           .dstAccessMask = VK_ACCESS_2_MEMORY_READ_BIT,
                                           .oldLayout = from,
                                           .newLayout = to,
                                           .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                           .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                           .image = image,
                                           .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    const VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &barrier};
    vkCmdPipelineBarrier2(cb, &info);
  }
  // The image, in transfer source layout, into `out`.
  void ReadImage() {
    const VkBufferImageCopy2 region = {.sType = VK_STRUCTURE_TYPE_BUFFER_IMAGE_COPY_2,
                                       .imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                       .imageExtent = {kSize, kSize, 1}};
    const VkCopyImageToBufferInfo2 copy = {.sType = VK_STRUCTURE_TYPE_COPY_IMAGE_TO_BUFFER_INFO_2,
                                           .srcImage = image,
                                           .srcImageLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                                           .dstBuffer = out->buffer,
                                           .regionCount = 1,
                                           .pRegions = &region};
    vkCmdCopyImageToBuffer2(cb, &copy);
  }
  uint32_t Pixel(uint32_t x, uint32_t y) const { return static_cast<const uint32_t*>(out->mapped)[y * kSize + x]; }

  Harness h;
  GuestDevice d;
  bool ok = false;
  bool skip = false;
  VkImage image = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkImageView view = VK_NULL_HANDLE;
  std::unique_ptr<GuestBuffer> out;
  VkCommandBuffer cb = VK_NULL_HANDLE;
};

TEST_F(DriverTest, DynamicRenderingWithASecondaryBuffer) {
  VkCommandBuffer secondary = d.AllocateCommandBuffer(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
  const VkCommandBufferInheritanceRenderingInfo inherited = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_RENDERING_INFO,
      .colorAttachmentCount = 1,
      .pColorAttachmentFormats = &format,
      .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  const VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO,
                                                      .pNext = &inherited};
  Begin(secondary, &inheritance, VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT);
  const VkClearAttachment green = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT, .clearValue = {.color = {{0, 1, 0, 1}}}};
  const VkClearRect corner = {{{8, 8}, {8, 8}}, 0, 1};
  vkCmdClearAttachments(secondary, 1, &green, 1, &corner);
  ASSERT_EQ(vkEndCommandBuffer(secondary), VK_SUCCESS);
  Begin(cb);
  Transition(VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
  const VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                           .imageView = view,
                                           .imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                                           .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                           .clearValue = {.color = {{1, 0, 0, 1}}}};
  const VkRenderingInfo rendering = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                                     .flags = VK_RENDERING_CONTENTS_SECONDARY_COMMAND_BUFFERS_BIT,
                                     .renderArea = {{0, 0}, {kSize, kSize}},
                                     .layerCount = 1,
                                     .colorAttachmentCount = 1,
                                     .pColorAttachments = &color};
  vkCmdBeginRendering(cb, &rendering);
  vkCmdExecuteCommands(cb, 1, &secondary);
  vkCmdEndRendering(cb);
  Transition(VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
  ReadImage();
  Run();
  EXPECT_EQ(Pixel(0, 0), 0xff0000ffu);
  EXPECT_EQ(Pixel(12, 12), 0xff00ff00u);
  // Submitted again, it draws again: nothing was used up.
  memset(out->mapped, 0, 4096);
  ASSERT_EQ(d.SubmitAndWait(cb), VK_SUCCESS);
  EXPECT_EQ(Pixel(12, 12), 0xff00ff00u);
}

TEST_F(DriverTest, RenderPass2WithAnImagelessFramebuffer) {
  const VkAttachmentDescription2 attachment = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_DESCRIPTION_2,
                                               .format = VK_FORMAT_R8G8B8A8_UNORM,
                                               .samples = VK_SAMPLE_COUNT_1_BIT,
                                               .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                               .finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL};
  const VkAttachmentReference2 reference = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_REFERENCE_2,
                                            .layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                                            .aspectMask = VK_IMAGE_ASPECT_COLOR_BIT};
  const VkSubpassDescription2 subpass = {
      .sType = VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_2, .colorAttachmentCount = 1, .pColorAttachments = &reference};
  const VkRenderPassCreateInfo2 pass_info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO_2,
                                             .attachmentCount = 1,
                                             .pAttachments = &attachment,
                                             .subpassCount = 1,
                                             .pSubpasses = &subpass};
  VkRenderPass pass = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateRenderPass2(d.device, &pass_info, nullptr, &pass), VK_SUCCESS);
  const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
  const VkFramebufferAttachmentImageInfo attachment_info = {
      .sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_ATTACHMENT_IMAGE_INFO,
      .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT,
      .width = kSize,
      .height = kSize,
      .layerCount = 1,
      .viewFormatCount = 1,
      .pViewFormats = &format};
  const VkFramebufferAttachmentsCreateInfo attachments = {
      .sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_ATTACHMENTS_CREATE_INFO,
      .attachmentImageInfoCount = 1,
      .pAttachmentImageInfos = &attachment_info};
  const VkFramebufferCreateInfo fb_info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                           .pNext = &attachments,
                                           .flags = VK_FRAMEBUFFER_CREATE_IMAGELESS_BIT,
                                           .renderPass = pass,
                                           .attachmentCount = 1,
                                           .width = kSize,
                                           .height = kSize,
                                           .layers = 1};
  VkFramebuffer framebuffer = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateFramebuffer(d.device, &fb_info, nullptr, &framebuffer), VK_SUCCESS);
  Begin(cb);
  const VkRenderPassAttachmentBeginInfo views = {
      .sType = VK_STRUCTURE_TYPE_RENDER_PASS_ATTACHMENT_BEGIN_INFO, .attachmentCount = 1, .pAttachments = &view};
  const VkClearValue blue = {.color = {{0, 0, 1, 1}}};
  const VkRenderPassBeginInfo pass_begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                            .pNext = &views,
                                            .renderPass = pass,
                                            .framebuffer = framebuffer,
                                            .renderArea = {{0, 0}, {kSize, kSize}},
                                            .clearValueCount = 1,
                                            .pClearValues = &blue};
  const VkSubpassBeginInfo subpass_begin = {.sType = VK_STRUCTURE_TYPE_SUBPASS_BEGIN_INFO};
  const VkSubpassEndInfo subpass_end = {.sType = VK_STRUCTURE_TYPE_SUBPASS_END_INFO};
  vkCmdBeginRenderPass2(cb, &pass_begin, &subpass_begin);
  vkCmdEndRenderPass2(cb, &subpass_end);
  ReadImage();
  Run();
  EXPECT_EQ(Pixel(3, 3), 0xffff0000u);
  vkDestroyFramebuffer(d.device, framebuffer, nullptr);
  vkDestroyRenderPass(d.device, pass, nullptr);
}

TEST_F(DriverTest, EventsCopiesAndUpdatesOfTheSecondKind) {
  VkEvent event = VK_NULL_HANDLE;
  const VkEventCreateInfo event_info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
  ASSERT_EQ(vkCreateEvent(d.device, &event_info, nullptr, &event), VK_SUCCESS);
  Begin(cb);
  const uint32_t words[4] = {1, 2, 3, 4};
  vkCmdUpdateBuffer(cb, out->buffer, 0, 16, words);
  const VkMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                    .srcStageMask = VK_PIPELINE_STAGE_2_COPY_BIT | VK_PIPELINE_STAGE_2_CLEAR_BIT,
                                    .srcAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT,
                                    .dstStageMask = VK_PIPELINE_STAGE_2_COPY_BIT,
                                    .dstAccessMask = VK_ACCESS_2_TRANSFER_READ_BIT};
  const VkDependencyInfo dependency = {
      .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &barrier};
  vkCmdSetEvent2(cb, event, &dependency);
  vkCmdWaitEvents2(cb, 1, &event, &dependency);
  const VkBufferCopy2 regions[2] = {
      {.sType = VK_STRUCTURE_TYPE_BUFFER_COPY_2, .srcOffset = 0, .dstOffset = 1024, .size = 16},
      {.sType = VK_STRUCTURE_TYPE_BUFFER_COPY_2, .srcOffset = 8, .dstOffset = 2048, .size = 8}};
  const VkCopyBufferInfo2 copy = {.sType = VK_STRUCTURE_TYPE_COPY_BUFFER_INFO_2,
                                  .srcBuffer = out->buffer,
                                  .dstBuffer = out->buffer,
                                  .regionCount = 2,
                                  .pRegions = regions};
  vkCmdCopyBuffer2(cb, &copy);
  vkCmdResetEvent2(cb, event, VK_PIPELINE_STAGE_2_COPY_BIT);
  Run();
  const auto* seen = static_cast<const uint32_t*>(out->mapped);
  EXPECT_EQ(memcmp(seen + 256, words, 16), 0);
  EXPECT_EQ(memcmp(seen + 512, words + 2, 8), 0);
  vkDestroyEvent(d.device, event, nullptr);
}

TEST_F(DriverTest, ConditionsAreReadOnTheDevice) {
  auto* predicate = static_cast<uint32_t*>(out->mapped) + 1000;
  for (const uint32_t on : {0u, 1u}) {
    *predicate = on;
    ASSERT_EQ(vkResetCommandBuffer(cb, 0), VK_SUCCESS);
    Begin(cb);
    Transition(VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    const VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                             .imageView = view,
                                             .imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                                             .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR};
    const VkRenderingInfo rendering = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                                       .renderArea = {{0, 0}, {kSize, kSize}},
                                       .layerCount = 1,
                                       .colorAttachmentCount = 1,
                                       .pColorAttachments = &color};
    vkCmdBeginRendering(cb, &rendering);
    const VkConditionalRenderingBeginInfoEXT condition = {
        .sType = VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT, .buffer = out->buffer, .offset = 4000};
    vkCmdBeginConditionalRenderingEXT(cb, &condition);
    const VkClearAttachment white = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT, .clearValue = {.color = {{1, 1, 1, 1}}}};
    const VkClearRect all = {{{0, 0}, {kSize, kSize}}, 0, 1};
    vkCmdClearAttachments(cb, 1, &white, 1, &all);
    vkCmdEndConditionalRenderingEXT(cb);
    vkCmdEndRendering(cb);
    Transition(VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    ReadImage();
    Run();
    EXPECT_EQ(Pixel(5, 5), on != 0 ? 0xffffffffu : 0u);
  }
}

TEST_F(DriverTest, PushedDescriptorsFeedAShader) {
  const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = 1,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  const VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                    .flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR,
                                                    .bindingCount = 1,
                                                    .pBindings = &binding};
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateDescriptorSetLayout(d.device, &set_info, nullptr, &set_layout), VK_SUCCESS);
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
  const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                  .setLayoutCount = 1,
                                                  .pSetLayouts = &set_layout,
                                                  .pushConstantRangeCount = 1,
                                                  .pPushConstantRanges = &range};
  VkPipelineLayout layout = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreatePipelineLayout(d.device, &layout_info, nullptr, &layout), VK_SUCCESS);
  const VkShaderModuleCreateInfo shader_info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof(fill_comp), .pCode = fill_comp};
  VkShaderModule shader = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateShaderModule(d.device, &shader_info, nullptr, &shader), VK_SUCCESS);
  const VkComputePipelineCreateInfo pipeline_info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main"},
      .layout = layout};
  VkPipeline pipeline = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateComputePipelines(d.device, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline), VK_SUCCESS);
  Begin(cb);
  vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  for (uint32_t i = 0; i < 2; i++) {
    const VkDescriptorBufferInfo part = {out->buffer, i * 1024, 1024};
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .descriptorCount = 1,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                        .pBufferInfo = &part};
    vkCmdPushDescriptorSetKHR(cb, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &write);
    const uint32_t base = 100 * (i + 1);
    vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &base);
    vkCmdDispatchBase(cb, 0, 0, 0, 1, 1, 1);
  }
  Run();
  const auto* seen = static_cast<const uint32_t*>(out->mapped);
  EXPECT_EQ(seen[7], 107u);
  EXPECT_EQ(seen[256 + 63], 263u);
  vkDestroyPipeline(d.device, pipeline, nullptr);
  vkDestroyShaderModule(d.device, shader, nullptr);
  vkDestroyPipelineLayout(d.device, layout, nullptr);
  vkDestroyDescriptorSetLayout(d.device, set_layout, nullptr);
}

TEST_F(DriverTest, TimestampsOfTheSecondKind) {
  const VkQueryPoolCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2};
  VkQueryPool queries = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateQueryPool(d.device, &info, nullptr, &queries), VK_SUCCESS);
  Begin(cb);
  vkCmdResetQueryPool(cb, queries, 0, 2);
  vkCmdWriteTimestamp2(cb, VK_PIPELINE_STAGE_2_NONE, queries, 0);
  vkCmdFillBuffer(cb, out->buffer, 0, 4096, 7);
  vkCmdWriteTimestamp2(cb, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, queries, 1);
  Run();
  uint64_t stamps[2] = {};
  ASSERT_EQ(vkGetQueryPoolResults(d.device, queries, 0, 2, sizeof(stamps), stamps, 8,
                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
            VK_SUCCESS);
  EXPECT_GE(stamps[1], stamps[0]);
  vkDestroyQueryPool(d.device, queries, nullptr);
}

}  // namespace
}  // namespace sluice::exec
