// Render passes 1 and 2, and dynamic rendering.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/input_frag.h"
#include "tests/vulkan/shaders/rect_frag.h"
#include "tests/vulkan/shaders/rect_vert.h"
#include "tests/vulkan/shaders/view_vert.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;

VkRenderPass MakePass(Gpu& gpu, const VkRenderPassCreateInfo& info) {
  VkRenderPass pass = VK_NULL_HANDLE;
  VK(vkCreateRenderPass(gpu.device, &info, nullptr, &pass));
  gpu.Defer([&gpu, pass] { vkDestroyRenderPass(gpu.device, pass, nullptr); });
  return pass;
}

VkFramebuffer MakeFramebuffer(Gpu& gpu, VkRenderPass pass, const std::vector<VkImageView>& views, uint32_t size = 32,
                              const VkFramebufferAttachmentsCreateInfo* imageless = nullptr) {
  VkFramebufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO, .pNext = imageless};
  info.flags = imageless != nullptr ? VK_FRAMEBUFFER_CREATE_IMAGELESS_BIT : 0;
  info.renderPass = pass;
  info.attachmentCount =
      imageless != nullptr ? imageless->attachmentImageInfoCount : static_cast<uint32_t>(views.size());
  info.pAttachments = imageless != nullptr ? nullptr : views.data();
  info.width = info.height = size;
  info.layers = 1;
  VkFramebuffer framebuffer = VK_NULL_HANDLE;
  VK(vkCreateFramebuffer(gpu.device, &info, nullptr, &framebuffer));
  gpu.Defer([&gpu, framebuffer] { vkDestroyFramebuffer(gpu.device, framebuffer, nullptr); });
  return framebuffer;
}

VkAttachmentDescription ColorAttachment(VkAttachmentLoadOp load, VkAttachmentStoreOp store, VkImageLayout initial) {
  return {0,
          VK_FORMAT_R8G8B8A8_UNORM,
          VK_SAMPLE_COUNT_1_BIT,
          load,
          store,
          VK_ATTACHMENT_LOAD_OP_DONT_CARE,
          VK_ATTACHMENT_STORE_OP_DONT_CARE,
          initial,
          VK_IMAGE_LAYOUT_GENERAL};
}

ImageOptions ColorImage(VkImageUsageFlags more = 0) {
  ImageOptions options;
  options.extent = {32, 32, 1};
  options.usage |= VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | more;
  return options;
}

}  // namespace

VK_CASE(renderpass, load_and_store) {
  Gpu& gpu = t.gpu();
  Target shape(gpu);
  const Image image = gpu.MakeImage(ColorImage());
  const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass = {};
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &reference;
  VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
  info.attachmentCount = 1;
  info.subpassCount = 1;
  info.pSubpasses = &subpass;
  const VkAttachmentDescription clear =
      ColorAttachment(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_UNDEFINED);
  const VkAttachmentDescription load =
      ColorAttachment(VK_ATTACHMENT_LOAD_OP_LOAD, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_GENERAL);
  info.pAttachments = &clear;
  const VkRenderPass clearing = MakePass(gpu, info);
  info.pAttachments = &load;
  const VkRenderPass loading = MakePass(gpu, info);
  const VkFramebuffer framebuffer = MakeFramebuffer(gpu, clearing, {image.view});  // compatible with both
  PipelineBuilder builder(gpu, shape);
  builder.RectShaders();
  builder.pass = clearing;
  const VkPipeline pipeline = builder.Build();
  VkExtent2D granularity;
  vkGetRenderAreaGranularity(gpu.device, clearing, &granularity);
  t.Value("granularity", granularity.width * 1000 + granularity.height);
  gpu.Run([&](VkCommandBuffer commands) {
    for (int round = 0; round < 3; round++) {
      const VkClearValue value = {.color = {.float32 = {0.1f, 0.2f, 0.3f, 1}}};
      VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
      begin.renderPass = round == 0 ? clearing : loading;
      begin.framebuffer = framebuffer;
      begin.renderArea = round == 1 ? VkRect2D{{4, 4}, {20, 20}} : VkRect2D{{0, 0}, {32, 32}};
      begin.clearValueCount = 1;
      begin.pClearValues = &value;
      vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(
          commands, builder.layout,
          {.x0 = -0.5f + 0.5f * static_cast<float>(round), .x1 = -0.4f + 0.5f * static_cast<float>(round), .red = 1});
      vkCmdEndRenderPass(commands);
      FullBarrier(commands);
    }
  });
  t.Bytes("picture", gpu.Read(image));
}

VK_CASE(renderpass, subpasses_with_input) {
  // The second subpass reads what the first one drew; by render pass 1 and 2.
  Gpu& gpu = t.gpu();
  Target shape(gpu);
  for (int version = 1; version <= 2; version++) {
    const Image first = gpu.MakeImage(ColorImage(VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT));
    const Image second = gpu.MakeImage(ColorImage());
    VkRenderPass pass = VK_NULL_HANDLE;
    if (version == 1) {
      const VkAttachmentDescription attachments[2] = {
          ColorAttachment(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_UNDEFINED),
          ColorAttachment(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_UNDEFINED)};
      const VkAttachmentReference color0 = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL},
                                  color1 = {1, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
      const VkAttachmentReference input = {0, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
      VkSubpassDescription subpasses[2] = {};
      subpasses[0].colorAttachmentCount = subpasses[1].colorAttachmentCount = 1;
      subpasses[0].pColorAttachments = &color0;
      subpasses[1].pColorAttachments = &color1;
      subpasses[1].inputAttachmentCount = 1;
      subpasses[1].pInputAttachments = &input;
      const VkSubpassDependency dependency = {0,
                                              1,
                                              VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
                                              VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT,
                                              VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
                                              VK_ACCESS_INPUT_ATTACHMENT_READ_BIT,
                                              VK_DEPENDENCY_BY_REGION_BIT};
      VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
      info.attachmentCount = 2;
      info.pAttachments = attachments;
      info.subpassCount = 2;
      info.pSubpasses = subpasses;
      info.dependencyCount = 1;
      info.pDependencies = &dependency;
      pass = MakePass(gpu, info);
    } else {
      VkAttachmentDescription2 attachments[2] = {};
      for (VkAttachmentDescription2& a : attachments) {
        a = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_DESCRIPTION_2};
        a.format = VK_FORMAT_R8G8B8A8_UNORM;
        a.samples = VK_SAMPLE_COUNT_1_BIT;
        a.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
        a.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
        a.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
        a.finalLayout = VK_IMAGE_LAYOUT_GENERAL;
      }
      VkAttachmentReference2 references[3] = {};
      for (VkAttachmentReference2& r : references) r = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_REFERENCE_2};
      references[0].layout = references[1].layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
      references[1].attachment = 1;
      references[2].layout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
      references[2].aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
      VkSubpassDescription2 subpasses[2] = {{.sType = VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_2},
                                            {.sType = VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_2}};
      subpasses[0].colorAttachmentCount = subpasses[1].colorAttachmentCount = 1;
      subpasses[0].pColorAttachments = &references[0];
      subpasses[1].pColorAttachments = &references[1];
      subpasses[1].inputAttachmentCount = 1;
      subpasses[1].pInputAttachments = &references[2];
      VkSubpassDependency2 dependency = {.sType = VK_STRUCTURE_TYPE_SUBPASS_DEPENDENCY_2};
      dependency.dstSubpass = 1;
      dependency.srcStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
      dependency.dstStageMask = VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
      dependency.srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
      dependency.dstAccessMask = VK_ACCESS_INPUT_ATTACHMENT_READ_BIT;
      dependency.dependencyFlags = VK_DEPENDENCY_BY_REGION_BIT;
      VkRenderPassCreateInfo2 info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO_2};
      info.attachmentCount = 2;
      info.pAttachments = attachments;
      info.subpassCount = 2;
      info.pSubpasses = subpasses;
      info.dependencyCount = 1;
      info.pDependencies = &dependency;
      VK(vkCreateRenderPass2(gpu.device, &info, nullptr, &pass));
      gpu.Defer([&gpu, pass] { vkDestroyRenderPass(gpu.device, pass, nullptr); });
    }
    const VkFramebuffer framebuffer = MakeFramebuffer(gpu, pass, {first.view, second.view});
    PipelineBuilder draw(gpu, shape), read(gpu, shape);
    draw.RectShaders();
    draw.pass = read.pass = pass;
    read.subpass = 1;
    const VkDescriptorSetLayout set_layout =
        gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr}});
    read.Stage(VK_SHADER_STAGE_VERTEX_BIT, rect_vert, sizeof rect_vert);
    read.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, input_frag, sizeof input_frag);
    read.layout = gpu.MakeLayout({set_layout}, {{VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Rect)}});
    const VkPipeline drawing = draw.Build(), reading = read.Build();
    const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT, 1}}), set_layout);
    const VkDescriptorImageInfo image_info = {VK_NULL_HANDLE, first.view, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.dstSet = set;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT;
    write.pImageInfo = &image_info;
    vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
    gpu.Run([&](VkCommandBuffer commands) {
      const VkClearValue values[2] = {{.color = {.float32 = {0.5f, 0, 0, 1}}}, {.color = {.float32 = {0, 0, 0, 0}}}};
      VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
      begin.renderPass = pass;
      begin.framebuffer = framebuffer;
      begin.renderArea = {{0, 0}, {32, 32}};
      begin.clearValueCount = 2;
      begin.pClearValues = values;
      VkSubpassBeginInfo sub_begin = {.sType = VK_STRUCTURE_TYPE_SUBPASS_BEGIN_INFO,
                                      .contents = VK_SUBPASS_CONTENTS_INLINE};
      VkSubpassEndInfo sub_end = {.sType = VK_STRUCTURE_TYPE_SUBPASS_END_INFO};
      if (version == 1) {
        vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
      } else {
        vkCmdBeginRenderPass2(commands, &begin, &sub_begin);
      }
      vkCmdBindPipeline(commands, kGraphics, drawing);
      DrawRect(commands, draw.layout, {.x1 = 0, .green = 1});
      if (version == 1) {
        vkCmdNextSubpass(commands, VK_SUBPASS_CONTENTS_INLINE);
      } else {
        vkCmdNextSubpass2(commands, &sub_begin, &sub_end);
      }
      vkCmdBindPipeline(commands, kGraphics, reading);
      vkCmdBindDescriptorSets(commands, kGraphics, read.layout, 0, 1, &set, 0, nullptr);
      DrawRect(commands, read.layout, {.y1 = 0.5f, .blue = 1});
      if (version == 1) {
        vkCmdEndRenderPass(commands);
      } else {
        vkCmdEndRenderPass2(commands, &sub_end);
      }
    });
    const std::vector<uint8_t> pixels = gpu.Read(second);
    t.Bytes("picture." + std::to_string(version), pixels);
    t.Expect(Texel(pixels, 32, 5, 5) == 0xffffff00, "version %d: the input is %#x", version, Texel(pixels, 32, 5, 5));
  }
}

VK_CASE(renderpass, imageless_framebuffer) {
  Gpu& gpu = t.gpu();
  Target shape(gpu);
  const Image images[2] = {gpu.MakeImage(ColorImage()), gpu.MakeImage(ColorImage())};
  const VkAttachmentDescription attachment =
      ColorAttachment(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_UNDEFINED);
  const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass = {};
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &reference;
  VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
  info.attachmentCount = info.subpassCount = 1;
  info.pAttachments = &attachment;
  info.pSubpasses = &subpass;
  const VkRenderPass pass = MakePass(gpu, info);
  const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
  VkFramebufferAttachmentImageInfo image_info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_ATTACHMENT_IMAGE_INFO};
  image_info.usage = images[0].options.usage;
  image_info.width = image_info.height = 32;
  image_info.layerCount = 1;
  image_info.viewFormatCount = 1;
  image_info.pViewFormats = &format;
  VkFramebufferAttachmentsCreateInfo attachments = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_ATTACHMENTS_CREATE_INFO};
  attachments.attachmentImageInfoCount = 1;
  attachments.pAttachmentImageInfos = &image_info;
  const VkFramebuffer framebuffer = MakeFramebuffer(gpu, pass, {}, 32, &attachments);
  PipelineBuilder builder(gpu, shape);
  builder.RectShaders();
  builder.pass = pass;
  const VkPipeline pipeline = builder.Build();
  gpu.Run([&](VkCommandBuffer commands) {
    for (int i = 0; i < 2; i++) {
      const VkClearValue value = {.color = {.float32 = {0, 0, 0.5f * static_cast<float>(i), 1}}};
      VkRenderPassAttachmentBeginInfo views = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_ATTACHMENT_BEGIN_INFO};
      views.attachmentCount = 1;
      views.pAttachments = &images[i].view;
      VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO, .pNext = &views};
      begin.renderPass = pass;
      begin.framebuffer = framebuffer;
      begin.renderArea = {{0, 0}, {32, 32}};
      begin.clearValueCount = 1;
      begin.pClearValues = &value;
      vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      DrawRect(commands, builder.layout, {.x0 = 0.5f * static_cast<float>(i), .red = 1});
      vkCmdEndRenderPass(commands);
    }
  });
  for (int i = 0; i < 2; i++) t.Bytes("picture." + std::to_string(i), gpu.Read(images[i]));
}

VK_CASE(renderpass, clear_attachments) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.color_formats = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R32_UINT},
                      .depth_format = VK_FORMAT_D32_SFLOAT_S8_UINT});
  target.clear = {.uint32 = {0, 0, 0, 0}};
  target.Render([&](VkCommandBuffer commands) {
    VkClearAttachment clears[3] = {};
    clears[0].aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    clears[0].clearValue.color = {.float32 = {1, 0.5f, 0.25f, 1}};
    clears[1].aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    clears[1].colorAttachment = 1;
    clears[1].clearValue.color = {.uint32 = {0xdeadbeef, 0, 0, 0}};
    clears[2].aspectMask = VK_IMAGE_ASPECT_DEPTH_BIT | VK_IMAGE_ASPECT_STENCIL_BIT;
    clears[2].clearValue.depthStencil = {0.125f, 0x77};
    const VkClearRect rects[2] = {{{{3, 5}, {10, 7}}, 0, 1}, {{{20, 20}, {12, 12}}, 0, 1}};
    vkCmdClearAttachments(commands, 3, clears, 2, rects);
  });
  t.Bytes("color", target.Pixels(0));
  const std::vector<uint8_t> words = target.Pixels(1);
  t.Bytes("words", words);
  t.Bytes("depth", target.Depth());
  t.Bytes("stencil", target.Stencil());
  t.Expect(CountTexels(words, 0xdeadbeef) == 70 + 144, "%u words cleared", CountTexels(words, 0xdeadbeef));
}

VK_CASE(renderpass, resolve_with_depth) {
  // Multisampled colour and depth, both resolved by render pass 2.
  Gpu& gpu = t.gpu();
  Target shape(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT, .samples = VK_SAMPLE_COUNT_4_BIT});
  ImageOptions options = ColorImage();
  options.samples = VK_SAMPLE_COUNT_4_BIT;
  const Image color = gpu.MakeImage(options);
  options.samples = VK_SAMPLE_COUNT_1_BIT;
  const Image resolved = gpu.MakeImage(options);
  options.format = VK_FORMAT_D32_SFLOAT;
  options.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
  options.aspect = VK_IMAGE_ASPECT_DEPTH_BIT;
  const Image depth_resolved = gpu.MakeImage(options);
  options.samples = VK_SAMPLE_COUNT_4_BIT;
  const Image depth = gpu.MakeImage(options);
  VkAttachmentDescription2 attachments[4] = {};
  VkAttachmentReference2 references[4] = {};
  for (uint32_t i = 0; i < 4; i++) {
    attachments[i] = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_DESCRIPTION_2};
    attachments[i].format = i < 2 ? VK_FORMAT_R8G8B8A8_UNORM : VK_FORMAT_D32_SFLOAT;
    attachments[i].samples = i % 2 == 0 ? VK_SAMPLE_COUNT_4_BIT : VK_SAMPLE_COUNT_1_BIT;
    attachments[i].loadOp = i % 2 == 0 ? VK_ATTACHMENT_LOAD_OP_CLEAR : VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    attachments[i].stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    attachments[i].stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    attachments[i].finalLayout = VK_IMAGE_LAYOUT_GENERAL;
    references[i] = {.sType = VK_STRUCTURE_TYPE_ATTACHMENT_REFERENCE_2};
    references[i].attachment = i;
    references[i].layout = VK_IMAGE_LAYOUT_GENERAL;
    references[i].aspectMask = i < 2 ? VK_IMAGE_ASPECT_COLOR_BIT : VK_IMAGE_ASPECT_DEPTH_BIT;
  }
  VkSubpassDescriptionDepthStencilResolve resolve = {.sType =
                                                         VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_DEPTH_STENCIL_RESOLVE};
  resolve.depthResolveMode = VK_RESOLVE_MODE_SAMPLE_ZERO_BIT;
  resolve.pDepthStencilResolveAttachment = &references[3];
  VkSubpassDescription2 subpass = {.sType = VK_STRUCTURE_TYPE_SUBPASS_DESCRIPTION_2, .pNext = &resolve};
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &references[0];
  subpass.pResolveAttachments = &references[1];
  subpass.pDepthStencilAttachment = &references[2];
  VkRenderPassCreateInfo2 info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO_2};
  info.attachmentCount = 4;
  info.pAttachments = attachments;
  info.subpassCount = 1;
  info.pSubpasses = &subpass;
  VkRenderPass pass = VK_NULL_HANDLE;
  VK(vkCreateRenderPass2(gpu.device, &info, nullptr, &pass));
  gpu.Defer([&gpu, pass] { vkDestroyRenderPass(gpu.device, pass, nullptr); });
  const VkFramebuffer framebuffer =
      MakeFramebuffer(gpu, pass, {color.view, resolved.view, depth.view, depth_resolved.view});
  PipelineBuilder builder(gpu, shape);
  builder.RectShaders();
  builder.pass = pass;
  builder.depth_stencil.depthTestEnable = builder.depth_stencil.depthWriteEnable = VK_TRUE;
  const VkPipeline pipeline = builder.Build();
  gpu.Run([&](VkCommandBuffer commands) {
    VkClearValue values[4] = {};
    values[2].depthStencil = {1.0f, 0};
    VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
    begin.renderPass = pass;
    begin.framebuffer = framebuffer;
    begin.renderArea = {{0, 0}, {32, 32}};
    begin.clearValueCount = 4;
    begin.pClearValues = values;
    vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout,
             {.x0 = -0.53f, .y0 = -0.71f, .x1 = 0.66f, .y1 = 0.37f, .red = 1, .depth = 0.25f});
    vkCmdEndRenderPass(commands);
  });
  t.Bytes("color", gpu.Read(resolved));
  t.Bytes("depth", gpu.Read(depth_resolved));
}

VK_CASE(renderpass, multiview) {
  // No right values here: lavapipe of Mesa 22.3 draws all views into the first layer.
  Gpu& gpu = t.gpu();
  if (!gpu.features11.multiview) t.Skip("no multiview");
  ImageOptions options = ColorImage();
  options.layers = 2;
  options.view_type = VK_IMAGE_VIEW_TYPE_2D_ARRAY;
  const Image image = gpu.MakeImage(options);
  const VkAttachmentDescription attachment =
      ColorAttachment(VK_ATTACHMENT_LOAD_OP_CLEAR, VK_ATTACHMENT_STORE_OP_STORE, VK_IMAGE_LAYOUT_UNDEFINED);
  const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass = {};
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &reference;
  const uint32_t views = 3;
  VkRenderPassMultiviewCreateInfo multiview = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO};
  multiview.subpassCount = 1;
  multiview.pViewMasks = &views;
  VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO, .pNext = &multiview};
  info.attachmentCount = info.subpassCount = 1;
  info.pAttachments = &attachment;
  info.pSubpasses = &subpass;
  const VkRenderPass pass = MakePass(gpu, info);
  const VkFramebuffer framebuffer = MakeFramebuffer(gpu, pass, {image.view});
  Target shape(gpu);
  PipelineBuilder builder(gpu, shape);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, view_vert, sizeof view_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, rect_frag, sizeof rect_frag);
  builder.layout = gpu.MakeLayout({});
  builder.pass = pass;
  const VkPipeline pipeline = builder.Build();
  gpu.Run([&](VkCommandBuffer commands) {
    const VkClearValue value = {};
    VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
    begin.renderPass = pass;
    begin.framebuffer = framebuffer;
    begin.renderArea = {{0, 0}, {32, 32}};
    begin.clearValueCount = 1;
    begin.pClearValues = &value;
    vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdDraw(commands, 3, 1, 0, 0);
    vkCmdEndRenderPass(commands);
  });
  t.Bytes("left", gpu.Read(image, 0, 0));
  t.Bytes("right", gpu.Read(image, 0, 1));
}

VK_CASE(renderpass, multiview_dynamic) {
  Gpu& gpu = t.gpu();
  if (!gpu.features11.multiview) t.Skip("no multiview");
  Target target(gpu, {.layers = 2});
  target.view_mask = 3;
  PipelineBuilder builder(gpu, target);
  builder.Stage(VK_SHADER_STAGE_VERTEX_BIT, view_vert, sizeof view_vert);
  builder.Stage(VK_SHADER_STAGE_FRAGMENT_BIT, rect_frag, sizeof rect_frag);
  builder.layout = gpu.MakeLayout({});
  const VkPipeline pipeline = builder.Build();
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdDraw(commands, 3, 1, 0, 0);
  });
  t.Bytes("left", target.Pixels(0, 0));
  t.Bytes("right", target.Pixels(0, 1));
}

VK_CASE(renderpass, dynamic_suspend_and_resume) {
  // One rendering over two command buffers of one submission.
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  target.Render([](VkCommandBuffer) {});
  VkCommandBuffer commands[2] = {gpu.MakeCommands(), gpu.MakeCommands()};
  for (int i = 0; i < 2; i++) {
    gpu.Begin(commands[i]);
    VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
    color.imageView = target.color[0].view;
    color.imageLayout = VK_IMAGE_LAYOUT_GENERAL;
    color.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    color.clearValue.color = {.float32 = {0, 0, 1, 1}};
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO};
    info.flags = i == 0 ? VK_RENDERING_SUSPENDING_BIT : VK_RENDERING_RESUMING_BIT;
    info.renderArea = target.area();
    info.layerCount = 1;
    info.colorAttachmentCount = 1;
    info.pColorAttachments = &color;
    vkCmdBeginRendering(commands[i], &info);
    vkCmdBindPipeline(commands[i], kGraphics, pipeline);
    DrawRect(commands[i], builder.layout, {.x0 = i == 0 ? -1.0f : 0.5f, .x1 = i == 0 ? -0.5f : 1.0f, .red = 1});
    vkCmdEndRendering(commands[i]);
    VK(vkEndCommandBuffer(commands[i]));
  }
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 2;
  submit.pCommandBuffers = commands;
  VK(vkQueueSubmit(gpu.queue, 1, &submit, VK_NULL_HANDLE));
  VK(vkQueueWaitIdle(gpu.queue));
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xff0000ff) == 512, "%u red texels, not 512", CountTexels(pixels, 0xff0000ff));
}

VK_CASE(renderpass, many_passes) {
  // 200 render passes in one command buffer, over two targets in turn.
  Gpu& gpu = t.gpu();
  Target a(gpu), b(gpu);
  PipelineBuilder builder(gpu, a);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  gpu.Run([&](VkCommandBuffer commands) {
    for (uint32_t i = 0; i < 200; i++) {
      Target& target = i % 2 == 0 ? a : b;
      if (i >= 2) target.load = VK_ATTACHMENT_LOAD_OP_LOAD;
      target.Begin(commands);
      vkCmdBindPipeline(commands, kGraphics, pipeline);
      const float x = -1.0f + 0.01f * static_cast<float>(i);
      DrawRect(commands, builder.layout, {.x0 = x, .x1 = x + 0.01f, .red = 0.005f * static_cast<float>(i), .green = 1});
      target.End(commands);
    }
  });
  t.Bytes("a", a.Pixels());
  t.Bytes("b", b.Pixels());
}

}  // namespace sluice::vktest
