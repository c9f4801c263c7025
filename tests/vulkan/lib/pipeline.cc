#include "tests/vulkan/lib/pipeline.h"

#include <cstring>

#include "tests/vulkan/shaders/color_frag.h"
#include "tests/vulkan/shaders/rect_frag.h"
#include "tests/vulkan/shaders/rect_vert.h"
#include "tests/vulkan/shaders/vertex_vert.h"

namespace sluice::vktest {
namespace {

bool Has(VkFormat format, VkImageAspectFlagBits aspect) {
  switch (format) {
    case VK_FORMAT_D16_UNORM:
    case VK_FORMAT_D32_SFLOAT:
    case VK_FORMAT_X8_D24_UNORM_PACK32:
      return aspect == VK_IMAGE_ASPECT_DEPTH_BIT;
    case VK_FORMAT_S8_UINT:
      return aspect == VK_IMAGE_ASPECT_STENCIL_BIT;
    case VK_FORMAT_UNDEFINED:
      return false;
    default:
      return true;
  }
}

}  // namespace

Target::Target(Gpu& the_gpu, const TargetOptions& the_options) : gpu(the_gpu), options(the_options) {
  ImageOptions image;
  image.extent = {options.width, options.height, 1};
  image.layers = options.layers;
  image.view_type = options.layers > 1 ? VK_IMAGE_VIEW_TYPE_2D_ARRAY : VK_IMAGE_VIEW_TYPE_2D;
  image.usage |= VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
  for (const VkFormat format : options.color_formats) {
    image.format = format;
    image.samples = options.samples;
    color.push_back(gpu.MakeImage(image));
    image.samples = VK_SAMPLE_COUNT_1_BIT;
    if (options.samples != VK_SAMPLE_COUNT_1_BIT) resolved.push_back(gpu.MakeImage(image));
  }
  if (options.depth_format != VK_FORMAT_UNDEFINED) {
    image.format = options.depth_format;
    image.samples = options.samples;
    image.usage =
        VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
    image.aspect = (Has(options.depth_format, VK_IMAGE_ASPECT_DEPTH_BIT) ? VK_IMAGE_ASPECT_DEPTH_BIT : 0) |
                   (has_stencil() ? VK_IMAGE_ASPECT_STENCIL_BIT : 0);
    depth = gpu.MakeImage(image);
  }
}

bool Target::has_stencil() const {
  return Has(options.depth_format, VK_IMAGE_ASPECT_STENCIL_BIT);
}

void Target::Begin(VkCommandBuffer commands, VkRenderingFlags flags) {
  if (first_) {
    for (const Image& image : color) ToGeneral(commands, image);
    for (const Image& image : resolved) ToGeneral(commands, image);
    if (depth.image != VK_NULL_HANDLE) ToGeneral(commands, depth);
    first_ = false;
  } else {
    FullBarrier(commands);
  }
  std::vector<VkRenderingAttachmentInfo> colors(color.size());
  for (size_t i = 0; i < color.size(); i++) {
    colors[i] = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
    colors[i].imageView = color[i].view;
    colors[i].imageLayout = VK_IMAGE_LAYOUT_GENERAL;
    if (!resolved.empty()) {
      colors[i].resolveMode = VK_RESOLVE_MODE_AVERAGE_BIT;
      colors[i].resolveImageView = resolved[i].view;
      colors[i].resolveImageLayout = VK_IMAGE_LAYOUT_GENERAL;
    }
    colors[i].loadOp = load;
    colors[i].storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    colors[i].clearValue.color = clear;
  }
  VkRenderingAttachmentInfo depth_info = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
  depth_info.imageView = depth.view;
  depth_info.imageLayout = VK_IMAGE_LAYOUT_GENERAL;
  depth_info.loadOp = load;
  depth_info.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
  depth_info.clearValue.depthStencil = {clear_depth, clear_stencil};
  VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO, .pNext = rendering_next};
  info.flags = flags;
  info.renderArea = area();
  info.layerCount = view_mask != 0 ? 1 : options.layers;
  info.viewMask = view_mask;
  info.colorAttachmentCount = static_cast<uint32_t>(colors.size());
  info.pColorAttachments = colors.data();
  if (Has(options.depth_format, VK_IMAGE_ASPECT_DEPTH_BIT)) info.pDepthAttachment = &depth_info;
  if (has_stencil()) info.pStencilAttachment = &depth_info;
  vkCmdBeginRendering(commands, &info);
}

void Target::End(VkCommandBuffer commands) const {
  vkCmdEndRendering(commands);
}

void Target::Render(const std::function<void(VkCommandBuffer)>& record) {
  gpu.Run([&](VkCommandBuffer commands) {
    Begin(commands);
    record(commands);
    End(commands);
  });
}

std::vector<uint8_t> Target::Pixels(uint32_t attachment, uint32_t layer) {
  return gpu.Read(resolved.empty() ? color[attachment] : resolved[attachment], 0, layer);
}

std::vector<uint8_t> Target::Depth() {
  return gpu.Read(depth, 0, 0, VK_IMAGE_ASPECT_DEPTH_BIT);
}

std::vector<uint8_t> Target::Stencil() {
  return gpu.Read(depth, 0, 0, VK_IMAGE_ASPECT_STENCIL_BIT);
}

void PushRect(VkCommandBuffer commands, VkPipelineLayout layout, const Rect& rect) {
  vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof rect, &rect);
}

void DrawRect(VkCommandBuffer commands, VkPipelineLayout layout, const Rect& rect) {
  PushRect(commands, layout, rect);
  vkCmdDraw(commands, 6, 1, 0, 0);
}

PipelineBuilder::PipelineBuilder(Gpu& the_gpu, const Target& target)
    : gpu(the_gpu),
      assembly{.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
               .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST},
      tessellation{.sType = VK_STRUCTURE_TYPE_PIPELINE_TESSELLATION_STATE_CREATE_INFO, .patchControlPoints = 3},
      viewports{target.viewport()},
      scissors{target.area()},
      rasterization{.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                    .polygonMode = VK_POLYGON_MODE_FILL,
                    .frontFace = VK_FRONT_FACE_CLOCKWISE,
                    .lineWidth = 1.0f},
      multisample{.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                  .rasterizationSamples = target.options.samples},
      depth_stencil{.sType = VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO,
                    .depthCompareOp = VK_COMPARE_OP_ALWAYS,
                    .maxDepthBounds = 1.0f},
      blend{.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO},
      rendering{.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO},
      color_formats_(target.options.color_formats) {
  VkPipelineColorBlendAttachmentState one = {};
  one.colorWriteMask = 0xf;
  one.srcColorBlendFactor = one.srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
  blends.assign(color_formats_.size(), one);
  rendering.colorAttachmentCount = static_cast<uint32_t>(color_formats_.size());
  rendering.pColorAttachmentFormats = color_formats_.data();
  if (Has(target.options.depth_format, VK_IMAGE_ASPECT_DEPTH_BIT)) {
    rendering.depthAttachmentFormat = target.options.depth_format;
  }
  if (target.has_stencil()) rendering.stencilAttachmentFormat = target.options.depth_format;
  rendering.viewMask = target.view_mask;
}

void PipelineBuilder::Stage(VkShaderStageFlagBits stage, const uint32_t* code, size_t bytes,
                            const VkSpecializationInfo* constants) {
  VkPipelineShaderStageCreateInfo stage_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  stage_info.stage = stage;
  stage_info.module = gpu.MakeShader(code, bytes);
  stage_info.pName = "main";
  stage_info.pSpecializationInfo = constants;
  stages.push_back(stage_info);
}

void PipelineBuilder::RectShaders() {
  Stage(VK_SHADER_STAGE_VERTEX_BIT, rect_vert, sizeof rect_vert);
  Stage(VK_SHADER_STAGE_FRAGMENT_BIT, rect_frag, sizeof rect_frag);
  layout = gpu.MakeLayout({}, {{VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Rect)}});
}

void PipelineBuilder::VertexShaders() {
  Stage(VK_SHADER_STAGE_VERTEX_BIT, vertex_vert, sizeof vertex_vert);
  Stage(VK_SHADER_STAGE_FRAGMENT_BIT, color_frag, sizeof color_frag);
  bindings = {{0, sizeof(Vertex), VK_VERTEX_INPUT_RATE_VERTEX}};
  attributes = {{0, 0, VK_FORMAT_R32G32B32_SFLOAT, 0}, {1, 0, VK_FORMAT_R32G32B32A32_SFLOAT, offsetof(Vertex, red)}};
  layout = gpu.MakeLayout({});
}

const VkGraphicsPipelineCreateInfo& PipelineBuilder::Info() {
  vertex_input_ = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO, .pNext = vertex_next};
  vertex_input_.vertexBindingDescriptionCount = static_cast<uint32_t>(bindings.size());
  vertex_input_.pVertexBindingDescriptions = bindings.data();
  vertex_input_.vertexAttributeDescriptionCount = static_cast<uint32_t>(attributes.size());
  vertex_input_.pVertexAttributeDescriptions = attributes.data();
  viewport_state_ = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .pNext = viewport_next};
  viewport_state_.viewportCount = static_cast<uint32_t>(viewports.size());
  viewport_state_.pViewports = viewports.data();
  viewport_state_.scissorCount = static_cast<uint32_t>(scissors.size());
  viewport_state_.pScissors = scissors.data();
  blend.attachmentCount = static_cast<uint32_t>(blends.size());
  blend.pAttachments = blends.data();
  dynamic_state_ = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO};
  dynamic_state_.dynamicStateCount = static_cast<uint32_t>(dynamic.size());
  dynamic_state_.pDynamicStates = dynamic.data();
  info_ = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO, .pNext = next};
  if (pass == VK_NULL_HANDLE) {
    rendering.pNext = next;
    info_.pNext = &rendering;
  }
  info_.flags = flags;
  info_.stageCount = static_cast<uint32_t>(stages.size());
  info_.pStages = stages.data();
  info_.pVertexInputState = &vertex_input_;
  info_.pInputAssemblyState = &assembly;
  info_.pTessellationState = &tessellation;
  info_.pViewportState = &viewport_state_;
  info_.pRasterizationState = &rasterization;
  info_.pMultisampleState = &multisample;
  info_.pDepthStencilState = &depth_stencil;
  info_.pColorBlendState = &blend;
  info_.pDynamicState = dynamic.empty() ? nullptr : &dynamic_state_;
  info_.layout = layout;
  info_.renderPass = pass;
  info_.subpass = subpass;
  info_.basePipelineIndex = -1;
  return info_;
}

VkPipeline PipelineBuilder::Build() {
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateGraphicsPipelines(gpu.device, VK_NULL_HANDLE, 1, &Info(), nullptr, &pipeline));
  gpu.Defer([&gpu = gpu, pipeline] { vkDestroyPipeline(gpu.device, pipeline, nullptr); });
  return pipeline;
}

uint32_t Texel(const std::vector<uint8_t>& pixels, uint32_t width, uint32_t x, uint32_t y) {
  uint32_t value = 0;
  memcpy(&value, pixels.data() + 4 * (size_t{y} * width + x), 4);
  return value;
}

uint32_t CountTexels(const std::vector<uint8_t>& pixels, uint32_t value) {
  uint32_t count = 0;
  for (size_t i = 0; i + 4 <= pixels.size(); i += 4) {
    uint32_t texel = 0;
    memcpy(&texel, pixels.data() + i, 4);
    count += texel == value ? 1 : 0;
  }
  return count;
}

}  // namespace sluice::vktest
