// Graphics pipelines: vertices, rasterization, depth, stencil, blending, tessellation, geometry.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/blocks_frag.h"
#include "tests/vulkan/shaders/clip_vert.h"
#include "tests/vulkan/shaders/color_frag.h"
#include "tests/vulkan/shaders/discard_frag.h"
#include "tests/vulkan/shaders/expand_geom.h"
#include "tests/vulkan/shaders/formats_vert.h"
#include "tests/vulkan/shaders/instance_vert.h"
#include "tests/vulkan/shaders/multi_frag.h"
#include "tests/vulkan/shaders/patch_tesc.h"
#include "tests/vulkan/shaders/patch_tese.h"
#include "tests/vulkan/shaders/rect_vert.h"
#include "tests/vulkan/shaders/vertex_vert.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;

const std::vector<Vertex>& Triangle() {
  static const std::vector<Vertex> vertices = {
      {-0.9f, -0.8f, 0.2f, 1, 0, 0, 1}, {0.9f, -0.7f, 0.5f, 0, 1, 0, 1}, {0.1f, 0.9f, 0.8f, 0, 0, 1, 0.5f}};
  return vertices;
}

Buffer VertexBuffer(Gpu& gpu, const std::vector<Vertex>& vertices) {
  const Buffer buffer = gpu.MakeBuffer(vertices.size() * sizeof(Vertex), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  memcpy(buffer.data, vertices.data(), buffer.size);
  return buffer;
}

void BindVertices(VkCommandBuffer commands, const Buffer& buffer, VkDeviceSize offset = 0, uint32_t binding = 0) {
  vkCmdBindVertexBuffers(commands, binding, 1, &buffer.buffer, &offset);
}

}  // namespace

VK_CASE(graphics, triangle) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  target.clear = {.float32 = {0, 0, 0, 0}};
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer vertices = VertexBuffer(gpu, Triangle());
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    BindVertices(commands, vertices);
    vkCmdDraw(commands, 3, 1, 0, 0);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(Texel(pixels, 32, 0, 31) == 0 && Texel(pixels, 32, 16, 14) != 0, "the triangle is not where it should be");
}

VK_CASE(graphics, index_types) {
  VkPhysicalDeviceIndexTypeUint8FeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_INDEX_TYPE_UINT8_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_INDEX_TYPE_UINT8_EXTENSION_NAME}, .features = &features});
  std::vector<Vertex> vertices = {{5, 5, 5, 1, 1, 1, 1}};
  vertices.insert(vertices.end(), Triangle().begin(), Triangle().end());
  const Buffer buffer = VertexBuffer(gpu, vertices);
  const Buffer indices = gpu.MakeBuffer(256, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  for (const VkIndexType type : {VK_INDEX_TYPE_UINT8_EXT, VK_INDEX_TYPE_UINT16, VK_INDEX_TYPE_UINT32}) {
    Target target(gpu);
    PipelineBuilder builder(gpu, target);
    builder.VertexShaders();
    const VkPipeline pipeline = builder.Build();
    const uint32_t width = type == VK_INDEX_TYPE_UINT8_EXT ? 1 : type == VK_INDEX_TYPE_UINT16 ? 2 : 4;
    memset(indices.data, 0, 256);
    for (uint32_t i = 0; i < 3; i++) indices.as<uint8_t>()[(i + 5) * width] = static_cast<uint8_t>(2 - i);
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, buffer);
      vkCmdBindIndexBuffer(commands, indices.buffer, 4 * width, type);
      vkCmdDrawIndexed(commands, 3, 1, 1, 1, 0);  // first index 1, vertex offset 1
    });
    const std::vector<uint8_t> pixels = target.Pixels();
    t.Bytes("picture." + std::to_string(type), pixels);
    t.Expect(CountTexels(pixels, 0xff000000) < 900, "index type %d draws nothing", type);
  }
}

VK_CASE(graphics, topologies) {
  Gpu& gpu = t.gpu();
  std::vector<Vertex> vertices;
  for (uint32_t i = 0; i < 12; i++) {
    const float x = -0.9f + 0.16f * static_cast<float>(i), y = i % 2 == 0 ? -0.6f : 0.6f;
    vertices.push_back({x, y, 0.5f, 1, 0.1f * static_cast<float>(i % 10), 0.5f, 1});
  }
  const Buffer buffer = VertexBuffer(gpu, vertices);
  for (int topology = VK_PRIMITIVE_TOPOLOGY_POINT_LIST; topology <= VK_PRIMITIVE_TOPOLOGY_TRIANGLE_FAN; topology++) {
    Target target(gpu);
    PipelineBuilder builder(gpu, target);
    builder.VertexShaders();
    builder.assembly.topology = static_cast<VkPrimitiveTopology>(topology);
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, buffer);
      vkCmdDraw(commands, 12, 1, 0, 0);
    });
    t.Bytes("topology." + std::to_string(topology), target.Pixels());
  }
}

VK_CASE(graphics, primitive_restart) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP;
  builder.assembly.primitiveRestartEnable = VK_TRUE;
  const VkPipeline pipeline = builder.Build();
  std::vector<Vertex> vertices;
  for (uint32_t i = 0; i < 8; i++) {
    vertices.push_back({-0.8f + 0.2f * static_cast<float>(i), i % 2 == 0 ? -0.7f : 0.7f, 0, 1, 1, 0, 1});
  }
  const Buffer buffer = VertexBuffer(gpu, vertices);
  const Buffer indices = gpu.MakeBuffer(64, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  const uint16_t values[] = {0, 1, 2, 0xffff, 4, 5, 6, 7};
  memcpy(indices.data, values, sizeof values);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    BindVertices(commands, buffer);
    vkCmdBindIndexBuffer(commands, indices.buffer, 0, VK_INDEX_TYPE_UINT16);
    vkCmdDrawIndexed(commands, 8, 1, 0, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(graphics, instances_and_divisor) {
  VkPhysicalDeviceVertexAttributeDivisorFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VERTEX_ATTRIBUTE_DIVISOR_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_VERTEX_ATTRIBUTE_DIVISOR_EXTENSION_NAME}, .features = &features});
  const Buffer offsets = gpu.MakeBuffer(256, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Buffer colors = gpu.MakeBuffer(256, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  for (uint32_t i = 0; i < 8; i++) {
    offsets.as<float>()[2 * i] = -0.9f + 0.22f * static_cast<float>(i);
    offsets.as<float>()[2 * i + 1] = 0.05f * static_cast<float>(i);
    colors.as<uint32_t>()[i] = 0xff000000 | (0x203040 * (i + 1));
  }
  for (const uint32_t divisor : {1u, 3u, 0u}) {
    Target target(gpu);
    PipelineBuilder builder(gpu, target);
    builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, instance_vert, sizeof instance_vert);
    builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, color_frag, sizeof color_frag);
    builder.layout = gpu.MakeLayout({});
    builder.bindings = {{0, 8, VK_VERTEX_INPUT_RATE_INSTANCE}, {5, 4, VK_VERTEX_INPUT_RATE_INSTANCE}};
    builder.attributes = {{0, 0, VK_FORMAT_R32G32_SFLOAT, 0}, {1, 5, VK_FORMAT_R8G8B8A8_UNORM, 0}};
    const VkVertexInputBindingDivisorDescriptionEXT description = {5, divisor};
    VkPipelineVertexInputDivisorStateCreateInfoEXT state = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_DIVISOR_STATE_CREATE_INFO_EXT};
    state.vertexBindingDivisorCount = 1;
    state.pVertexBindingDivisors = &description;
    builder.vertex_next = &state;
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, offsets);
      BindVertices(commands, colors, 0, 5);
      vkCmdDraw(commands, 3, 7, 0, divisor == 1 ? 1 : 0);
    });
    t.Bytes("divisor." + std::to_string(divisor), target.Pixels());
  }
}

VK_CASE(graphics, vertex_formats) {
  Gpu& gpu = t.gpu();
  constexpr VkFormat kFormats[] = {
      VK_FORMAT_R32G32B32A32_SFLOAT,      VK_FORMAT_R16G16B16A16_SFLOAT, VK_FORMAT_R16G16B16A16_UNORM,
      VK_FORMAT_R8G8B8A8_UNORM,           VK_FORMAT_R8G8B8A8_SNORM,      VK_FORMAT_B8G8R8A8_UNORM,
      VK_FORMAT_A2B10G10R10_UNORM_PACK32, VK_FORMAT_R32_SFLOAT,          VK_FORMAT_R8G8_UNORM};
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  for (const VkFormat format : kFormats) {
    Target target(gpu, {.color_formats = {VK_FORMAT_R32G32B32A32_SFLOAT}, .width = 8, .height = 8});
    PipelineBuilder builder(gpu, target);
    builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, formats_vert, sizeof formats_vert);
    builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, color_frag, sizeof color_frag);
    builder.layout = gpu.MakeLayout({});
    builder.bindings = {{0, TexelBytes(format), VK_VERTEX_INPUT_RATE_VERTEX}};
    builder.attributes = {{3, 0, format, 0}};
    const VkPipeline pipeline = builder.Build();
    Random(static_cast<uint64_t>(format)).Fill(data.data, data.size);
    if (format == VK_FORMAT_R32G32B32A32_SFLOAT || format == VK_FORMAT_R32_SFLOAT) {
      for (uint32_t i = 0; i < 64; i++) data.as<float>()[i] = 0.1f * static_cast<float>(i);
    }
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, data, 16);
      vkCmdDraw(commands, 3, 1, 0, 0);
    });
    t.Bytes("format." + std::to_string(format), target.Pixels());
  }
}

VK_CASE(graphics, culling) {
  Gpu& gpu = t.gpu();
  for (int cull = 0; cull < 4; cull++) {
    for (const VkFrontFace front : {VK_FRONT_FACE_CLOCKWISE, VK_FRONT_FACE_COUNTER_CLOCKWISE}) {
      Target target(gpu);
      PipelineBuilder builder(gpu, target);
      builder.RectShaders();
      builder.rasterization.cullMode = static_cast<VkCullModeFlags>(cull);
      builder.rasterization.frontFace = front;
      const VkPipeline pipeline = builder.Build();
      target.Render([&](VkCommandBuffer commands) {
        vkCmdBindPipeline(commands, kGraphics, pipeline);
        DrawRect(commands, builder.layout, {.x0 = -1, .y0 = -1, .x1 = 0, .y1 = 1, .red = 1});
        DrawRect(commands, builder.layout, {.x0 = 1, .y0 = -1, .x1 = 0, .y1 = 1, .green = 1});
      });
      const std::vector<uint8_t> pixels = target.Pixels();
      const uint32_t red = CountTexels(pixels, 0xff0000ff), green = CountTexels(pixels, 0xff00ff00);
      t.Value("red", red);
      t.Value("green", green);
      const uint32_t expected = cull == 3 ? 0 : cull == 0 ? 1024 : 512;
      t.Expect(red + green == expected, "cull mode %d leaves %u texels", cull, red + green);
    }
  }
}

VK_CASE(graphics, polygon_modes) {
  Gpu& gpu = t.gpu();
  const Buffer vertices = VertexBuffer(gpu, Triangle());
  for (const VkPolygonMode mode : {VK_POLYGON_MODE_FILL, VK_POLYGON_MODE_LINE, VK_POLYGON_MODE_POINT}) {
    Target target(gpu);
    PipelineBuilder builder(gpu, target);
    builder.VertexShaders();
    builder.rasterization.polygonMode = mode;
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, vertices);
      vkCmdDraw(commands, 3, 1, 0, 0);
    });
    t.Bytes("mode." + std::to_string(mode), target.Pixels());
  }
}

VK_CASE(graphics, depth_test) {
  Gpu& gpu = t.gpu();
  for (int compare = VK_COMPARE_OP_NEVER; compare <= VK_COMPARE_OP_ALWAYS; compare++) {
    Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
    target.clear_depth = 0.5f;
    PipelineBuilder builder(gpu, target);
    builder.RectShaders();
    builder.depth_stencil.depthTestEnable = VK_TRUE;
    builder.depth_stencil.depthWriteEnable = VK_TRUE;
    builder.depth_stencil.depthCompareOp = static_cast<VkCompareOp>(compare);
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x1 = -0.5f, .red = 1, .depth = 0.25f});
      DrawRect(commands, builder.layout, {.x0 = -0.25f, .x1 = 0.25f, .green = 1, .depth = 0.5f});
      DrawRect(commands, builder.layout, {.x0 = 0.5f, .blue = 1, .depth = 0.75f});
    });
    const std::vector<uint8_t> pixels = target.Pixels();
    t.Bytes("picture", pixels);
    t.Bytes("depth", target.Depth());
    t.Expect(CountTexels(pixels, 0xff0000ff) ==
                 (compare == VK_COMPARE_OP_LESS || compare == VK_COMPARE_OP_LESS_OR_EQUAL ||
                          compare == VK_COMPARE_OP_NOT_EQUAL || compare == VK_COMPARE_OP_ALWAYS
                      ? 256u
                      : 0u),
             "compare operation %d is wrong", compare);
  }
}

VK_CASE(graphics, depth_bias_and_clamp) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.depth_stencil.depthTestEnable = VK_TRUE;
  builder.depth_stencil.depthWriteEnable = VK_TRUE;
  builder.rasterization.depthBiasEnable = VK_TRUE;
  builder.rasterization.depthBiasConstantFactor = 10000.0f;
  builder.rasterization.depthBiasClamp = 0.01f;
  builder.rasterization.depthClampEnable = VK_TRUE;
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout, {.x1 = 0, .red = 1, .depth = 0.5f});
    DrawRect(commands, builder.layout, {.x0 = 0, .green = 1, .depth = 1.5f});
  });
  t.Bytes("picture", target.Pixels());
  t.Bytes("depth", target.Depth());
}

VK_CASE(graphics, stencil) {
  Gpu& gpu = t.gpu();
  for (int op = VK_STENCIL_OP_KEEP; op <= VK_STENCIL_OP_DECREMENT_AND_WRAP; op++) {
    Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT_S8_UINT});
    target.clear_stencil = 0x0f;
    PipelineBuilder builder(gpu, target);
    builder.RectShaders();
    builder.depth_stencil.stencilTestEnable = VK_TRUE;
    builder.depth_stencil.front = {VK_STENCIL_OP_ZERO,
                                   static_cast<VkStencilOp>(op),
                                   VK_STENCIL_OP_KEEP,
                                   VK_COMPARE_OP_LESS_OR_EQUAL,
                                   0xff,
                                   0x3f,
                                   0x0f};
    builder.depth_stencil.back = {
        VK_STENCIL_OP_REPLACE, VK_STENCIL_OP_INVERT, VK_STENCIL_OP_KEEP, VK_COMPARE_OP_NEVER, 0xff, 0xf0, 0x55};
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x1 = 0, .red = 1});
      DrawRect(commands, builder.layout, {.x0 = 1, .x1 = 0.5f, .green = 1});
    });
    t.Bytes("picture", target.Pixels());
    t.Bytes("stencil", target.Stencil());
  }
}

VK_CASE(graphics, blending) {
  Gpu& gpu = t.gpu();
  struct Way {
    VkBlendFactor from, to;
    VkBlendOp op;
  };
  const Way ways[] = {{VK_BLEND_FACTOR_SRC_ALPHA, VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA, VK_BLEND_OP_ADD},
                      {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_REVERSE_SUBTRACT},
                      {VK_BLEND_FACTOR_DST_COLOR, VK_BLEND_FACTOR_ZERO, VK_BLEND_OP_ADD},
                      {VK_BLEND_FACTOR_CONSTANT_COLOR, VK_BLEND_FACTOR_ONE_MINUS_CONSTANT_ALPHA, VK_BLEND_OP_ADD},
                      {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE, VK_BLEND_OP_MAX}};
  for (const Way& way : ways) {
    Target target(gpu);
    target.clear = {.float32 = {0.5f, 0.25f, 0.75f, 1.0f}};
    PipelineBuilder builder(gpu, target);
    builder.RectShaders();
    builder.blends[0] = {VK_TRUE,         way.from, way.to, way.op, VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ZERO,
                         VK_BLEND_OP_ADD, 0xf};
    const float constants[4] = {0.1f, 0.9f, 0.3f, 0.6f};
    memcpy(builder.blend.blendConstants, constants, sizeof constants);
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x1 = 0.2f, .red = 0.9f, .green = 0.6f, .blue = 0.1f, .alpha = 0.3f});
      DrawRect(commands, builder.layout, {.x0 = -0.2f, .red = 0.2f, .green = 0.3f, .blue = 0.4f, .alpha = 0.7f});
    });
    t.Bytes("picture", target.Pixels());
  }
}

VK_CASE(graphics, logic_ops_and_write_mask) {
  Gpu& gpu = t.gpu();
  for (const VkLogicOp op : {VK_LOGIC_OP_XOR, VK_LOGIC_OP_AND_INVERTED, VK_LOGIC_OP_NOR, VK_LOGIC_OP_COPY}) {
    Target target(gpu);
    target.clear = {.float32 = {0.5f, 0.25f, 0.75f, 1.0f}};
    PipelineBuilder builder(gpu, target);
    builder.RectShaders();
    builder.blend.logicOpEnable = VK_TRUE;
    builder.blend.logicOp = op;
    builder.blends[0].colorWriteMask = VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_B_BIT;
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x1 = 0, .red = 0.3f, .green = 0.7f, .blue = 0.6f});
    });
    t.Bytes("picture", target.Pixels());
  }
}

VK_CASE(graphics, multisample) {
  Gpu& gpu = t.gpu();
  const Buffer vertices = VertexBuffer(gpu, Triangle());
  for (int way = 0; way < 4; way++) {
    Target target(gpu, {.samples = VK_SAMPLE_COUNT_4_BIT});
    PipelineBuilder builder(gpu, target);
    builder.VertexShaders();
    const VkSampleMask mask = 0x5;
    if (way == 1) builder.multisample.pSampleMask = &mask;
    if (way == 2) builder.multisample.alphaToCoverageEnable = VK_TRUE;
    if (way == 3) {
      builder.multisample.sampleShadingEnable = VK_TRUE;
      builder.multisample.minSampleShading = 1.0f;
    }
    const VkPipeline pipeline = builder.Build();
    target.Render([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      BindVertices(commands, vertices);
      vkCmdDraw(commands, 3, 1, 0, 0);
    });
    t.Bytes("picture." + std::to_string(way), target.Pixels());
  }
}

VK_CASE(graphics, tessellation) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.Stage(VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT, patch_tesc, sizeof patch_tesc);
  builder.Stage(VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT, patch_tese, sizeof patch_tese);
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_PATCH_LIST;
  const VkPipeline pipeline = builder.Build();
  const Buffer vertices = VertexBuffer(gpu, Triangle());
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    BindVertices(commands, vertices);
    vkCmdDraw(commands, 3, 1, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(graphics, geometry) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  builder.Stage(VK_SHADER_STAGE_GEOMETRY_BIT, expand_geom, sizeof expand_geom);
  builder.assembly.topology = VK_PRIMITIVE_TOPOLOGY_POINT_LIST;
  const VkPipeline pipeline = builder.Build();
  const Buffer vertices = VertexBuffer(gpu, Triangle());
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    BindVertices(commands, vertices);
    vkCmdDraw(commands, 3, 1, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(graphics, viewports_and_scissors) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, clip_vert, sizeof clip_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, color_frag, sizeof color_frag);
  builder.layout = gpu.MakeLayout({});
  builder.viewports = {{0, 0, 16, 32, 0, 1}, {16, 0, 16, 16, 0, 1}, {16, 32, 16, -16, 0.5f, 1}};
  builder.scissors = {{{2, 2}, {10, 20}}, {{16, 0}, {16, 16}}, {{20, 18}, {8, 12}}};
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdDraw(commands, 3, 3, 0, 0);
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(graphics, several_attachments) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.color_formats = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R32_UINT, VK_FORMAT_R16G16B16A16_SFLOAT,
                                        VK_FORMAT_R8G8B8A8_SRGB}});
  target.clear = {.float32 = {0, 0, 0, 0}};
  PipelineBuilder builder(gpu, target);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, rect_vert, sizeof rect_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, multi_frag, sizeof multi_frag);
  builder.layout = gpu.MakeLayout({}, {{VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Rect)}});
  builder.blends[3].colorWriteMask = VK_COLOR_COMPONENT_G_BIT;
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout, {.x0 = -0.5f, .red = 0.5f, .green = 0.25f});
  });
  for (uint32_t i = 0; i < 4; i++) t.Bytes("attachment." + std::to_string(i), target.Pixels(i));
}

VK_CASE(graphics, discard_and_derivatives) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, rect_vert, sizeof rect_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, discard_frag, sizeof discard_frag);
  builder.layout = gpu.MakeLayout({}, {{VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Rect)}});
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout, {.red = 1, .green = 0.5f});
  });
  t.Bytes("picture", target.Pixels());
}

VK_CASE(graphics, fragment_stores) {
  // The fragment shader counts with an atomic; early tests on.
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr}});
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, rect_vert, sizeof rect_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, blocks_frag, sizeof blocks_frag);
  builder.layout = gpu.MakeLayout({set_layout}, {{VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Rect)}});
  const VkPipeline pipeline = builder.Build();
  const Buffer counter = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1}}), set_layout);
  VkDescriptorBufferInfo info = {counter.buffer, 0, VK_WHOLE_SIZE};
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set;
  write.descriptorCount = 1;
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = &info;
  vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdBindDescriptorSets(commands, kGraphics, builder.layout, 0, 1, &set, 0, nullptr);
    DrawRect(commands, builder.layout, {.x0 = -0.5f, .y0 = -0.5f, .x1 = 0.5f, .y1 = 0.5f, .red = 1});
  });
  t.Bytes("picture", target.Pixels());
  t.Value("fragments", counter.as<uint32_t>()[0]);
  t.Expect(counter.as<uint32_t>()[0] == 256, "%u fragments, not 256", counter.as<uint32_t>()[0]);
}

VK_CASE(graphics, pipelines_at_once) {
  // Several in one call, one deriving from another of the same call, with creation feedback.
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder first(gpu, target), second(gpu, target);
  first.RectShaders();
  second.RectShaders();
  first.flags = VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
  second.flags = VK_PIPELINE_CREATE_DERIVATIVE_BIT;
  second.blends[0].colorWriteMask = VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_A_BIT;
  VkPipelineCreationFeedback whole = {}, stages[2] = {};
  VkPipelineCreationFeedbackCreateInfo feedback = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO};
  feedback.pPipelineCreationFeedback = &whole;
  feedback.pipelineStageCreationFeedbackCount = 2;
  feedback.pPipelineStageCreationFeedbacks = stages;
  first.next = &feedback;
  VkGraphicsPipelineCreateInfo infos[2] = {first.Info(), second.Info()};
  infos[1].basePipelineIndex = 0;
  VkPipeline pipelines[2];
  VK(vkCreateGraphicsPipelines(gpu.device, VK_NULL_HANDLE, 2, infos, nullptr, pipelines));
  t.Value("feedback", whole.flags);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipelines[0]);
    DrawRect(commands, first.layout, {.x1 = 0, .red = 1, .green = 1});
    vkCmdBindPipeline(commands, kGraphics, pipelines[1]);
    DrawRect(commands, second.layout, {.x0 = 0, .red = 1, .green = 1});
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xff00ffff) == 512 && CountTexels(pixels, 0xff00ff00) == 512, "wrong colours");
  for (const VkPipeline pipeline : pipelines) vkDestroyPipeline(gpu.device, pipeline, nullptr);
}

}  // namespace sluice::vktest
