// Extensions of drawing: transform feedback, conditional rendering, provoking vertices, border colours, depth clip.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/add_comp.h"
#include "tests/vulkan/shaders/border_comp.h"
#include "tests/vulkan/shaders/capture_vert.h"
#include "tests/vulkan/shaders/color_frag.h"
#include "tests/vulkan/shaders/flat_frag.h"
#include "tests/vulkan/shaders/flat_vert.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;

}  // namespace

VK_CASE(feedback, capture) {
  VkPhysicalDeviceTransformFeedbackFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_TRANSFORM_FEEDBACK_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdBindTransformFeedbackBuffersEXT);
  DEVICE_FUNCTION(gpu, vkCmdBeginTransformFeedbackEXT);
  DEVICE_FUNCTION(gpu, vkCmdEndTransformFeedbackEXT);
  DEVICE_FUNCTION(gpu, vkCmdBeginQueryIndexedEXT);
  DEVICE_FUNCTION(gpu, vkCmdEndQueryIndexedEXT);
  DEVICE_FUNCTION(gpu, vkCmdDrawIndirectByteCountEXT);
  Target target(gpu), drawn(gpu);
  PipelineBuilder builder(gpu, target);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, capture_vert, sizeof capture_vert);
  builder.layout = gpu.MakeLayout({});
  builder.rasterization.rasterizerDiscardEnable = VK_TRUE;
  const VkPipeline capture = builder.Build();
  PipelineBuilder draw(gpu, drawn);
  draw.VertexShaders();
  const VkPipeline drawing = draw.Build();
  const Buffer out =
      gpu.MakeBuffer(4096, VK_BUFFER_USAGE_TRANSFORM_FEEDBACK_BUFFER_BIT_EXT | VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Buffer counter = gpu.MakeBuffer(
      64, VK_BUFFER_USAGE_TRANSFORM_FEEDBACK_COUNTER_BUFFER_BIT_EXT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT);
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_TRANSFORM_FEEDBACK_STREAM_EXT, 1);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, queries, 0, 1);
    for (int part = 0; part < 2; part++) {
      target.load = part == 0 ? VK_ATTACHMENT_LOAD_OP_CLEAR : VK_ATTACHMENT_LOAD_OP_LOAD;
      target.Begin(commands);
      vkCmdBindPipeline(commands, kGraphics, capture);
      const VkDeviceSize offset = 0, size = 2048;
      const VkDeviceSize counter_offset = 16;
      vkCmdBindTransformFeedbackBuffersEXT(commands, 0, 1, &out.buffer, &offset, &size);
      if (part == 0) vkCmdBeginQueryIndexedEXT(commands, queries, 0, 0, 0);
      // The second part goes on where the first one stopped.
      vkCmdBeginTransformFeedbackEXT(commands, 0, part == 0 ? 0 : 1, &counter.buffer, &counter_offset);
      vkCmdDraw(commands, 3, part == 0 ? 2 : 1, 0, part == 0 ? 0 : 2);
      vkCmdEndTransformFeedbackEXT(commands, 0, 1, &counter.buffer, &counter_offset);
      if (part == 0) vkCmdEndQueryIndexedEXT(commands, queries, 0, 0);
      target.End(commands);
      FullBarrier(commands);
    }
    drawn.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, drawing);
    const VkDeviceSize zero = 0;
    vkCmdBindVertexBuffers(commands, 0, 1, &out.buffer, &zero);
    if (features.transformFeedback != VK_FALSE)
      vkCmdDrawIndirectByteCountEXT(commands, 1, 0, counter.buffer, 16, 0, sizeof(Vertex));
    drawn.End(commands);
  });
  uint64_t results[2] = {};
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 1, 16, results, 16,
                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
  t.Bytes("query", results, 16);
  t.Bytes("captured", out.data, 1024);
  t.Value("counter", counter.as<uint32_t>()[4]);
  t.Bytes("drawn", drawn.Pixels());
  t.Expect(counter.as<uint32_t>()[4] == 9 * sizeof(Vertex), "the counter is %u", counter.as<uint32_t>()[4]);
  t.Expect(results[0] == 2, "%llu primitives written", static_cast<unsigned long long>(results[0]));
}

VK_CASE(feedback, primitives_generated) {
  VkPhysicalDevicePrimitivesGeneratedQueryFeaturesEXT generated = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PRIMITIVES_GENERATED_QUERY_FEATURES_EXT};
  VkPhysicalDeviceTransformFeedbackFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT, .pNext = &generated};
  Gpu& gpu =
      t.gpu({.extensions = {VK_EXT_TRANSFORM_FEEDBACK_EXTENSION_NAME, VK_EXT_PRIMITIVES_GENERATED_QUERY_EXTENSION_NAME},
             .features = &features});
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_PRIMITIVES_GENERATED_EXT, 1);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, queries, 0, 1);
    vkCmdBeginQuery(commands, queries, 0, 0);
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    for (int i = 0; i < 7; i++) DrawRect(commands, builder.layout, {.red = 1});
    target.End(commands);
    vkCmdEndQuery(commands, queries, 0);
  });
  uint64_t result = 0;
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 1, 8, &result, 8,
                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
  t.Value("primitives", result);
}

VK_CASE(conditional, draws_and_dispatches) {
  VkPhysicalDeviceConditionalRenderingFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdBeginConditionalRenderingEXT);
  DEVICE_FUNCTION(gpu, vkCmdEndConditionalRenderingEXT);
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer condition =
      gpu.MakeBuffer(64, VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {1, 64};
  condition.as<uint32_t>()[0] = 0;
  condition.as<uint32_t>()[1] = 7;
  gpu.Run([&](VkCommandBuffer commands) {
    VkConditionalRenderingBeginInfoEXT begin = {.sType = VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT};
    begin.buffer = condition.buffer;
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    for (uint32_t i = 0; i < 4; i++) {
      begin.offset = 4 * (i % 2);
      begin.flags = i < 2 ? 0 : VK_CONDITIONAL_RENDERING_INVERTED_BIT_EXT;
      vkCmdBeginConditionalRenderingEXT(commands, &begin);
      const float x = -1.0f + 0.5f * static_cast<float>(i);
      DrawRect(commands, builder.layout, {.x0 = x, .x1 = x + 0.5f, .red = 1});
      vkCmdEndConditionalRenderingEXT(commands);
    }
    target.End(commands);
    for (uint32_t i = 0; i < 2; i++) {
      begin.offset = 4 * i;
      begin.flags = 0;
      vkCmdBeginConditionalRenderingEXT(commands, &begin);
      job.Bind(commands, constants);
      vkCmdDispatch(commands, 1, 1, 1);
      vkCmdEndConditionalRenderingEXT(commands);
    }
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Value("word", data.as<uint32_t>()[0]);
  t.Expect(CountTexels(pixels, 0xff0000ff) == 512, "%u texels drawn", CountTexels(pixels, 0xff0000ff));
}

VK_CASE(extensions, provoking_vertex) {
  VkPhysicalDeviceProvokingVertexFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROVOKING_VERTEX_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_PROVOKING_VERTEX_EXTENSION_NAME}, .features = &features});
  for (const VkProvokingVertexModeEXT mode :
       {VK_PROVOKING_VERTEX_MODE_FIRST_VERTEX_EXT, VK_PROVOKING_VERTEX_MODE_LAST_VERTEX_EXT}) {
    Target target(gpu);
    PipelineBuilder builder(gpu, target);
    builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, flat_vert, sizeof flat_vert);
    builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, flat_frag, sizeof flat_frag);
    builder.layout = gpu.MakeLayout({});
    VkPipelineRasterizationProvokingVertexStateCreateInfoEXT state = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_PROVOKING_VERTEX_STATE_CREATE_INFO_EXT};
    state.provokingVertexMode = mode;
    builder.rasterization.pNext = &state;
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      vkCmdDraw(commands, 3, 1, 0, 0);
    });
    const std::vector<uint8_t> pixels = target.Pixels();
    t.Bytes("picture", pixels);
    t.Expect(Texel(pixels, 32, 5, 5) == (mode == VK_PROVOKING_VERTEX_MODE_FIRST_VERTEX_EXT ? 0xff0000ff : 0xffff0000),
             "the colour is %#x", Texel(pixels, 32, 5, 5));
  }
}

VK_CASE(extensions, custom_border_color) {
  VkPhysicalDeviceCustomBorderColorFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_CUSTOM_BORDER_COLOR_EXTENSION_NAME}, .features = &features});
  VkSamplerCustomBorderColorCreateInfoEXT border = {.sType =
                                                        VK_STRUCTURE_TYPE_SAMPLER_CUSTOM_BORDER_COLOR_CREATE_INFO_EXT};
  border.customBorderColor = {.float32 = {0.25f, 0.5f, 0.75f, 1.0f}};
  border.format = VK_FORMAT_R8G8B8A8_UNORM;
  VkSamplerReductionModeCreateInfo reduction = {.sType = VK_STRUCTURE_TYPE_SAMPLER_REDUCTION_MODE_CREATE_INFO,
                                                .pNext = &border};
  reduction.reductionMode = VK_SAMPLER_REDUCTION_MODE_WEIGHTED_AVERAGE;
  VkSamplerCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO, .pNext = &reduction};
  info.addressModeU = info.addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER;
  info.borderColor = VK_BORDER_COLOR_FLOAT_CUSTOM_EXT;
  const VkSampler sampler = gpu.MakeSampler(info);
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr},
                         {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(border_comp, sizeof border_comp), layout);
  ImageOptions options;
  options.extent = {4, 4, 1};
  options.usage |= VK_IMAGE_USAGE_SAMPLED_BIT;
  const Image image = gpu.MakeImage(options);
  const std::vector<uint8_t> data(64, 0xff);
  gpu.Write(image, data.data(), data.size());
  const Buffer out = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const VkDescriptorSet set = gpu.MakeSet(
      gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1}, {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1}}),
      set_layout);
  WriteImage(gpu, set, 0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, image.view, sampler);
  WriteBuffer(gpu, set, 1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, out.buffer);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 128);
  t.Expect(out.as<float>()[1] == 0.5f, "the border is %f", static_cast<double>(out.as<float>()[1]));
}

VK_CASE(extensions, depth_clip) {
  VkPhysicalDeviceDepthClipEnableFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DEPTH_CLIP_ENABLE_FEATURES_EXT};
  VkPhysicalDeviceDepthClipControlFeaturesEXT control = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DEPTH_CLIP_CONTROL_FEATURES_EXT, .pNext = &features};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_DEPTH_CLIP_ENABLE_EXTENSION_NAME, VK_EXT_DEPTH_CLIP_CONTROL_EXTENSION_NAME},
                    .features = &control});
  for (int way = 0; way < 3; way++) {
    Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
    PipelineBuilder builder(gpu, target);
    builder.RectShaders();
    builder.depth_stencil.depthTestEnable = builder.depth_stencil.depthWriteEnable = VK_TRUE;
    VkPipelineRasterizationDepthClipStateCreateInfoEXT clip = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_DEPTH_CLIP_STATE_CREATE_INFO_EXT};
    clip.depthClipEnable = way == 0 ? VK_TRUE : VK_FALSE;
    builder.rasterization.pNext = &clip;
    VkPipelineViewportDepthClipControlCreateInfoEXT negative = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_DEPTH_CLIP_CONTROL_CREATE_INFO_EXT};
    negative.negativeOneToOne = VK_TRUE;
    if (way == 2) builder.viewport_next = &negative;
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x1 = -0.5f, .red = 1, .depth = -0.5f});
      DrawRect(commands, builder.layout, {.x0 = -0.5f, .x1 = 0, .red = 1, .depth = 0.25f});
      DrawRect(commands, builder.layout, {.x0 = 0.5f, .red = 1, .depth = 1.5f});
    });
    t.Bytes("picture", target.Pixels());
    t.Bytes("depth", target.Depth());
  }
}

}  // namespace sluice::vktest
