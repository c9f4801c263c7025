// State that commands set instead of the pipeline: Vulkan 1.0, extended dynamic state 1 to 3, vertex input.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/patch_tesc.h"
#include "tests/vulkan/shaders/patch_tese.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;

}  // namespace

VK_CASE(dynamic, viewport_and_scissor) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.dynamic = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    for (int i = 0; i < 4; i++) {
      const VkViewport viewport = {8.0f * static_cast<float>(i), 4.0f * static_cast<float>(i), 8, 16, 0, 1};
      const VkRect2D scissor = {{8 * i + 1, 6}, {6, 9}};
      vkCmdSetViewport(commands, 0, 1, &viewport);
      vkCmdSetScissor(commands, 0, 1, &scissor);
      DrawRect(commands, builder.layout, {.red = 0.25f * static_cast<float>(i + 1), .blue = 1});
    }
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(dynamic, blend_constants_and_stencil) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT_S8_UINT});
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.blends[0].blendEnable = VK_TRUE;
  builder.blends[0].srcColorBlendFactor = VK_BLEND_FACTOR_CONSTANT_COLOR;
  builder.depth_stencil.stencilTestEnable = VK_TRUE;
  builder.depth_stencil.front = {
      VK_STENCIL_OP_REPLACE, VK_STENCIL_OP_REPLACE, VK_STENCIL_OP_KEEP, VK_COMPARE_OP_NOT_EQUAL, 0, 0, 0};
  builder.depth_stencil.back = builder.depth_stencil.front;
  builder.dynamic = {VK_DYNAMIC_STATE_BLEND_CONSTANTS, VK_DYNAMIC_STATE_STENCIL_COMPARE_MASK,
                     VK_DYNAMIC_STATE_STENCIL_WRITE_MASK, VK_DYNAMIC_STATE_STENCIL_REFERENCE};
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdSetStencilCompareMask(commands, VK_STENCIL_FACE_FRONT_AND_BACK, 0xff);
    for (uint32_t i = 0; i < 4; i++) {
      const float constants[4] = {0.2f * static_cast<float>(i + 1), 0.5f, 1.0f, 1.0f};
      vkCmdSetBlendConstants(commands, constants);
      vkCmdSetStencilWriteMask(commands, VK_STENCIL_FACE_FRONT_AND_BACK, 0xf0 | i);
      vkCmdSetStencilReference(commands, VK_STENCIL_FACE_FRONT_BIT, 0x31 + i);
      vkCmdSetStencilReference(commands, VK_STENCIL_FACE_BACK_BIT, 0x31 + i);
      DrawRect(commands, builder.layout,
               {.x0 = -0.8f + 0.3f * static_cast<float>(i), .red = 1, .green = 1, .blue = 0.5f});
    }
  });
  t.Bytes("picture", target.Pixels());
  t.Bytes("stencil", target.Stencil());
}

VK_CASE(dynamic, depth_bias_line_width_bounds) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.depth_stencil.depthTestEnable = builder.depth_stencil.depthWriteEnable = VK_TRUE;
  builder.rasterization.depthBiasEnable = VK_TRUE;
  builder.dynamic = {VK_DYNAMIC_STATE_DEPTH_BIAS, VK_DYNAMIC_STATE_LINE_WIDTH};
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdSetLineWidth(commands, 1.0f);
    vkCmdSetDepthBias(commands, 1000.0f, 0.0f, 0.0f);
    DrawRect(commands, builder.layout, {.x1 = 0, .red = 1, .depth = 0.25f});
    vkCmdSetDepthBias(commands, 200000.0f, 0.001f, 0.0f);
    DrawRect(commands, builder.layout, {.x0 = 0, .red = 1, .depth = 0.25f});
  });
  t.Bytes("depth", target.Depth());
}

VK_CASE(dynamic, extended_1) {
  // All of VK_EXT_extended_dynamic_state, which Vulkan 1.3 has.
  Gpu& gpu = t.gpu();
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT_S8_UINT});
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.viewports.clear();
  builder.scissors.clear();
  builder.dynamic = {VK_DYNAMIC_STATE_CULL_MODE,
                     VK_DYNAMIC_STATE_FRONT_FACE,
                     VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY,
                     VK_DYNAMIC_STATE_VIEWPORT_WITH_COUNT,
                     VK_DYNAMIC_STATE_SCISSOR_WITH_COUNT,
                     VK_DYNAMIC_STATE_DEPTH_TEST_ENABLE,
                     VK_DYNAMIC_STATE_DEPTH_WRITE_ENABLE,
                     VK_DYNAMIC_STATE_DEPTH_COMPARE_OP,
                     VK_DYNAMIC_STATE_DEPTH_BOUNDS_TEST_ENABLE,
                     VK_DYNAMIC_STATE_STENCIL_TEST_ENABLE,
                     VK_DYNAMIC_STATE_STENCIL_OP};
  builder.depth_stencil.front = {
      VK_STENCIL_OP_KEEP, VK_STENCIL_OP_KEEP, VK_STENCIL_OP_KEEP, VK_COMPARE_OP_ALWAYS, 0xff, 0xff, 0x42};
  builder.depth_stencil.back = builder.depth_stencil.front;
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkViewport viewport = target.viewport();
    const VkRect2D area = target.area();
    vkCmdSetViewportWithCount(commands, 1, &viewport);
    vkCmdSetScissorWithCount(commands, 1, &area);
    vkCmdSetCullMode(commands, VK_CULL_MODE_NONE);
    vkCmdSetFrontFace(commands, VK_FRONT_FACE_CLOCKWISE);
    vkCmdSetPrimitiveTopology(commands, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST);
    vkCmdSetDepthTestEnable(commands, VK_TRUE);
    vkCmdSetDepthWriteEnable(commands, VK_TRUE);
    vkCmdSetDepthCompareOp(commands, VK_COMPARE_OP_LESS);
    vkCmdSetDepthBoundsTestEnable(commands, VK_FALSE);
    vkCmdSetStencilTestEnable(commands, VK_FALSE);
    vkCmdSetStencilOp(commands, VK_STENCIL_FACE_FRONT_AND_BACK, VK_STENCIL_OP_KEEP, VK_STENCIL_OP_KEEP,
                      VK_STENCIL_OP_KEEP, VK_COMPARE_OP_ALWAYS);
    DrawRect(commands, builder.layout, {.x1 = 0, .red = 1, .depth = 0.5f});
    vkCmdSetDepthWriteEnable(commands, VK_FALSE);
    DrawRect(commands, builder.layout, {.x0 = -0.5f, .x1 = 0.5f, .green = 1, .depth = 0.75f});
    vkCmdSetDepthCompareOp(commands, VK_COMPARE_OP_GREATER);
    vkCmdSetStencilTestEnable(commands, VK_TRUE);
    vkCmdSetStencilOp(commands, VK_STENCIL_FACE_FRONT_AND_BACK, VK_STENCIL_OP_INVERT, VK_STENCIL_OP_REPLACE,
                      VK_STENCIL_OP_INVERT, VK_COMPARE_OP_ALWAYS);
    DrawRect(commands, builder.layout, {.y0 = 0.5f, .x1 = -0.75f, .blue = 1, .depth = 0.75f});
    vkCmdSetDepthTestEnable(commands, VK_FALSE);
    vkCmdSetCullMode(commands, VK_CULL_MODE_FRONT_BIT);
    DrawRect(commands, builder.layout, {.x0 = 0.5f, .red = 1, .green = 1});  // culled
    vkCmdSetFrontFace(commands, VK_FRONT_FACE_COUNTER_CLOCKWISE);
    DrawRect(commands, builder.layout, {.x0 = 0.75f, .red = 1, .green = 1});
    vkCmdSetPrimitiveTopology(commands, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP);
    PushRect(commands, builder.layout,
             {.x0 = 0.25f, .y0 = -0.9f, .x1 = 0.5f, .y1 = -0.5f, .red = 1, .blue = 1, .strip = 1});
    vkCmdSetCullMode(commands, VK_CULL_MODE_NONE);
    vkCmdDraw(commands, 4, 1, 0, 0);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Bytes("depth", target.Depth());
  t.Bytes("stencil", target.Stencil());
  t.Expect(Texel(pixels, 32, 30, 5) == 0xff00ffff, "the last column is %#x", Texel(pixels, 32, 30, 5));
}

VK_CASE(dynamic, extended_1_vertex_buffers) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.dynamic = {VK_DYNAMIC_STATE_VERTEX_INPUT_BINDING_STRIDE};
  const VkPipeline pipeline = builder.Build();
  // Vertices 48 bytes apart, and a size.
  const Buffer buffer = gpu.MakeBuffer(512, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Vertex vertices[3] = {{-1, -1, 0, 1, 0, 0, 1}, {1, -1, 0, 0, 1, 0, 1}, {0, 1, 0, 0, 0, 1, 1}};
  for (size_t i = 0; i < 3; i++) memcpy(buffer.as<uint8_t>() + 64 + 48 * i, &vertices[i], sizeof(Vertex));
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkDeviceSize offset = 64, size = 48 * 3, stride = 48;
    vkCmdBindVertexBuffers2(commands, 0, 1, &buffer.buffer, &offset, &size, &stride);
    vkCmdDraw(commands, 3, 1, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(dynamic, extended_2) {
  VkPhysicalDeviceExtendedDynamicState2FeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_2_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_EXTENDED_DYNAMIC_STATE_2_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdSetLogicOpEXT);
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.depth_stencil.depthTestEnable = builder.depth_stencil.depthWriteEnable = VK_TRUE;
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP;
  builder.rasterization.depthBiasConstantFactor = 500000.0f;
  builder.blend.logicOpEnable = VK_TRUE;
  builder.dynamic = {VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE, VK_DYNAMIC_STATE_DEPTH_BIAS_ENABLE,
                     VK_DYNAMIC_STATE_PRIMITIVE_RESTART_ENABLE};
  const bool logic = features.extendedDynamicState2LogicOp != VK_FALSE;
  t.Value("logic", logic ? 1 : 0);
  if (logic) builder.dynamic.push_back(VK_DYNAMIC_STATE_LOGIC_OP_EXT);
  const VkPipeline pipeline = builder.Build();
  const Buffer indices = gpu.MakeBuffer(64, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  const uint16_t values[] = {0, 1, 2, 0xffff, 1, 2, 3};
  memcpy(indices.data, values, sizeof values);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdBindIndexBuffer(commands, indices.buffer, 0, VK_INDEX_TYPE_UINT16);
    vkCmdSetPrimitiveRestartEnable(commands, VK_TRUE);
    vkCmdSetRasterizerDiscardEnable(commands, VK_TRUE);
    vkCmdSetDepthBiasEnable(commands, VK_FALSE);
    if (logic) vkCmdSetLogicOpEXT(commands, VK_LOGIC_OP_COPY);
    PushRect(commands, builder.layout, {.red = 1, .strip = 1});
    vkCmdDrawIndexed(commands, 7, 1, 0, 0, 0);  // discarded
    vkCmdSetRasterizerDiscardEnable(commands, VK_FALSE);
    PushRect(commands, builder.layout, {.x1 = 0, .green = 1, .depth = 0.25f, .strip = 1});
    vkCmdDrawIndexed(commands, 7, 1, 0, 0, 0);
    vkCmdSetDepthBiasEnable(commands, VK_TRUE);
    vkCmdSetPrimitiveRestartEnable(commands, VK_FALSE);
    if (logic) vkCmdSetLogicOpEXT(commands, VK_LOGIC_OP_XOR);
    PushRect(commands, builder.layout, {.x0 = -0.5f, .green = 0.75f, .blue = 1, .depth = 0.25f, .strip = 1});
    vkCmdDrawIndexed(commands, 3, 1, 0, 0, 0);
    vkCmdDrawIndexed(commands, 3, 1, 4, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
  t.Bytes("depth", target.Depth());
}

VK_CASE(dynamic, extended_2_patch_points) {
  VkPhysicalDeviceExtendedDynamicState2FeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_2_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_EXTENDED_DYNAMIC_STATE_2_EXTENSION_NAME}, .features = &features});
  if (!features.extendedDynamicState2PatchControlPoints) t.Skip("no dynamic number of patch control points");
  DEVICE_FUNCTION(gpu, vkCmdSetPatchControlPointsEXT);
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.Stage(VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT, patch_tesc, sizeof patch_tesc);
  builder.Stage(VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT, patch_tese, sizeof patch_tese);
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_PATCH_LIST;
  builder.dynamic = {VK_DYNAMIC_STATE_PATCH_CONTROL_POINTS_EXT};
  const VkPipeline pipeline = builder.Build();
  const Buffer buffer = gpu.MakeBuffer(8 * sizeof(Vertex), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  for (uint32_t i = 0; i < 8; i++) {
    const float x = -0.9f + 0.25f * static_cast<float>(i);
    buffer.as<Vertex>()[i] = {x, i % 2 == 0 ? -0.7f : 0.7f, 0, 1, 0.1f * static_cast<float>(i), 0.5f, 1};
  }
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkDeviceSize offset = 0;
    vkCmdBindVertexBuffers(commands, 0, 1, &buffer.buffer, &offset);
    vkCmdSetPatchControlPointsEXT(commands, 4);  // the fourth point of each patch is not used
    vkCmdDraw(commands, 8, 1, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(dynamic, extended_3) {
  VkPhysicalDeviceExtendedDynamicState3FeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_3_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_EXTENDED_DYNAMIC_STATE_3_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdSetPolygonModeEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetColorBlendEnableEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetColorBlendEquationEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetColorWriteMaskEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetLogicOpEnableEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetDepthClampEnableEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetRasterizationSamplesEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetSampleMaskEXT);
  DEVICE_FUNCTION(gpu, vkCmdSetAlphaToCoverageEnableEXT);
  if (!features.extendedDynamicState3ColorBlendEnable || !features.extendedDynamicState3ColorBlendEquation ||
      !features.extendedDynamicState3ColorWriteMask || !features.extendedDynamicState3PolygonMode ||
      !features.extendedDynamicState3LogicOpEnable || !features.extendedDynamicState3DepthClampEnable ||
      !features.extendedDynamicState3RasterizationSamples || !features.extendedDynamicState3SampleMask ||
      !features.extendedDynamicState3AlphaToCoverageEnable) {
    t.Skip("not all of extended dynamic state 3 that the case sets");
  }
  Target target(gpu, {.color_formats = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_UNORM},
                      .depth_format = VK_FORMAT_D32_SFLOAT});
  target.clear = {.float32 = {0.25f, 0.25f, 0.25f, 1}};
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.depth_stencil.depthTestEnable = builder.depth_stencil.depthWriteEnable = VK_TRUE;
  builder.dynamic = {VK_DYNAMIC_STATE_POLYGON_MODE_EXT,
                     VK_DYNAMIC_STATE_COLOR_BLEND_ENABLE_EXT,
                     VK_DYNAMIC_STATE_COLOR_BLEND_EQUATION_EXT,
                     VK_DYNAMIC_STATE_COLOR_WRITE_MASK_EXT,
                     VK_DYNAMIC_STATE_LOGIC_OP_ENABLE_EXT,
                     VK_DYNAMIC_STATE_DEPTH_CLAMP_ENABLE_EXT,
                     VK_DYNAMIC_STATE_RASTERIZATION_SAMPLES_EXT,
                     VK_DYNAMIC_STATE_SAMPLE_MASK_EXT,
                     VK_DYNAMIC_STATE_ALPHA_TO_COVERAGE_ENABLE_EXT};
  const VkPipeline pipeline = builder.Build();
  const VkBool32 on[2] = {VK_TRUE, VK_TRUE}, off[2] = {VK_FALSE, VK_FALSE};
  const VkColorBlendEquationEXT equations[2] = {{VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_ADD,
                                                 VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ZERO, VK_BLEND_OP_ADD},
                                                {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_SUBTRACT,
                                                 VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ZERO, VK_BLEND_OP_ADD}};
  const VkColorComponentFlags all[2] = {0xf, 0xf}, some[2] = {0x9, 0xa};
  const VkSampleMask mask = 1;
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdSetPolygonModeEXT(commands, VK_POLYGON_MODE_FILL);
    vkCmdSetColorBlendEnableEXT(commands, 0, 2, off);
    vkCmdSetColorBlendEquationEXT(commands, 0, 2, equations);
    vkCmdSetColorWriteMaskEXT(commands, 0, 2, all);
    vkCmdSetLogicOpEnableEXT(commands, VK_FALSE);
    vkCmdSetDepthClampEnableEXT(commands, VK_FALSE);
    vkCmdSetRasterizationSamplesEXT(commands, VK_SAMPLE_COUNT_1_BIT);
    vkCmdSetSampleMaskEXT(commands, VK_SAMPLE_COUNT_1_BIT, &mask);
    vkCmdSetAlphaToCoverageEnableEXT(commands, VK_FALSE);
    DrawRect(commands, builder.layout, {.x1 = -0.5f, .red = 0.5f});
    vkCmdSetColorBlendEnableEXT(commands, 0, 2, on);
    DrawRect(commands, builder.layout, {.x0 = -0.75f, .x1 = 0, .red = 0.5f, .green = 0.5f});
    vkCmdSetColorWriteMaskEXT(commands, 0, 2, some);
    DrawRect(commands, builder.layout, {.x0 = -0.25f, .x1 = 0.25f, .red = 0.75f, .green = 0.75f, .blue = 0.75f});
    vkCmdSetDepthClampEnableEXT(commands, VK_TRUE);
    DrawRect(commands, builder.layout, {.x0 = 0.25f, .x1 = 0.5f, .red = 1, .depth = 2.0f});
    vkCmdSetPolygonModeEXT(commands, VK_POLYGON_MODE_LINE);
    vkCmdSetColorWriteMaskEXT(commands, 0, 2, all);
    DrawRect(commands, builder.layout, {.x0 = 0.5f, .y0 = -0.9f, .x1 = 0.9f, .y1 = 0.9f, .green = 1});
  });
  t.Bytes("picture", target.Pixels());  // the shader writes the first target only: what the second gets is undefined
  t.Bytes("depth", target.Depth());
}

VK_CASE(dynamic, vertex_input) {
  VkPhysicalDeviceVertexInputDynamicStateFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VERTEX_INPUT_DYNAMIC_STATE_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_VERTEX_INPUT_DYNAMIC_STATE_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdSetVertexInputEXT);
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.bindings.clear();
  builder.attributes.clear();
  builder.dynamic = {VK_DYNAMIC_STATE_VERTEX_INPUT_EXT};
  const VkPipeline pipeline = builder.Build();
  const Buffer positions = gpu.MakeBuffer(256, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Buffer colors = gpu.MakeBuffer(256, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const float points[6][3] = {{-1, -1, 0}, {0, -1, 0}, {-1, 1, 0}, {0, -1, 0}, {1, -1, 0}, {1, 1, 0}};
  memcpy(positions.data, points, sizeof points);
  for (uint32_t i = 0; i < 6; i++) colors.as<uint32_t>()[i] = 0xff000000 | 0x3f << (4 * i);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkBuffer buffers[2] = {positions.buffer, colors.buffer};
    const VkDeviceSize offsets[2] = {0, 0};
    vkCmdBindVertexBuffers(commands, 0, 2, buffers, offsets);
    VkVertexInputBindingDescription2EXT bindings[2] = {
        {.sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_BINDING_DESCRIPTION_2_EXT},
        {.sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_BINDING_DESCRIPTION_2_EXT}};
    bindings[0].stride = 12;
    bindings[0].divisor = 1;
    bindings[1].binding = 1;
    bindings[1].stride = 4;
    bindings[1].divisor = 1;
    VkVertexInputAttributeDescription2EXT attributes[2] = {
        {.sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_ATTRIBUTE_DESCRIPTION_2_EXT},
        {.sType = VK_STRUCTURE_TYPE_VERTEX_INPUT_ATTRIBUTE_DESCRIPTION_2_EXT}};
    attributes[0].format = VK_FORMAT_R32G32B32_SFLOAT;
    attributes[1].location = 1;
    attributes[1].binding = 1;
    attributes[1].format = VK_FORMAT_R8G8B8A8_UNORM;
    vkCmdSetVertexInputEXT(commands, 2, bindings, 2, attributes);
    vkCmdDraw(commands, 3, 1, 0, 0);
    // One colour for the whole second triangle.
    bindings[1].inputRate = VK_VERTEX_INPUT_RATE_INSTANCE;
    vkCmdSetVertexInputEXT(commands, 2, bindings, 2, attributes);
    vkCmdDraw(commands, 3, 1, 3, 2);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(dynamic, color_write_enable) {
  VkPhysicalDeviceColorWriteEnableFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COLOR_WRITE_ENABLE_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_COLOR_WRITE_ENABLE_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdSetColorWriteEnableEXT);
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.dynamic = {VK_DYNAMIC_STATE_COLOR_WRITE_ENABLE_EXT};
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkBool32 off = VK_FALSE, on = VK_TRUE;
    vkCmdSetColorWriteEnableEXT(commands, 1, &on);
    DrawRect(commands, builder.layout, {.x1 = 0, .red = 1});
    vkCmdSetColorWriteEnableEXT(commands, 1, &off);
    DrawRect(commands, builder.layout, {.x0 = -0.5f, .green = 1});
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xff00ff00) == 0, "a masked colour was written");
}

VK_CASE(dynamic, line_stipple) {
  VkPhysicalDeviceLineRasterizationFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_LINE_RASTERIZATION_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_LINE_RASTERIZATION_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdSetLineStippleEXT);
  if (!features.stippledBresenhamLines) t.Skip("no stippled Bresenham lines");
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_LINE_LIST;
  builder.dynamic = {VK_DYNAMIC_STATE_LINE_STIPPLE_EXT};
  VkPipelineRasterizationLineStateCreateInfoEXT line = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_LINE_STATE_CREATE_INFO_EXT};
  line.lineRasterizationMode = VK_LINE_RASTERIZATION_MODE_BRESENHAM_EXT;
  line.stippledLineEnable = VK_TRUE;
  builder.rasterization.pNext = &line;
  const VkPipeline pipeline = builder.Build();
  const Buffer buffer = gpu.MakeBuffer(4 * sizeof(Vertex), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Vertex vertices[4] = {
      {-1, -0.5f, 0, 1, 1, 1, 1}, {1, -0.5f, 0, 1, 1, 1, 1}, {-0.8f, 0.9f, 0, 1, 1, 0, 1}, {0.9f, 0.1f, 0, 1, 1, 0, 1}};
  memcpy(buffer.data, vertices, sizeof vertices);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkDeviceSize offset = 0;
    vkCmdBindVertexBuffers(commands, 0, 1, &buffer.buffer, &offset);
    vkCmdSetLineStippleEXT(commands, 2, 0x5555);
    vkCmdDraw(commands, 2, 1, 0, 0);
    vkCmdSetLineStippleEXT(commands, 1, 0x0f33);
    vkCmdDraw(commands, 2, 1, 2, 0);
  });
  t.Bytes("picture", target.Pixels());
}

}  // namespace sluice::vktest
