#include "tests/scenes/triangle_scene.h"

#include "tests/scenes/triangle_frag.h"
#include "tests/scenes/triangle_vert.h"

namespace sluice::scenes {
namespace {

constexpr VkFormat kFormat = VK_FORMAT_R8G8B8A8_UNORM;
// 1/16, 1/8, 3/16: exact in binary.
constexpr VkClearValue kGround = {.color = {.float32 = {0.0625f, 0.125f, 0.1875f, 1.0f}}};

// sin(6 degrees * k) * 2^30, rounded, for the first quarter of the turn.
constexpr int32_t kSines[16] = {0,          112236583,  223243478,  331804471, 436730145, 536870912,
                                631129609,  718473518,  797945680,  868675383, 929887697, 980911966,
                                1021189159, 1050277989, 1067859754, 1073741824};

int32_t Sine(uint32_t k) {
  k %= kTriangleTurnFrames;
  if (k <= 15) return kSines[k];
  if (k <= 30) return kSines[30 - k];
  if (k <= 45) return -kSines[k - 30];
  return -kSines[60 - k];
}

// The nearest float of an integer, times a power of two: both exact by IEEE 754.
float Fraction(int32_t value) {
  return static_cast<float>(value) * (1.0f / (1 << 30));
}

bool Near(uint8_t value, int expected, int tolerance) {
  return value >= expected - tolerance && value <= expected + tolerance;
}

}  // namespace

Turn TurnOfFrame(uint32_t frame) {
  return {Fraction(Sine(frame % kTriangleTurnFrames + kTriangleTurnFrames / 4)), Fraction(Sine(frame))};
}

SceneStatus TriangleScene::Create(SceneDevice* device, uint32_t size) {
  device_ = device;
  size_ = size;
  SceneStatus status = CreateImage();
  if (status.ok()) status = CreatePass();
  if (status.ok()) status = CreatePipeline();
  if (status.ok()) status = readback_.Create(device, bytes(), VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  if (status.ok()) status = commands_.Create(device);
  return status;
}

void TriangleScene::Destroy() {
  commands_.Destroy();
  readback_.Destroy();
  if (device_ == nullptr || device_->device() == VK_NULL_HANDLE) return;
  const VkDevice device = device_->device();
  vkDestroyPipeline(device, pipeline_, nullptr);
  vkDestroyPipelineLayout(device, layout_, nullptr);
  vkDestroyFramebuffer(device, framebuffer_, nullptr);
  vkDestroyRenderPass(device, pass_, nullptr);
  vkDestroyImageView(device, view_, nullptr);
  vkDestroyImage(device, image_, nullptr);
  vkFreeMemory(device, image_memory_, nullptr);
  device_ = nullptr;
}

SceneStatus TriangleScene::CreateImage() {
  const VkDevice device = device_->device();
  VkImageCreateInfo image = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  image.imageType = VK_IMAGE_TYPE_2D;
  image.format = kFormat;
  image.extent = {size_, size_, 1};
  image.mipLevels = 1;
  image.arrayLayers = 1;
  image.samples = VK_SAMPLE_COUNT_1_BIT;
  image.tiling = VK_IMAGE_TILING_OPTIMAL;
  image.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
  image.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  image.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  VkResult result = vkCreateImage(device, &image, nullptr, &image_);
  if (result != VK_SUCCESS) return {"vkCreateImage", result};

  VkMemoryRequirements requirements;
  vkGetImageMemoryRequirements(device, image_, &requirements);
  VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = device_->MemoryType(requirements.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  if (allocate.memoryTypeIndex == UINT32_MAX) return {"no device-local memory type", VK_ERROR_OUT_OF_DEVICE_MEMORY};
  result = vkAllocateMemory(device, &allocate, nullptr, &image_memory_);
  if (result != VK_SUCCESS) return {"vkAllocateMemory (image)", result};
  result = vkBindImageMemory(device, image_, image_memory_, 0);
  if (result != VK_SUCCESS) return {"vkBindImageMemory", result};

  VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
  view.image = image_;
  view.viewType = VK_IMAGE_VIEW_TYPE_2D;
  view.format = kFormat;
  view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  result = vkCreateImageView(device, &view, nullptr, &view_);
  if (result != VK_SUCCESS) return {"vkCreateImageView", result};
  return {};
}

SceneStatus TriangleScene::CreatePass() {
  const VkDevice device = device_->device();
  VkAttachmentDescription attachment = {};
  attachment.format = kFormat;
  attachment.samples = VK_SAMPLE_COUNT_1_BIT;
  attachment.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
  attachment.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
  attachment.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
  attachment.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
  attachment.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  attachment.finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  const VkAttachmentReference colour = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass = {};
  subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &colour;
  // The last frame's copy comes before this frame's drawing, and this frame's drawing before its copy.
  const VkSubpassDependency dependencies[2] = {
      {VK_SUBPASS_EXTERNAL, 0, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
       VK_ACCESS_TRANSFER_READ_BIT, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, 0},
      {0, VK_SUBPASS_EXTERNAL, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
       VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT, 0},
  };
  VkRenderPassCreateInfo pass = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
  pass.attachmentCount = 1;
  pass.pAttachments = &attachment;
  pass.subpassCount = 1;
  pass.pSubpasses = &subpass;
  pass.dependencyCount = 2;
  pass.pDependencies = dependencies;
  VkResult result = vkCreateRenderPass(device, &pass, nullptr, &pass_);
  if (result != VK_SUCCESS) return {"vkCreateRenderPass", result};

  VkFramebufferCreateInfo framebuffer = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO};
  framebuffer.renderPass = pass_;
  framebuffer.attachmentCount = 1;
  framebuffer.pAttachments = &view_;
  framebuffer.width = size_;
  framebuffer.height = size_;
  framebuffer.layers = 1;
  result = vkCreateFramebuffer(device, &framebuffer, nullptr, &framebuffer_);
  if (result != VK_SUCCESS) return {"vkCreateFramebuffer", result};
  return {};
}

SceneStatus TriangleScene::CreatePipeline() {
  const VkDevice device = device_->device();
  const VkPushConstantRange constants = {VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(Turn)};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &constants;
  VkResult result = vkCreatePipelineLayout(device, &layout, nullptr, &layout_);
  if (result != VK_SUCCESS) return {"vkCreatePipelineLayout", result};

  VkShaderModule vertex = VK_NULL_HANDLE, fragment = VK_NULL_HANDLE;
  SceneStatus status = CreateShader(device, kTriangleVert, sizeof(kTriangleVert), &vertex);
  if (status.ok()) status = CreateShader(device, kTriangleFrag, sizeof(kTriangleFrag), &fragment);
  VkPipelineShaderStageCreateInfo stages[2] = {{.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO},
                                               {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO}};
  stages[0].stage = VK_SHADER_STAGE_VERTEX_BIT;
  stages[0].module = vertex;
  stages[0].pName = "main";
  stages[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
  stages[1].module = fragment;
  stages[1].pName = "main";

  VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  VkPipelineInputAssemblyStateCreateInfo assembly = {.sType =
                                                         VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
  assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
  const VkViewport viewport = {0.0f, 0.0f, static_cast<float>(size_), static_cast<float>(size_), 0.0f, 1.0f};
  const VkRect2D scissor = {{0, 0}, {size_, size_}};
  VkPipelineViewportStateCreateInfo viewports = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
  viewports.viewportCount = 1;
  viewports.pViewports = &viewport;
  viewports.scissorCount = 1;
  viewports.pScissors = &scissor;
  VkPipelineRasterizationStateCreateInfo raster = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
  raster.polygonMode = VK_POLYGON_MODE_FILL;
  raster.cullMode = VK_CULL_MODE_NONE;
  raster.frontFace = VK_FRONT_FACE_CLOCKWISE;
  raster.lineWidth = 1.0f;
  VkPipelineMultisampleStateCreateInfo samples = {.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
  samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
  VkPipelineColorBlendAttachmentState blend_attachment = {};
  blend_attachment.colorWriteMask =
      VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_B_BIT | VK_COLOR_COMPONENT_A_BIT;
  VkPipelineColorBlendStateCreateInfo blend = {.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
  blend.attachmentCount = 1;
  blend.pAttachments = &blend_attachment;

  VkGraphicsPipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
  pipeline.stageCount = 2;
  pipeline.pStages = stages;
  pipeline.pVertexInputState = &input;
  pipeline.pInputAssemblyState = &assembly;
  pipeline.pViewportState = &viewports;
  pipeline.pRasterizationState = &raster;
  pipeline.pMultisampleState = &samples;
  pipeline.pColorBlendState = &blend;
  pipeline.layout = layout_;
  pipeline.renderPass = pass_;
  if (status.ok()) {
    result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &pipeline, nullptr, &pipeline_);
    if (result != VK_SUCCESS) status = {"vkCreateGraphicsPipelines", result};
  }
  vkDestroyShaderModule(device, vertex, nullptr);
  vkDestroyShaderModule(device, fragment, nullptr);
  return status;
}

SceneStatus TriangleScene::Render(uint32_t frame) {
  SceneStatus status = commands_.Begin();
  if (!status.ok()) return status;
  const VkCommandBuffer commands = commands_.buffer();
  VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
  begin.renderPass = pass_;
  begin.framebuffer = framebuffer_;
  begin.renderArea = {{0, 0}, {size_, size_}};
  begin.clearValueCount = 1;
  begin.pClearValues = &kGround;
  vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
  const Turn turn = TurnOfFrame(frame);
  vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(turn), &turn);
  vkCmdDraw(commands, 3, 1, 0, 0);
  vkCmdEndRenderPass(commands);

  VkBufferImageCopy region = {};
  region.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  region.imageExtent = {size_, size_, 1};
  vkCmdCopyImageToBuffer(commands, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, readback_.buffer(), 1, &region);
  VkBufferMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.buffer = readback_.buffer();
  barrier.size = VK_WHOLE_SIZE;
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 0, nullptr, 1, &barrier,
                       0, nullptr);
  status = commands_.Submit();
  if (status.ok()) status = commands_.Wait();
  return status;
}

const char* CheckTriangle(const uint8_t* rgba, uint32_t size) {
  constexpr int kGroundRed = 16, kGroundGreen = 32, kGroundBlue = 48;
  const auto at = [&](uint32_t x, uint32_t y) { return rgba + 4 * (size_t{y} * size + x); };
  const auto is_ground = [&](const uint8_t* p) {
    return Near(p[0], kGroundRed, 1) && Near(p[1], kGroundGreen, 1) && Near(p[2], kGroundBlue, 1);
  };
  const uint32_t last = size - 1;
  if (!is_ground(at(0, 0)) || !is_ground(at(last, 0)) || !is_ground(at(0, last)) || !is_ground(at(last, last))) {
    return "a corner does not have the colour of the ground";
  }
  const uint8_t* centre = at(size / 2, size / 2);
  // The centre lies between four pixels: half a pixel is more of a colour the smaller the picture.
  const int tolerance = 2 + static_cast<int>(512 / size);
  if (!Near(centre[0], 85, tolerance) || !Near(centre[1], 85, tolerance) || !Near(centre[2], 85, tolerance)) {
    return "the centre is not the mean of the corners' colours";
  }
  uint64_t covered = 0;
  for (size_t i = 0; i < size_t{size} * size; i++) {
    const uint8_t* p = rgba + 4 * i;
    if (p[3] != 255) return "a pixel is not opaque";
    if (is_ground(p)) continue;
    covered++;
    // The three colours are weights that sum to one.
    if (!Near(static_cast<uint8_t>((p[0] + p[1] + p[2]) / 3), 85, 2))
      return "a pixel has no mix of the corners' colours";
  }
  // The triangle's area: 1.40625 wide and 1.21875 high, of a picture of 2 by 2.
  const double expected = 0.5 * 1.40625 * 1.21875 / 4.0 * size * size;
  if (static_cast<double>(covered) < expected * 0.97 || static_cast<double>(covered) > expected * 1.03) {
    return "the triangle covers the wrong number of pixels";
  }
  return nullptr;
}

}  // namespace sluice::scenes
