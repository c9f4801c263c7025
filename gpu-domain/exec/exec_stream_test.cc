// Command streams from the guest's vkCmd* to the driver's, on the driver that only looks: every kind of command, what
// structures in the pool carry, pieces, and the life of command buffers. exec_stream_refusal_test has the hostile side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "flatbuf/guest/handle.h"
#include "flatbuf/guest/recorder.h"
#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

namespace sluice::exec {
namespace {

using testing::FakeCalls;
using testing::FakeReset;
using testing::GuestDevice;
using testing::Harness;

// ---- what reaches the driver: commands that a test looks at itself, by name
std::map<std::string, PFN_vkVoidFunction>& Seen() {
  static auto* const seen = new std::map<std::string, PFN_vkVoidFunction>;
  return *seen;
}
// Memory for the guest's own buffers: events and queries answer from them.
VKAPI_ATTR void VKAPI_CALL OneMemoryType(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties* properties) {
  *properties = {};
  properties->memoryTypeCount = properties->memoryHeapCount = 1;
  properties->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  properties->memoryHeaps[0].size = 1 << 20;
}
VKAPI_ATTR void VKAPI_CALL SomeRequirements(VkDevice, VkBuffer, VkMemoryRequirements* requirements) {
  *requirements = {.size = 64 * 1024, .alignment = 16, .memoryTypeBits = 1};
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL DeviceProc(VkDevice, const char* name) {
  if (strcmp(name, "vkGetBufferMemoryRequirements") == 0)
    return vk::FunctionCast<PFN_vkVoidFunction>(&SomeRequirements);
  const auto found = Seen().find(name);
  return found != Seen().end() ? found->second : testing::FakeGetInstanceProcAddr(VK_NULL_HANDLE, name);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL InstanceProc(VkInstance instance, const char* name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return vk::FunctionCast<PFN_vkVoidFunction>(&DeviceProc);
  if (strcmp(name, "vkGetPhysicalDeviceMemoryProperties") == 0) {
    return vk::FunctionCast<PFN_vkVoidFunction>(&OneMemoryType);
  }
  return testing::FakeGetInstanceProcAddr(instance, name);
}

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() : h({}, 256 * 1024) {
    FakeReset();
    Seen().clear();
    h.policy().driver = &InstanceProc;
  }
  // After the test has said what it wants to see.
  void Open() {
    d = std::make_unique<GuestDevice>();
    ASSERT_TRUE(d->ok) << h.status();
    cb = d->AllocateCommandBuffer();
    VkBufferCreateInfo buffer_info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 4096, .usage = 1};
    for (auto& b : buffers) ASSERT_EQ(vkCreateBuffer(d->device, &buffer_info, nullptr, &b), VK_SUCCESS);
    const VkImageCreateInfo image_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                          .imageType = VK_IMAGE_TYPE_2D,
                                          .format = VK_FORMAT_R8G8B8A8_UNORM,
                                          .extent = {4, 4, 1},
                                          .mipLevels = 1,
                                          .arrayLayers = 1,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .usage = 1};
    ASSERT_EQ(vkCreateImage(d->device, &image_info, nullptr, &image), VK_SUCCESS);
    const VkImageViewCreateInfo view_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                             .image = image,
                                             .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                             .format = VK_FORMAT_R8G8B8A8_UNORM,
                                             .subresourceRange = {1, 0, 1, 0, 1}};
    ASSERT_EQ(vkCreateImageView(d->device, &view_info, nullptr, &view), VK_SUCCESS);
    const VkEventCreateInfo event_info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
    for (auto& e : events) ASSERT_EQ(vkCreateEvent(d->device, &event_info, nullptr, &e), VK_SUCCESS);
    const VkQueryPoolCreateInfo query_info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_OCCLUSION, .queryCount = 8};
    ASSERT_EQ(vkCreateQueryPool(d->device, &query_info, nullptr, &queries), VK_SUCCESS);
    const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    ASSERT_EQ(vkCreatePipelineLayout(d->device, &layout_info, nullptr, &layout), VK_SUCCESS);
    const VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS};
    const VkRenderPassCreateInfo pass_info = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO, .subpassCount = 1, .pSubpasses = &subpass};
    ASSERT_EQ(vkCreateRenderPass(d->device, &pass_info, nullptr, &pass), VK_SUCCESS);
    const VkFramebufferCreateInfo fb_info = {
        .sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO, .renderPass = pass, .width = 4, .height = 4, .layers = 1};
    ASSERT_EQ(vkCreateFramebuffer(d->device, &fb_info, nullptr, &framebuffer), VK_SUCCESS);
  }
  void Begin(VkCommandBuffer buffer, const void* next = nullptr) {
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .pNext = next};
    ASSERT_EQ(vkBeginCommandBuffer(buffer, &begin), VK_SUCCESS);
  }
  // Ends the recording, and lets the worker replay it.
  void Replay() {
    ASSERT_EQ(vkEndCommandBuffer(cb), VK_SUCCESS);
    h.Pump();
    ASSERT_EQ(h.status(), absl::OkStatus());
  }
  template <typename F>
  void See(const char* name, F function) {
    Seen()[name] = vk::FunctionCast<PFN_vkVoidFunction>(function);
  }
  uint64_t Streams() const {
    uint64_t streams = 0;
    for (const auto& m : h.messages) streams += m.opcode == static_cast<uint16_t>(vk::Opcode::kCommandStream);
    return streams;
  }

  Harness h;
  std::unique_ptr<GuestDevice> d;
  VkCommandBuffer cb = VK_NULL_HANDLE;
  VkBuffer buffers[2];
  VkImage image;
  VkImageView view;
  VkEvent events[2];
  VkQueryPool queries;
  VkPipelineLayout layout;
  VkRenderPass pass;
  VkFramebuffer framebuffer;
};

// ---- every kind
TEST_F(StreamTest, CommandsWithoutStructuresAllArrive) {
  Open();
  Begin(cb);
  const VkDeviceSize zero[2] = {};
  const VkViewport viewport = {0, 0, 4, 4, 0, 1};
  const VkRect2D scissor = {{0, 0}, {4, 4}};
  const float constants[4] = {1, 2, 3, 4};
  const VkBool32 on[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const VkColorComponentFlags mask[8] = {};
  const VkColorBlendEquationEXT equation = {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_ADD,
                                            VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_ADD};
  const VkSampleMask samples[1] = {1};
  h.Pump();
  const uint64_t before = FakeCalls();
  const std::function<void()> commands[] = {
      [&] { vkCmdSetViewport(cb, 0, 1, &viewport); },
      [&] { vkCmdSetScissor(cb, 0, 1, &scissor); },
      [&] { vkCmdSetLineWidth(cb, 1); },
      [&] { vkCmdSetDepthBias(cb, 1, 2, 3); },
      [&] { vkCmdSetBlendConstants(cb, constants); },
      [&] { vkCmdSetDepthBounds(cb, 0, 1); },
      [&] { vkCmdSetStencilCompareMask(cb, VK_STENCIL_FACE_FRONT_BIT, 1); },
      [&] { vkCmdSetStencilWriteMask(cb, VK_STENCIL_FACE_BACK_BIT, 1); },
      [&] { vkCmdSetStencilReference(cb, VK_STENCIL_FACE_FRONT_AND_BACK, 1); },
      [&] { vkCmdBindIndexBuffer(cb, buffers[0], 0, VK_INDEX_TYPE_UINT16); },
      [&] { vkCmdBindVertexBuffers(cb, 0, 2, buffers, zero); },
      [&] { vkCmdBindVertexBuffers2(cb, 0, 2, buffers, zero, nullptr, nullptr); },
      [&] { vkCmdBindVertexBuffers2(cb, 0, 2, buffers, zero, zero, zero); },
      [&] { vkCmdDraw(cb, 3, 1, 0, 0); },
      [&] { vkCmdDrawIndexed(cb, 3, 1, 0, 0, 0); },
      [&] { vkCmdDrawIndirect(cb, buffers[0], 0, 1, 16); },
      [&] { vkCmdDrawIndexedIndirect(cb, buffers[0], 0, 1, 20); },
      [&] { vkCmdDrawIndirectCount(cb, buffers[0], 0, buffers[1], 0, 1, 16); },
      [&] { vkCmdDrawIndexedIndirectCount(cb, buffers[0], 0, buffers[1], 0, 1, 20); },
      [&] { vkCmdDispatch(cb, 1, 2, 3); },
      [&] { vkCmdDispatchBase(cb, 0, 0, 0, 1, 1, 1); },
      [&] { vkCmdDispatchIndirect(cb, buffers[0], 0); },
      [&] { vkCmdSetDeviceMask(cb, 1); },
      [&] { vkCmdFillBuffer(cb, buffers[0], 0, 16, 7); },
      [&] { vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, 16, constants); },
      [&] { vkCmdCopyQueryPoolResults(cb, queries, 0, 8, buffers[0], 0, 8, VK_QUERY_RESULT_64_BIT); },
      [&] { vkCmdBindTransformFeedbackBuffersEXT(cb, 0, 2, buffers, zero, nullptr); },
      [&] { vkCmdBeginTransformFeedbackEXT(cb, 0, 0, nullptr, nullptr); },
      [&] { vkCmdEndTransformFeedbackEXT(cb, 0, 2, buffers, zero); },
      [&] { vkCmdDrawIndirectByteCountEXT(cb, 1, 0, buffers[0], 0, 0, 16); },
      [&] { vkCmdEndConditionalRenderingEXT(cb); },
      [&] { vkCmdSetCullMode(cb, VK_CULL_MODE_BACK_BIT); },
      [&] { vkCmdSetFrontFace(cb, VK_FRONT_FACE_CLOCKWISE); },
      [&] { vkCmdSetPrimitiveTopology(cb, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_FAN); },
      [&] { vkCmdSetViewportWithCount(cb, 1, &viewport); },
      [&] { vkCmdSetScissorWithCount(cb, 1, &scissor); },
      [&] { vkCmdSetDepthTestEnable(cb, 1); },
      [&] { vkCmdSetDepthWriteEnable(cb, 1); },
      [&] { vkCmdSetDepthCompareOp(cb, VK_COMPARE_OP_LESS); },
      [&] { vkCmdSetDepthBoundsTestEnable(cb, 1); },
      [&] { vkCmdSetStencilTestEnable(cb, 1); },
      [&] {
        vkCmdSetStencilOp(cb, VK_STENCIL_FACE_FRONT_BIT, VK_STENCIL_OP_KEEP, VK_STENCIL_OP_ZERO, VK_STENCIL_OP_INVERT,
                          VK_COMPARE_OP_ALWAYS);
      },
      [&] { vkCmdSetRasterizerDiscardEnable(cb, 1); },
      [&] { vkCmdSetDepthBiasEnable(cb, 1); },
      [&] { vkCmdSetPrimitiveRestartEnable(cb, 1); },
      [&] { vkCmdSetLineStippleEXT(cb, 1, 0xaaaa); },
      [&] { vkCmdSetPatchControlPointsEXT(cb, 3); },
      [&] { vkCmdSetLogicOpEXT(cb, VK_LOGIC_OP_XOR); },
      [&] { vkCmdSetColorWriteEnableEXT(cb, 8, on); },
      [&] { vkCmdSetTessellationDomainOriginEXT(cb, VK_TESSELLATION_DOMAIN_ORIGIN_LOWER_LEFT); },
      [&] { vkCmdSetDepthClampEnableEXT(cb, 1); },
      [&] { vkCmdSetPolygonModeEXT(cb, VK_POLYGON_MODE_LINE); },
      [&] { vkCmdSetRasterizationSamplesEXT(cb, VK_SAMPLE_COUNT_4_BIT); },
      [&] { vkCmdSetSampleMaskEXT(cb, VK_SAMPLE_COUNT_4_BIT, samples); },
      [&] { vkCmdSetAlphaToCoverageEnableEXT(cb, 1); },
      [&] { vkCmdSetAlphaToOneEnableEXT(cb, 1); },
      [&] { vkCmdSetLogicOpEnableEXT(cb, 1); },
      [&] { vkCmdSetColorBlendEnableEXT(cb, 0, 8, on); },
      [&] { vkCmdSetColorBlendEquationEXT(cb, 7, 1, &equation); },
      [&] { vkCmdSetColorWriteMaskEXT(cb, 0, 8, mask); },
      [&] { vkCmdSetRasterizationStreamEXT(cb, 1); },
      [&] { vkCmdSetDepthClipEnableEXT(cb, 1); },
      [&] { vkCmdSetProvokingVertexModeEXT(cb, VK_PROVOKING_VERTEX_MODE_LAST_VERTEX_EXT); },
      [&] { vkCmdSetLineRasterizationModeEXT(cb, VK_LINE_RASTERIZATION_MODE_BRESENHAM_EXT); },
      [&] { vkCmdSetLineStippleEnableEXT(cb, 1); },
      [&] { vkCmdSetDepthClipNegativeOneToOneEXT(cb, 1); },
      [&] { vkCmdNextSubpass(cb, VK_SUBPASS_CONTENTS_INLINE); },
      [&] { vkCmdEndRenderPass(cb); },
      [&] { vkCmdEndRendering(cb); },
  };
  for (const auto& command : commands) command();
  Replay();
  EXPECT_EQ(FakeCalls() - before, std::size(commands)) << "one call for one, begin and end aside";
}
TEST_F(StreamTest, WhatTheHostMayAskForArrivesWithWhatAnswersIt) {
  Open();
  Begin(cb);
  h.Pump();
  const uint64_t before = FakeCalls();
  const std::function<void()> commands[] = {
      [&] { vkCmdBeginQuery(cb, queries, 0, 0); },
      [&] { vkCmdEndQuery(cb, queries, 0); },
      [&] { vkCmdBeginQueryIndexedEXT(cb, queries, 1, 0, 2); },
      [&] { vkCmdEndQueryIndexedEXT(cb, queries, 1, 2); },
      [&] { vkCmdResetQueryPool(cb, queries, 0, 8); },
      [&] { vkCmdWriteTimestamp(cb, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 0); },
      [&] { vkCmdWriteTimestamp2(cb, VK_PIPELINE_STAGE_2_COPY_BIT, queries, 0); },
      [&] { vkCmdSetEvent(cb, events[0], VK_PIPELINE_STAGE_TRANSFER_BIT); },
      [&] { vkCmdResetEvent(cb, events[0], VK_PIPELINE_STAGE_TRANSFER_BIT); },
      [&] { vkCmdResetEvent2(cb, events[0], VK_PIPELINE_STAGE_2_COPY_BIT); },
  };
  for (const auto& command : commands) command();
  Replay();
  // Two barriers and a fill for an event (three of them); a fill more for the reset of a pool, behind what has ended by
  // then; three barriers, and copies and fills for each row of queries, for what has ended since.
  EXPECT_GE(FakeCalls() - before, std::size(commands) + 3 * 3);
}

// ---- structures in the pool
const VkDependencyInfo* seen_dependencies = nullptr;
VKAPI_ATTR void VKAPI_CALL SeeBarrier2(VkCommandBuffer, const VkDependencyInfo* info) {
  static VkImageMemoryBarrier2 image;
  static VkMemoryBarrier2 memory[2];
  static VkDependencyInfo copy;
  copy = *info;
  ASSERT_EQ(info->memoryBarrierCount, 2u);
  ASSERT_EQ(info->imageMemoryBarrierCount, 1u);
  memcpy(memory, info->pMemoryBarriers, sizeof(memory));
  image = *info->pImageMemoryBarriers;
  copy.pMemoryBarriers = memory;
  copy.pImageMemoryBarriers = &image;
  seen_dependencies = &copy;
}

TEST_F(StreamTest, BarriersArriveWithAllTheirArrays) {
  See("vkCmdPipelineBarrier2", &SeeBarrier2);
  Open();
  Begin(cb);
  VkMemoryBarrier2 memory[2] = {{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2},
                                {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2}};
  memory[0].srcStageMask = VK_PIPELINE_STAGE_2_COPY_BIT;
  memory[1].dstAccessMask = VK_ACCESS_2_SHADER_STORAGE_READ_BIT;
  VkImageMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                   .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                   .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                   .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                   .image = image,
                                   .subresourceRange = {1, 0, VK_REMAINING_MIP_LEVELS, 0, 7}};
  // A structure that the wire does not know is skipped, as drivers do.
  VkBaseInStructure unknown = {.sType = VK_STRUCTURE_TYPE_ACCELERATION_STRUCTURE_GEOMETRY_KHR};
  barrier.pNext = &unknown;
  const VkDependencyInfo info = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
                                 .dependencyFlags = VK_DEPENDENCY_BY_REGION_BIT,
                                 .memoryBarrierCount = 2,
                                 .pMemoryBarriers = memory,
                                 .imageMemoryBarrierCount = 1,
                                 .pImageMemoryBarriers = &barrier};
  vkCmdPipelineBarrier2(cb, &info);
  Replay();
  ASSERT_NE(seen_dependencies, nullptr);
  EXPECT_EQ(seen_dependencies->dependencyFlags, VK_DEPENDENCY_BY_REGION_BIT);
  EXPECT_EQ(seen_dependencies->pMemoryBarriers[0].srcStageMask, VK_PIPELINE_STAGE_2_COPY_BIT);
  EXPECT_EQ(seen_dependencies->pMemoryBarriers[1].dstAccessMask, VK_ACCESS_2_SHADER_STORAGE_READ_BIT);
  EXPECT_EQ(seen_dependencies->pBufferMemoryBarriers, nullptr);
  const VkImageMemoryBarrier2& seen = *seen_dependencies->pImageMemoryBarriers;
  EXPECT_EQ(seen.newLayout, VK_IMAGE_LAYOUT_GENERAL);
  EXPECT_EQ(seen.pNext, nullptr);
  EXPECT_EQ(seen.subresourceRange.layerCount, 7u);
  EXPECT_NE(vk::HandleValue(seen.image), vk::HandleValue(image)) << "the driver's handle, not the id";
}

bool seen_inheritance = false;
VKAPI_ATTR VkResult VKAPI_CALL SeeBegin(VkCommandBuffer, const VkCommandBufferBeginInfo* info) {
  seen_inheritance = false;
  if (info->pInheritanceInfo == nullptr) return VK_SUCCESS;
  EXPECT_EQ(info->pInheritanceInfo->renderPass, VK_NULL_HANDLE);
  const auto* rendering = static_cast<const VkCommandBufferInheritanceRenderingInfo*>(info->pInheritanceInfo->pNext);
  if (rendering == nullptr) return VK_SUCCESS;
  EXPECT_EQ(rendering->sType, VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_RENDERING_INFO);
  EXPECT_EQ(rendering->colorAttachmentCount, 2u);
  EXPECT_EQ(rendering->pColorAttachmentFormats[1], VK_FORMAT_R8G8B8A8_UNORM);
  const auto* conditional = static_cast<const VkCommandBufferInheritanceConditionalRenderingInfoEXT*>(rendering->pNext);
  EXPECT_NE(conditional, nullptr);
  if (conditional == nullptr) return VK_SUCCESS;
  EXPECT_EQ(conditional->conditionalRenderingEnable, VK_TRUE);
  EXPECT_EQ(conditional->pNext, nullptr);
  seen_inheritance = true;
  return VK_SUCCESS;
}

TEST_F(StreamTest, SecondaryBuffersInheritThroughChains) {
  See("vkBeginCommandBuffer", &SeeBegin);
  Open();
  VkCommandBuffer secondary = d->AllocateCommandBuffer(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  const VkFormat formats[] = {VK_FORMAT_UNDEFINED, VK_FORMAT_R8G8B8A8_UNORM};
  VkCommandBufferInheritanceConditionalRenderingInfoEXT conditional = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_CONDITIONAL_RENDERING_INFO_EXT,
      .conditionalRenderingEnable = VK_TRUE};
  const VkCommandBufferInheritanceRenderingInfo rendering = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_RENDERING_INFO,
      .pNext = &conditional,
      .colorAttachmentCount = 2,
      .pColorAttachmentFormats = formats,
      .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  const VkCommandBufferInheritanceInfo inheritance = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO, .pNext = &rendering, .renderPass = pass};
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .pInheritanceInfo = &inheritance};
  ASSERT_EQ(vkBeginCommandBuffer(secondary, &begin), VK_SUCCESS);
  ASSERT_EQ(vkEndCommandBuffer(secondary), VK_SUCCESS);
  h.Pump();
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_TRUE(seen_inheritance);
  // Primary buffers ignore it, whatever it points to.
  ASSERT_EQ(vkBeginCommandBuffer(cb, &begin), VK_SUCCESS);
  vkCmdExecuteCommands(cb, 1, &secondary);
  Replay();
  EXPECT_FALSE(seen_inheritance);
}

uint32_t seen_draws = 0;
std::vector<VkMultiDrawInfoEXT> seen_multi;
VKAPI_ATTR void VKAPI_CALL SeeMultiDraw(VkCommandBuffer, uint32_t count, const VkMultiDrawInfoEXT* infos, uint32_t,
                                        uint32_t, uint32_t stride) {
  EXPECT_EQ(stride, sizeof(VkMultiDrawInfoEXT));
  seen_multi.assign(infos, infos + count);
}

TEST_F(StreamTest, MultiDrawsArePacked) {
  See("vkCmdDrawMultiEXT", &SeeMultiDraw);
  Open();
  Begin(cb);
  struct Draw {
    VkMultiDrawInfoEXT info;
    uint32_t mine;
  };
  const Draw draws[3] = {{{1, 2}, 0xdead}, {{3, 4}, 0xdead}, {{5, 6}, 0xdead}};
  vkCmdDrawMultiEXT(cb, 3, &draws[0].info, 1, 0, sizeof(Draw));
  const int32_t offset = 7;
  const VkMultiDrawIndexedInfoEXT indexed[2] = {{1, 2, 3}, {4, 5, 6}};
  vkCmdDrawMultiIndexedEXT(cb, 2, indexed, 1, 0, sizeof(indexed[0]), &offset);
  vkCmdDrawMultiIndexedEXT(cb, 2, indexed, 1, 0, sizeof(indexed[0]), nullptr);
  Replay();
  ASSERT_EQ(seen_multi.size(), 3u);
  EXPECT_EQ(seen_multi[2].firstVertex, 5u);
  EXPECT_EQ(seen_multi[2].vertexCount, 6u);
}

bool seen_write = false;
VKAPI_ATTR void VKAPI_CALL SeePush(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t set, uint32_t count,
                                   const VkWriteDescriptorSet* writes) {
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(set, 1u);
  EXPECT_EQ(writes[0].dstSet, VK_NULL_HANDLE) << "ignored, and may hold anything";
  EXPECT_EQ(writes[0].pImageInfo, nullptr) << "not of this type";
  ASSERT_NE(writes[0].pBufferInfo, nullptr);
  EXPECT_EQ(writes[0].pBufferInfo[1].range, VK_WHOLE_SIZE);
  ASSERT_NE(writes[1].pImageInfo, nullptr);
  EXPECT_EQ(writes[1].pImageInfo->sampler, VK_NULL_HANDLE) << "not of this type";
  seen_write = true;
}

TEST_F(StreamTest, PushedDescriptorsCarryWhatTheirTypeUses) {
  See("vkCmdPushDescriptorSetKHR", &SeePush);
  Open();
  Begin(cb);
  const VkDescriptorBufferInfo infos[2] = {{buffers[0], 0, 16}, {buffers[1], 0, VK_WHOLE_SIZE}};
  const VkDescriptorImageInfo picture = {vk::HandleCast<VkSampler>(0xdeaddeadbeef), view, VK_IMAGE_LAYOUT_GENERAL};
  VkWriteDescriptorSet writes[2] = {{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET},
                                    {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET}};
  writes[0].dstSet = vk::HandleCast<VkDescriptorSet>(0x123456789);
  writes[0].descriptorCount = 2;
  writes[0].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  writes[0].pBufferInfo = infos;
  writes[0].pImageInfo = vk::HandleCast<const VkDescriptorImageInfo*>(0x41414141);
  writes[1].dstBinding = 1;
  writes[1].descriptorCount = 1;
  writes[1].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_IMAGE;
  writes[1].pImageInfo = &picture;
  vkCmdPushDescriptorSetKHR(cb, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 1, 2, writes);
  Replay();
  EXPECT_TRUE(seen_write);
}

TEST_F(StreamTest, CommandsWithStructuresAreSoundToADriverThatReadsEveryByte) {
  Open();
  Begin(cb);
  const VkImageSubresourceLayers layers = {1, 0, 0, 1};
  const VkBufferCopy2 copy = {.sType = VK_STRUCTURE_TYPE_BUFFER_COPY_2, .size = 16};
  const VkCopyBufferInfo2 copy_buffer = {.sType = VK_STRUCTURE_TYPE_COPY_BUFFER_INFO_2,
                                         .srcBuffer = buffers[0],
                                         .dstBuffer = buffers[1],
                                         .regionCount = 1,
                                         .pRegions = &copy};
  vkCmdCopyBuffer2(cb, &copy_buffer);
  const VkImageCopy2 image_copy = {
      .sType = VK_STRUCTURE_TYPE_IMAGE_COPY_2, .srcSubresource = layers, .dstSubresource = layers};
  const VkCopyImageInfo2 copy_image = {.sType = VK_STRUCTURE_TYPE_COPY_IMAGE_INFO_2,
                                       .srcImage = image,
                                       .srcImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                       .dstImage = image,
                                       .dstImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                       .regionCount = 1,
                                       .pRegions = &image_copy};
  vkCmdCopyImage2(cb, &copy_image);
  const VkBufferImageCopy2 buffer_image = {.sType = VK_STRUCTURE_TYPE_BUFFER_IMAGE_COPY_2, .imageSubresource = layers};
  const VkCopyBufferToImageInfo2 to_image = {.sType = VK_STRUCTURE_TYPE_COPY_BUFFER_TO_IMAGE_INFO_2,
                                             .srcBuffer = buffers[0],
                                             .dstImage = image,
                                             .dstImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                             .regionCount = 1,
                                             .pRegions = &buffer_image};
  vkCmdCopyBufferToImage2(cb, &to_image);
  const VkCopyImageToBufferInfo2 to_buffer = {.sType = VK_STRUCTURE_TYPE_COPY_IMAGE_TO_BUFFER_INFO_2,
                                              .srcImage = image,
                                              .srcImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                              .dstBuffer = buffers[0],
                                              .regionCount = 1,
                                              .pRegions = &buffer_image};
  vkCmdCopyImageToBuffer2(cb, &to_buffer);
  const VkImageBlit2 blit = {
      .sType = VK_STRUCTURE_TYPE_IMAGE_BLIT_2, .srcSubresource = layers, .dstSubresource = layers};
  const VkBlitImageInfo2 blit_info = {.sType = VK_STRUCTURE_TYPE_BLIT_IMAGE_INFO_2,
                                      .srcImage = image,
                                      .srcImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                      .dstImage = image,
                                      .dstImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                      .regionCount = 1,
                                      .pRegions = &blit,
                                      .filter = VK_FILTER_LINEAR};
  vkCmdBlitImage2(cb, &blit_info);
  const VkImageResolve2 resolve = {
      .sType = VK_STRUCTURE_TYPE_IMAGE_RESOLVE_2, .srcSubresource = layers, .dstSubresource = layers};
  const VkResolveImageInfo2 resolve_info = {.sType = VK_STRUCTURE_TYPE_RESOLVE_IMAGE_INFO_2,
                                            .srcImage = image,
                                            .srcImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                            .dstImage = image,
                                            .dstImageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                            .regionCount = 1,
                                            .pRegions = &resolve};
  vkCmdResolveImage2(cb, &resolve_info);
  const VkBufferMemoryBarrier2 barrier = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER_2, .buffer = buffers[0], .size = 16};
  const VkDependencyInfo dependencies[2] = {
      {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .bufferMemoryBarrierCount = 1, .pBufferMemoryBarriers = &barrier},
      {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO}};
  vkCmdSetEvent2(cb, events[0], &dependencies[0]);
  vkCmdWaitEvents2(cb, 2, events, dependencies);
  const VkImageMemoryBarrier old_barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER, .image = image};
  vkCmdWaitEvents(cb, 2, events, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, nullptr, 0, nullptr,
                  1, &old_barrier);
  // Render passes, imageless and with subpasses begun the second way.
  const VkRenderPassAttachmentBeginInfo attachments = {
      .sType = VK_STRUCTURE_TYPE_RENDER_PASS_ATTACHMENT_BEGIN_INFO, .attachmentCount = 1, .pAttachments = &view};
  const VkRect2D area = {{0, 0}, {4, 4}};
  VkDeviceGroupRenderPassBeginInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_RENDER_PASS_BEGIN_INFO,
                                            .pNext = &attachments,
                                            .deviceMask = 1,
                                            .deviceRenderAreaCount = 1,
                                            .pDeviceRenderAreas = &area};
  const VkClearValue clear[2] = {};
  const VkRenderPassBeginInfo pass_begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                            .pNext = &group,
                                            .renderPass = pass,
                                            .framebuffer = framebuffer,
                                            .renderArea = area,
                                            .clearValueCount = 2,
                                            .pClearValues = clear};
  const VkSubpassBeginInfo subpass_begin = {.sType = VK_STRUCTURE_TYPE_SUBPASS_BEGIN_INFO};
  const VkSubpassEndInfo subpass_end = {.sType = VK_STRUCTURE_TYPE_SUBPASS_END_INFO};
  vkCmdBeginRenderPass2(cb, &pass_begin, &subpass_begin);
  vkCmdNextSubpass2(cb, &subpass_begin, &subpass_end);
  vkCmdEndRenderPass2(cb, &subpass_end);
  vkCmdBeginRenderPass(cb, &pass_begin, VK_SUBPASS_CONTENTS_INLINE);
  const VkRenderingAttachmentInfo color[2] = {{.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO, .imageView = view},
                                              {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO}};
  const VkRenderingInfo rendering = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                                     .renderArea = area,
                                     .layerCount = 1,
                                     .colorAttachmentCount = 2,
                                     .pColorAttachments = color,
                                     .pDepthAttachment = &color[1]};
  vkCmdBeginRendering(cb, &rendering);
  const VkConditionalRenderingBeginInfoEXT conditional = {
      .sType = VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT, .buffer = buffers[0]};
  vkCmdBeginConditionalRenderingEXT(cb, &conditional);
  const VkVertexInputBindingDescription2EXT binding = {
      .sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_BINDING_DESCRIPTION_2_EXT, .stride = 16, .divisor = 1};
  const VkVertexInputAttributeDescription2EXT attribute = {
      .sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_ATTRIBUTE_DESCRIPTION_2_EXT, .format = VK_FORMAT_R8G8B8A8_UNORM};
  vkCmdSetVertexInputEXT(cb, 1, &binding, 1, &attribute);
  Replay();
}

// ---- pieces
VKAPI_ATTR void VKAPI_CALL SeeDraw(VkCommandBuffer, uint32_t, uint32_t, uint32_t first_vertex, uint32_t) {
  EXPECT_EQ(first_vertex, seen_draws) << "in order";
  seen_draws++;
}

TEST_F(StreamTest, LongRecordingsAreReplayedWhileTheyAreRecorded) {
  See("vkCmdDraw", &SeeDraw);
  h.keep = true;
  Open();
  seen_draws = 0;
  Begin(cb);
  const float constants[64] = {};
  for (uint32_t i = 0; i < 20'000; i++) {
    if (i % 3 == 0) vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, i % 6 == 0 ? 256 : 4, constants);
    vkCmdDraw(cb, 3, 1, i, 0);
  }
  EXPECT_GT(seen_draws, 10'000u) << "before the recording has ended";
  Replay();
  EXPECT_EQ(seen_draws, 20'000u);
  const uint64_t streams = Streams();
  EXPECT_GT(streams, 4u);
  // However often it is submitted: it has crossed.
  for (int i = 0; i < 3; i++) ASSERT_EQ(d->SubmitAndWait(cb), VK_SUCCESS);
  h.Pump();
  EXPECT_EQ(Streams(), streams);
}

std::vector<uint8_t> seen_bytes;
VKAPI_ATTR void VKAPI_CALL SeeUpdate(VkCommandBuffer, VkBuffer, VkDeviceSize, VkDeviceSize size, const void* data) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  seen_bytes.insert(seen_bytes.end(), bytes, bytes + size);
}

TEST_F(StreamTest, LargePayloadsCrossWhateverTheRingsFrames) {
  See("vkCmdUpdateBuffer", &SeeUpdate);
  Open();
  seen_bytes.clear();
  Begin(cb);
  std::vector<uint8_t> bytes;
  for (uint32_t size : {4u, 4092u, 4096u, 4100u, 65536u, 8u, 65532u}) {
    std::vector<uint8_t> part(size);
    for (uint32_t i = 0; i < size; i++) part[i] = static_cast<uint8_t>(i * 31 + size);
    vkCmdUpdateBuffer(cb, buffers[0], 0, size, part.data());
    bytes.insert(bytes.end(), part.begin(), part.end());
    part.assign(size, 0);  // the program's memory is its own again
  }
  Replay();
  EXPECT_EQ(seen_bytes, bytes);
}

// ---- life
TEST_F(StreamTest, WhatIsNotRecordingTakesNoCommands) {
  Open();
  h.Pump();
  const uint64_t before = FakeCalls();
  vkCmdDraw(cb, 1, 1, 0, 0);
  const float constants[4] = {};
  vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, 16, constants);
  vkCmdEndRenderPass(cb);
  h.Pump();
  EXPECT_EQ(FakeCalls(), before);
  EXPECT_EQ(h.status(), absl::OkStatus());
}

TEST_F(StreamTest, BuffersAreRecordedAgainAndAgainInBoundedMemory) {
  Open();
  VkCommandBuffer many[40];
  for (auto& buffer : many) buffer = d->AllocateCommandBuffer();
  for (int round = 0; round < 20; round++) {
    for (auto& buffer : many) {
      Begin(buffer);
      for (int i = 0; i < 100 * round; i++) vkCmdDraw(buffer, 1, 1, 0, 0);
    }
    for (auto& buffer : many) ASSERT_EQ(vkEndCommandBuffer(buffer), VK_SUCCESS);
    if (round % 2 == 0) {
      ASSERT_EQ(vkResetCommandPool(d->device, d->pool, 0), VK_SUCCESS);
    }
  }
  h.Pump();
  ASSERT_EQ(h.status(), absl::OkStatus());
  guest::GuestCommandPool* pool = guest::State(d->pool);
  size_t recorders = 0, bytes = 0;
  for (guest::Recorder* r = pool->free_recorders; r != nullptr; r = r->next_free) {
    recorders++;
    bytes += r->capacity();
  }
  EXPECT_GE(recorders, 1u);
  EXPECT_LE(recorders, 16u);
  EXPECT_LE(bytes, size_t{16} << 20);
  vkTrimCommandPool(d->device, d->pool, 0);
  EXPECT_EQ(pool->free_recorders, nullptr);
  vkFreeCommandBuffers(d->device, d->pool, 40, many);
  Begin(cb);
  Replay();
}

TEST_F(StreamTest, ResettingWhatTakesLongIsWaitedFor) {
  h.keep = true;
  Open();
  Begin(cb);
  for (int i = 0; i < 10; i++) vkCmdDraw(cb, 1, 1, 0, 0);
  Replay();
  h.messages.clear();
  ASSERT_EQ(vkResetCommandPool(d->device, d->pool, 0), VK_SUCCESS);
  EXPECT_TRUE(h.messages.empty()) << "a small one goes with the next message";
  Begin(cb);
  for (int i = 0; i < 10'000; i++) vkCmdDraw(cb, 1, 1, 0, 0);
  Replay();
  h.messages.clear();
  ASSERT_EQ(vkResetCommandPool(d->device, d->pool, 0), VK_SUCCESS);
  EXPECT_EQ(h.messages.size(), 1u);
  ASSERT_EQ(vkResetCommandPool(d->device, d->pool, 0), VK_SUCCESS);
  EXPECT_EQ(h.messages.size(), 1u) << "nothing was recorded since";
}

TEST_F(StreamTest, BeginningAnewForgetsWhatWasNotEnded) {
  See("vkCmdDraw", &SeeDraw);
  Open();
  seen_draws = 0;
  Begin(cb);
  vkCmdDraw(cb, 1, 1, 77, 0);  // never sent
  ASSERT_EQ(vkResetCommandBuffer(cb, 0), VK_SUCCESS);
  Begin(cb);
  for (uint32_t i = 0; i < 3000; i++) vkCmdDraw(cb, 1, 1, i, 0);
  // A piece is on its way by now.
  ASSERT_EQ(vkResetCommandBuffer(cb, 0), VK_SUCCESS);
  h.Pump();
  seen_draws = 0;
  Begin(cb);
  vkCmdDraw(cb, 1, 1, 0, 0);
  Replay();
  EXPECT_EQ(seen_draws, 1u);
  ASSERT_EQ(d->SubmitAndWait(cb), VK_SUCCESS);
}

TEST_F(StreamTest, RecordingIntoALostContextIsHarmless) {
  Open();
  Begin(cb);
  vkCmdDraw(cb, 1, 1, 0, 0);
  const std::vector<uint8_t> garbage(64, 0xff);
  EXPECT_FALSE(h.ExecuteRaw(9999, 0, garbage).ok());
  vkSetEvent(d->device, events[0]);
  h.Pump();
  ASSERT_FALSE(h.status().ok());
  for (uint32_t i = 0; i < 100'000; i++) {
    vkCmdDraw(cb, 1, 1, 0, 0);
    const float value = 1;
    vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, 4, &value);
  }
  EXPECT_EQ(vkEndCommandBuffer(cb), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(vkResetCommandBuffer(cb, 0), VK_ERROR_DEVICE_LOST);
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  EXPECT_EQ(vkBeginCommandBuffer(cb, &begin), VK_ERROR_DEVICE_LOST);
  vkCmdDraw(cb, 1, 1, 0, 0);
  EXPECT_EQ(vkEndCommandBuffer(cb), VK_ERROR_DEVICE_LOST);
}

}  // namespace
}  // namespace sluice::exec
