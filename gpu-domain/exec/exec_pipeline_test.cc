// Graphics pipelines across the wire, on the driver of this machine: state that does not count and may be garbage,
// pipeline libraries, shader code in chains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"
#include "gpu-domain/exec/testing/triangle_frag.h"
#include "gpu-domain/exec/testing/triangle_vert.h"

namespace sluice::exec {
namespace {

using testing::GuestDevice;
using testing::Harness;

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Harness::HaveDriver()) GTEST_SKIP() << "no Vulkan driver";
    h = std::make_unique<Harness>();
    d = std::make_unique<GuestDevice>();
    ASSERT_TRUE(d->ok) << h->status();
    const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    ASSERT_EQ(vkCreatePipelineLayout(d->device, &layout_info, nullptr, &layout), VK_SUCCESS);
  }
  void TearDown() override {
    if (d == nullptr) return;
    vkDestroyPipelineLayout(d->device, layout, nullptr);
    d->Destroy();
    h->Pump();
    EXPECT_EQ(h->status(), absl::OkStatus());
    EXPECT_EQ(h->context().objects(), 0u);
    EXPECT_EQ(h->channel().ids().live(), 0u);
  }
  VkResult Create(const VkGraphicsPipelineCreateInfo& info, VkPipeline* pipeline) {
    return vkCreateGraphicsPipelines(d->device, VK_NULL_HANDLE, 1, &info, nullptr, pipeline);
  }
  void Destroy(VkPipeline pipeline) { vkDestroyPipeline(d->device, pipeline, nullptr); }

  std::unique_ptr<Harness> h;
  std::unique_ptr<GuestDevice> d;
  VkPipelineLayout layout = VK_NULL_HANDLE;

  // Never dereferenced, if all is right.
  const void* const garbage = vk::HandleCast<VkBuffer>(0x10);
  const VkShaderModuleCreateInfo vertex = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof(triangle_vert), .pCode = triangle_vert};
  const VkShaderModuleCreateInfo fragment = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof(triangle_frag), .pCode = triangle_frag};
  const std::array<VkPipelineShaderStageCreateInfo, 2> stages{{
      {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
       .pNext = &vertex,
       .stage = VK_SHADER_STAGE_VERTEX_BIT,
       .pName = "main"},
      {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
       .pNext = &fragment,
       .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
       .pName = "main"},
  }};
  const VkPipelineVertexInputStateCreateInfo input = {.sType =
                                                          VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  const VkPipelineInputAssemblyStateCreateInfo assembly = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
      .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
  const VkPipelineViewportStateCreateInfo viewport = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
                                                      .viewportCount = 1,
                                                      .pViewports = static_cast<const VkViewport*>(garbage),
                                                      .scissorCount = 1,
                                                      .pScissors = static_cast<const VkRect2D*>(garbage)};
  VkPipelineRasterizationStateCreateInfo rasterization = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
  const VkPipelineMultisampleStateCreateInfo multisample = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO, .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  const VkPipelineColorBlendAttachmentState attachment = {.colorWriteMask = 0xf};
  const VkPipelineColorBlendStateCreateInfo blend = {.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                                     .logicOp = static_cast<VkLogicOp>(0x7f7f7f7f),
                                                     .attachmentCount = 1,
                                                     .pAttachments = &attachment};
  const std::array<VkDynamicState, 2> states{VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  const VkPipelineDynamicStateCreateInfo dynamic = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                    .dynamicStateCount = 2,
                                                    .pDynamicStates = states.data()};
  const VkPipelineDepthStencilStateCreateInfo depth = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO};
  const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
};

TEST_F(PipelineTest, StateThatDoesNotCountMayBeGarbage) {
  VkPipelineCreationFeedback feedback = {.flags = 0x55};
  const VkPipelineCreationFeedbackCreateInfo feedback_info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO, .pPipelineCreationFeedback = &feedback};
  VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                             .pNext = &feedback_info,
                                             .colorAttachmentCount = 1,
                                             .pColorAttachmentFormats = &format};
  VkGraphicsPipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
      .pNext = &rendering,
      .stageCount = 2,
      .pStages = stages.data(),
      .pVertexInputState = &input,
      .pInputAssemblyState = &assembly,
      .pTessellationState = static_cast<const VkPipelineTessellationStateCreateInfo*>(garbage),
      .pViewportState = &viewport,
      .pRasterizationState = &rasterization,
      .pMultisampleState = &multisample,
      .pDepthStencilState = static_cast<const VkPipelineDepthStencilStateCreateInfo*>(garbage),
      .pColorBlendState = &blend,
      .pDynamicState = &dynamic,
      .layout = layout,
      .basePipelineHandle = vk::HandleCast<VkPipeline>(0x123456)};
  VkPipeline pipeline = VK_NULL_HANDLE;
  ASSERT_EQ(Create(info, &pipeline), VK_SUCCESS) << h->status();
  EXPECT_EQ(feedback.flags & ~VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT, 0u) << "written";
  Destroy(pipeline);
  // Without rasterization nothing behind it counts.
  rasterization.rasterizerDiscardEnable = VK_TRUE;
  info.stageCount = 1;
  info.pViewportState = static_cast<const VkPipelineViewportStateCreateInfo*>(garbage);
  info.pMultisampleState = static_cast<const VkPipelineMultisampleStateCreateInfo*>(garbage);
  info.pDepthStencilState = static_cast<const VkPipelineDepthStencilStateCreateInfo*>(garbage);
  info.pColorBlendState = static_cast<const VkPipelineColorBlendStateCreateInfo*>(garbage);
  EXPECT_EQ(Create(info, &pipeline), VK_SUCCESS) << h->status();
  Destroy(pipeline);
}

TEST_F(PipelineTest, LibrariesAreMadeInPartsAndLinked) {
  VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                             .colorAttachmentCount = 1,
                                             .pColorAttachmentFormats = &format};
  // What a part does not describe is garbage in its structure.
  VkPipelineRenderingCreateInfo no_formats = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                              .colorAttachmentCount = 7,
                                              .pColorAttachmentFormats = static_cast<const VkFormat*>(garbage),
                                              .depthAttachmentFormat = static_cast<VkFormat>(0x7fff0000)};
  auto part = [&](VkGraphicsPipelineLibraryFlagsEXT flags) {
    VkGraphicsPipelineCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO;
    info.flags = VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    info.stageCount = 3;
    info.pStages = static_cast<const VkPipelineShaderStageCreateInfo*>(garbage);
    info.pVertexInputState = static_cast<const VkPipelineVertexInputStateCreateInfo*>(garbage);
    info.pInputAssemblyState = static_cast<const VkPipelineInputAssemblyStateCreateInfo*>(garbage);
    info.pTessellationState = static_cast<const VkPipelineTessellationStateCreateInfo*>(garbage);
    info.pViewportState = static_cast<const VkPipelineViewportStateCreateInfo*>(garbage);
    info.pRasterizationState = static_cast<const VkPipelineRasterizationStateCreateInfo*>(garbage);
    info.pMultisampleState = static_cast<const VkPipelineMultisampleStateCreateInfo*>(garbage);
    info.pDepthStencilState = static_cast<const VkPipelineDepthStencilStateCreateInfo*>(garbage);
    info.pColorBlendState = static_cast<const VkPipelineColorBlendStateCreateInfo*>(garbage);
    info.pDynamicState = &dynamic;
    if ((flags & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT) != 0) {
      info.pVertexInputState = &input;
      info.pInputAssemblyState = &assembly;
    }
    if ((flags & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT) != 0) {
      info.stageCount = 1;
      info.pStages = &stages[0];
      info.pViewportState = &viewport;
      info.pRasterizationState = &rasterization;
      info.layout = layout;
    }
    if ((flags & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT) != 0) {
      info.stageCount = 1;
      info.pStages = &stages[1];
      info.pMultisampleState = &multisample;
      info.pDepthStencilState = &depth;
      info.layout = layout;
    }
    if ((flags & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT) != 0) {
      info.pMultisampleState = &multisample;
      info.pColorBlendState = &blend;
    }
    return info;
  };
  std::array<VkPipeline, 4> parts = {};
  for (uint32_t i = 0; i < parts.size(); i++) {
    const VkGraphicsPipelineLibraryFlagsEXT flag = 1u << i;
    const bool output = flag == VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
    const VkGraphicsPipelineLibraryCreateInfoEXT library = {
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
        .pNext = output ? &rendering : &no_formats,
        .flags = flag};
    VkGraphicsPipelineCreateInfo info = part(flag);
    info.pNext = &library;
    ASSERT_EQ(Create(info, &parts[i]), VK_SUCCESS) << i << ": " << h->status();
  }
  const VkPipelineLibraryCreateInfoKHR link = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR, .libraryCount = 4, .pLibraries = parts.data()};
  VkGraphicsPipelineCreateInfo whole = part(0);
  whole.flags = 0;
  whole.pNext = &link;
  whole.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  EXPECT_EQ(Create(whole, &pipeline), VK_SUCCESS) << h->status();
  Destroy(pipeline);
  for (const VkPipeline p : parts) Destroy(p);
}

}  // namespace
}  // namespace sluice::exec
