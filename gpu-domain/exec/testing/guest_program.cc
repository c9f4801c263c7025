#include "gpu-domain/exec/testing/guest_program.h"

#include <cstring>

#include "gpu-domain/exec/testing/fill_comp.h"
#include "gpu-domain/exec/testing/triangle_frag.h"
#include "gpu-domain/exec/testing/triangle_vert.h"

namespace sluice::exec::testing {
namespace {

constexpr uint32_t kSize = 64;

VkShaderModule MakeShader(const GuestDevice& d, const uint32_t* code, size_t bytes) {
  const VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
  VkShaderModule module = VK_NULL_HANDLE;
  vkCreateShaderModule(d.device, &info, nullptr, &module);
  return module;
}

}  // namespace

GuestDevice::GuestDevice() {
  const VkApplicationInfo app = {
      .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "guest", .apiVersion = VK_API_VERSION_1_1};
  const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                              .pApplicationInfo = &app};
  if (vkCreateInstance(&instance_info, nullptr, &instance) != VK_SUCCESS) return;
  uint32_t count = 1;
  if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || count == 0) return;
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                              .queueFamilyIndex = 0,
                                              .queueCount = 1,
                                              .pQueuePriorities = &priority};
  const VkDeviceCreateInfo device_info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_info};
  if (vkCreateDevice(physical, &device_info, nullptr, &device) != VK_SUCCESS) return;
  vkGetDeviceQueue(device, 0, 0, &queue);
  const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                             .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
  ok = vkCreateCommandPool(device, &pool_info, nullptr, &pool) == VK_SUCCESS;
}

void GuestDevice::Destroy() {
  vkDestroyCommandPool(device, pool, nullptr);
  vkDestroyDevice(device, nullptr);
  vkDestroyInstance(instance, nullptr);
}

uint32_t GuestDevice::MemoryType(uint32_t bits, VkMemoryPropertyFlags flags) const {
  VkPhysicalDeviceMemoryProperties properties;
  vkGetPhysicalDeviceMemoryProperties(physical, &properties);
  for (uint32_t i = 0; i < properties.memoryTypeCount; i++) {
    if ((bits >> i & 1) != 0 && (properties.memoryTypes[i].propertyFlags & flags) == flags) return i;
  }
  return 0;
}

VkCommandBuffer GuestDevice::AllocateCommandBuffer(VkCommandBufferLevel level) const {
  const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = pool,
                                            .level = level,
                                            .commandBufferCount = 1};
  VkCommandBuffer cb = VK_NULL_HANDLE;
  vkAllocateCommandBuffers(device, &info, &cb);
  return cb;
}

VkResult GuestDevice::SubmitAndWait(VkCommandBuffer cb) const {
  const VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  vkCreateFence(device, &fence_info, nullptr, &fence);
  const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &cb};
  VkResult result = vkQueueSubmit(queue, 1, &submit, fence);
  if (result == VK_SUCCESS) result = vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX);
  vkDestroyFence(device, fence, nullptr);
  return result;
}

GuestBuffer::GuestBuffer(const GuestDevice& d, VkDeviceSize bytes, VkBufferUsageFlags usage) : size(bytes) {
  const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = usage};
  vkCreateBuffer(d.device, &info, nullptr, &buffer);
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(d.device, buffer, &requirements);
  const VkMemoryAllocateInfo allocate = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .allocationSize = requirements.size,
      .memoryTypeIndex = d.MemoryType(requirements.memoryTypeBits, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)};
  if (vkAllocateMemory(d.device, &allocate, nullptr, &memory) != VK_SUCCESS) return;
  vkBindBufferMemory(d.device, buffer, memory, 0);
  vkMapMemory(d.device, memory, 0, VK_WHOLE_SIZE, 0, &mapped);
}

void GuestBuffer::Destroy(const GuestDevice& d) {
  vkDestroyBuffer(d.device, buffer, nullptr);
  vkFreeMemory(d.device, memory, nullptr);
}

std::vector<uint32_t> RunCompute(const GuestDevice& d, uint32_t base, uint32_t count) {
  GuestBuffer out(d, count * 4, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const VkDescriptorSetLayoutBinding binding = {.binding = 0,
                                                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = 1,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  const VkDescriptorSetLayoutCreateInfo set_layout_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VkDescriptorSetLayout set_layout;
  vkCreateDescriptorSetLayout(d.device, &set_layout_info, nullptr, &set_layout);
  const VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = 4};
  const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                  .setLayoutCount = 1,
                                                  .pSetLayouts = &set_layout,
                                                  .pushConstantRangeCount = 1,
                                                  .pPushConstantRanges = &push};
  VkPipelineLayout layout;
  vkCreatePipelineLayout(d.device, &layout_info, nullptr, &layout);
  const VkDescriptorPoolSize pool_size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
  const VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                .maxSets = 1,
                                                .poolSizeCount = 1,
                                                .pPoolSizes = &pool_size};
  VkDescriptorPool pool;
  vkCreateDescriptorPool(d.device, &pool_info, nullptr, &pool);
  const VkDescriptorSetAllocateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                .descriptorPool = pool,
                                                .descriptorSetCount = 1,
                                                .pSetLayouts = &set_layout};
  VkDescriptorSet set;
  vkAllocateDescriptorSets(d.device, &set_info, &set);
  const VkDescriptorBufferInfo buffer_info = {out.buffer, 0, VK_WHOLE_SIZE};
  const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &buffer_info};
  vkUpdateDescriptorSets(d.device, 1, &write, 0, nullptr);
  const uint32_t scale = 3;
  const VkSpecializationMapEntry entry = {0, 0, 4};
  const VkSpecializationInfo specialization = {1, &entry, 4, &scale};
  VkShaderModule shader = MakeShader(d, fill_comp, sizeof(fill_comp));
  const VkComputePipelineCreateInfo pipeline_info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main",
                .pSpecializationInfo = &specialization},
      .layout = layout};
  VkPipeline pipeline = VK_NULL_HANDLE;
  vkCreateComputePipelines(d.device, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline);

  VkCommandBuffer cb = d.AllocateCommandBuffer();
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  vkBeginCommandBuffer(cb, &begin);
  vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vkCmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &base);
  vkCmdDispatch(cb, count / 64, 1, 1);
  const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  vkCmdPipelineBarrier(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr,
                       0, nullptr);
  vkEndCommandBuffer(cb);
  std::vector<uint32_t> result(count);
  if (d.SubmitAndWait(cb) == VK_SUCCESS && out.mapped != nullptr) memcpy(result.data(), out.mapped, count * 4);

  vkFreeCommandBuffers(d.device, d.pool, 1, &cb);
  vkDestroyPipeline(d.device, pipeline, nullptr);
  vkDestroyShaderModule(d.device, shader, nullptr);
  vkDestroyDescriptorPool(d.device, pool, nullptr);
  vkDestroyPipelineLayout(d.device, layout, nullptr);
  vkDestroyDescriptorSetLayout(d.device, set_layout, nullptr);
  out.Destroy(d);
  return result;
}

std::vector<uint32_t> DrawTriangle(const GuestDevice& d) {
  const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
  const VkImageCreateInfo image_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                        .imageType = VK_IMAGE_TYPE_2D,
                                        .format = format,
                                        .extent = {kSize, kSize, 1},
                                        .mipLevels = 1,
                                        .arrayLayers = 1,
                                        .samples = VK_SAMPLE_COUNT_1_BIT,
                                        .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
  VkImage image;
  vkCreateImage(d.device, &image_info, nullptr, &image);
  VkMemoryRequirements requirements;
  vkGetImageMemoryRequirements(d.device, image, &requirements);
  const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                         .allocationSize = requirements.size,
                                         .memoryTypeIndex = d.MemoryType(requirements.memoryTypeBits, 0)};
  VkDeviceMemory memory;
  vkAllocateMemory(d.device, &allocate, nullptr, &memory);
  vkBindImageMemory(d.device, image, memory, 0);
  const VkImageViewCreateInfo view_info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                           .image = image,
                                           .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                           .format = format,
                                           .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
  VkImageView view;
  vkCreateImageView(d.device, &view_info, nullptr, &view);
  const VkAttachmentDescription attachment = {.format = format,
                                              .samples = VK_SAMPLE_COUNT_1_BIT,
                                              .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                              .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                              .stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE,
                                              .stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE,
                                              .finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL};
  const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  const VkSubpassDescription subpass = {
      .pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS, .colorAttachmentCount = 1, .pColorAttachments = &reference};
  const VkRenderPassCreateInfo pass_info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                            .attachmentCount = 1,
                                            .pAttachments = &attachment,
                                            .subpassCount = 1,
                                            .pSubpasses = &subpass};
  VkRenderPass pass;
  vkCreateRenderPass(d.device, &pass_info, nullptr, &pass);
  const VkFramebufferCreateInfo framebuffer_info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                                    .renderPass = pass,
                                                    .attachmentCount = 1,
                                                    .pAttachments = &view,
                                                    .width = kSize,
                                                    .height = kSize,
                                                    .layers = 1};
  VkFramebuffer framebuffer;
  vkCreateFramebuffer(d.device, &framebuffer_info, nullptr, &framebuffer);
  const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  VkPipelineLayout layout;
  vkCreatePipelineLayout(d.device, &layout_info, nullptr, &layout);

  VkShaderModule vertex = MakeShader(d, triangle_vert, sizeof(triangle_vert));
  VkShaderModule fragment = MakeShader(d, triangle_frag, sizeof(triangle_frag));
  const VkPipelineShaderStageCreateInfo stages[] = {{.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                     .stage = VK_SHADER_STAGE_VERTEX_BIT,
                                                     .module = vertex,
                                                     .pName = "main"},
                                                    {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                     .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
                                                     .module = fragment,
                                                     .pName = "main"}};
  const VkVertexInputBindingDescription vertex_binding = {0, 20, VK_VERTEX_INPUT_RATE_VERTEX};
  const VkVertexInputAttributeDescription attributes[] = {{0, 0, VK_FORMAT_R32G32_SFLOAT, 0},
                                                          {1, 0, VK_FORMAT_R32G32B32_SFLOAT, 8}};
  const VkPipelineVertexInputStateCreateInfo vertex_input = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
      .vertexBindingDescriptionCount = 1,
      .pVertexBindingDescriptions = &vertex_binding,
      .vertexAttributeDescriptionCount = 2,
      .pVertexAttributeDescriptions = attributes};
  const VkPipelineInputAssemblyStateCreateInfo assembly = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
      .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
  const VkPipelineViewportStateCreateInfo viewport_state = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
  const VkPipelineRasterizationStateCreateInfo raster = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
  const VkPipelineMultisampleStateCreateInfo multisample = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO, .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  const VkPipelineColorBlendAttachmentState blend_attachment = {.colorWriteMask = 15};
  const VkPipelineColorBlendStateCreateInfo blend = {.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                                     .attachmentCount = 1,
                                                     .pAttachments = &blend_attachment};
  const VkDynamicState dynamics[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  const VkPipelineDynamicStateCreateInfo dynamic = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                    .dynamicStateCount = 2,
                                                    .pDynamicStates = dynamics};
  const VkGraphicsPipelineCreateInfo pipeline_info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                                      .stageCount = 2,
                                                      .pStages = stages,
                                                      .pVertexInputState = &vertex_input,
                                                      .pInputAssemblyState = &assembly,
                                                      .pViewportState = &viewport_state,
                                                      .pRasterizationState = &raster,
                                                      .pMultisampleState = &multisample,
                                                      .pColorBlendState = &blend,
                                                      .pDynamicState = &dynamic,
                                                      .layout = layout,
                                                      .renderPass = pass};
  VkPipeline pipeline = VK_NULL_HANDLE;
  vkCreateGraphicsPipelines(d.device, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline);

  GuestBuffer vertices(d, 60, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const float data[] = {0, -0.8f, 1, 0, 0, 0.8f, 0.8f, 0, 1, 0, -0.8f, 0.8f, 0, 0, 1};
  if (vertices.mapped != nullptr) memcpy(vertices.mapped, data, sizeof(data));
  GuestBuffer out(d, kSize * kSize * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT);

  VkCommandBuffer cb = d.AllocateCommandBuffer();
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  vkBeginCommandBuffer(cb, &begin);
  const VkClearValue clear = {.color = {.float32 = {0, 0, 0.2f, 1}}};
  const VkRenderPassBeginInfo pass_begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                            .renderPass = pass,
                                            .framebuffer = framebuffer,
                                            .renderArea = {{0, 0}, {kSize, kSize}},
                                            .clearValueCount = 1,
                                            .pClearValues = &clear};
  vkCmdBeginRenderPass(cb, &pass_begin, VK_SUBPASS_CONTENTS_INLINE);
  vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
  const VkViewport viewport = {0, 0, kSize, kSize, 0, 1};
  const VkRect2D scissor = {{0, 0}, {kSize, kSize}};
  vkCmdSetViewport(cb, 0, 1, &viewport);
  vkCmdSetScissor(cb, 0, 1, &scissor);
  const VkDeviceSize offset = 0;
  vkCmdBindVertexBuffers(cb, 0, 1, &vertices.buffer, &offset);
  vkCmdDraw(cb, 3, 1, 0, 0);
  vkCmdEndRenderPass(cb);
  const VkBufferImageCopy region = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                    .imageExtent = {kSize, kSize, 1}};
  vkCmdCopyImageToBuffer(cb, image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, out.buffer, 1, &region);
  const VkBufferMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
                                         .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                         .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
                                         .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                         .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                         .buffer = out.buffer,
                                         .size = VK_WHOLE_SIZE};
  vkCmdPipelineBarrier(cb, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 0, nullptr, 1, &barrier, 0,
                       nullptr);
  vkEndCommandBuffer(cb);
  std::vector<uint32_t> pixels(kSize * kSize);
  if (d.SubmitAndWait(cb) == VK_SUCCESS && out.mapped != nullptr) memcpy(pixels.data(), out.mapped, pixels.size() * 4);

  vkFreeCommandBuffers(d.device, d.pool, 1, &cb);
  vertices.Destroy(d);
  out.Destroy(d);
  vkDestroyPipeline(d.device, pipeline, nullptr);
  vkDestroyShaderModule(d.device, vertex, nullptr);
  vkDestroyShaderModule(d.device, fragment, nullptr);
  vkDestroyPipelineLayout(d.device, layout, nullptr);
  vkDestroyFramebuffer(d.device, framebuffer, nullptr);
  vkDestroyRenderPass(d.device, pass, nullptr);
  vkDestroyImageView(d.device, view, nullptr);
  vkDestroyImage(d.device, image, nullptr);
  vkFreeMemory(d.device, memory, nullptr);
  return pixels;
}

}  // namespace sluice::exec::testing
