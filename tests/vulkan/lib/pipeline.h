// File: pipeline.h
//
// Graphics pipelines and render targets for the cases. A builder starts as the plainest pipeline there is (a triangle
// list, no blending, depth test off, one sample, viewport of the target) and the case changes what it is about.
//
//   Target target(gpu, {.color_formats = {VK_FORMAT_R8G8B8A8_UNORM}});
//   PipelineBuilder builder(gpu, target);
//   builder.RectShaders();
//   builder.rasterization.cullMode = VK_CULL_MODE_BACK_BIT;
//   const VkPipeline pipeline = builder.Build();
//   target.Render([&](VkCommandBuffer commands) {
//     vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
//     DrawRect(commands, builder.layout, {.x0 = -0.5f, .red = 1});
//   });
//   t.Bytes("picture", target.Pixels());
#ifndef SLUICE_TESTS_VULKAN_LIB_PIPELINE_H_
#define SLUICE_TESTS_VULKAN_LIB_PIPELINE_H_

#include <functional>
#include <vector>

#include "tests/vulkan/lib/gpu.h"

namespace sluice::vktest {

struct TargetOptions {
  std::vector<VkFormat> color_formats = {VK_FORMAT_R8G8B8A8_UNORM};
  VkFormat depth_format = VK_FORMAT_UNDEFINED;
  uint32_t width = 32, height = 32;
  uint32_t layers = 1;
  VkSampleCountFlagBits samples = VK_SAMPLE_COUNT_1_BIT;
};

// Colour attachments and perhaps a depth (and stencil) attachment, all in GENERAL, drawn to by dynamic rendering. With
// several samples each colour attachment has a single-sampled image beside it, which rendering resolves into.
class Target {
 public:
  explicit Target(Gpu& gpu, const TargetOptions& options = {});
  // One submission: clears (colour to `clear`, depth to `clear_depth`, stencil to `clear_stencil`), runs `record`
  // inside rendering, resolves.
  void Render(const std::function<void(VkCommandBuffer)>& record);
  // The parts of Render, for cases that record themselves.
  void Begin(VkCommandBuffer commands, VkRenderingFlags flags = 0);
  void End(VkCommandBuffer commands) const;
  std::vector<uint8_t> Pixels(uint32_t attachment = 0, uint32_t layer = 0);
  std::vector<uint8_t> Depth();
  std::vector<uint8_t> Stencil();
  bool has_stencil() const;
  VkExtent2D extent() const { return {options.width, options.height}; }
  VkRect2D area() const { return {{0, 0}, extent()}; }
  VkViewport viewport() const {
    return {0, 0, static_cast<float>(options.width), static_cast<float>(options.height), 0, 1};
  }

  Gpu& gpu;
  const TargetOptions options;
  std::vector<Image> color;
  std::vector<Image> resolved;  // as many as color with several samples, else none
  Image depth;
  VkClearColorValue clear = {.float32 = {0, 0, 0, 1}};
  float clear_depth = 1.0f;
  uint32_t clear_stencil = 0;
  uint32_t view_mask = 0;
  const void* rendering_next = nullptr;
  VkAttachmentLoadOp load = VK_ATTACHMENT_LOAD_OP_CLEAR;

 private:
  bool first_ = true;
};

// What shaders/rect.vert and shaders/rect.frag take as push constants: a rectangle of two triangles in one colour, in
// normalized device coordinates. vkCmdDraw of 6 vertices (list) or 4 (strip, with `strip` = 1).
struct Rect {
  float x0 = -1, y0 = -1, x1 = 1, y1 = 1;
  float red = 0, green = 0, blue = 0, alpha = 1;
  float depth = 0.5f;
  uint32_t strip = 0;
  float instance_step = 0;  // each further instance lies so much to the right
  float padding = 0;
};
void PushRect(VkCommandBuffer commands, VkPipelineLayout layout, const Rect& rect);
// Pushes, and draws the 6 vertices.
void DrawRect(VkCommandBuffer commands, VkPipelineLayout layout, const Rect& rect);

// Attributes of shaders/vertex.vert: location 0 and 1.
struct Vertex {
  float x, y, z;
  float red, green, blue, alpha;
};

class PipelineBuilder {
 public:
  PipelineBuilder(Gpu& gpu, const Target& target);
  PipelineBuilder(const PipelineBuilder&) = delete;
  PipelineBuilder& operator=(const PipelineBuilder&) = delete;

  void Stage(VkShaderStageFlagBits stage, const uint32_t* code, size_t bytes,
             const VkSpecializationInfo* constants = nullptr);
  // shaders/rect.*, with the layout for their constants.
  void RectShaders();
  // shaders/vertex.vert and color.frag, with `Vertex` in binding 0 and an empty layout.
  void VertexShaders();
  VkPipeline Build();
  // Only the create info, with all pointers set; valid while the builder is, until a member changes.
  const VkGraphicsPipelineCreateInfo& Info();

  Gpu& gpu;
  std::vector<VkPipelineShaderStageCreateInfo> stages;
  std::vector<VkVertexInputBindingDescription> bindings;
  std::vector<VkVertexInputAttributeDescription> attributes;
  const void* vertex_next = nullptr;
  VkPipelineInputAssemblyStateCreateInfo assembly;
  VkPipelineTessellationStateCreateInfo tessellation;
  std::vector<VkViewport> viewports;
  std::vector<VkRect2D> scissors;
  const void* viewport_next = nullptr;
  VkPipelineRasterizationStateCreateInfo rasterization;
  VkPipelineMultisampleStateCreateInfo multisample;
  VkPipelineDepthStencilStateCreateInfo depth_stencil;
  std::vector<VkPipelineColorBlendAttachmentState> blends;
  VkPipelineColorBlendStateCreateInfo blend;
  std::vector<VkDynamicState> dynamic;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkRenderPass pass = VK_NULL_HANDLE;  // null: dynamic rendering with the target's formats
  uint32_t subpass = 0;
  VkPipelineRenderingCreateInfo rendering;
  const void* next = nullptr;
  VkPipelineCreateFlags flags = 0;

 private:
  std::vector<VkFormat> color_formats_;
  VkPipelineVertexInputStateCreateInfo vertex_input_;
  VkPipelineViewportStateCreateInfo viewport_state_;
  VkPipelineDynamicStateCreateInfo dynamic_state_;
  VkGraphicsPipelineCreateInfo info_;
};

// The texel of a tightly packed picture of 4-byte texels, as 0xAABBGGRR (R first in memory).
uint32_t Texel(const std::vector<uint8_t>& pixels, uint32_t width, uint32_t x, uint32_t y);
// How many 4-byte texels have this value.
uint32_t CountTexels(const std::vector<uint8_t>& pixels, uint32_t value);

}  // namespace sluice::vktest

#endif  // SLUICE_TESTS_VULKAN_LIB_PIPELINE_H_
