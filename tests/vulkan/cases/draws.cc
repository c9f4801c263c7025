// Secondary command buffers, indirect and multi draws.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;
constexpr VkBufferUsageFlags kIndirect = VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;

void BeginSecondary(const Gpu& gpu, VkCommandBuffer commands, const Target& target,
                    VkCommandBufferUsageFlags flags = 0) {
  VkCommandBufferInheritanceRenderingInfo rendering = {.sType =
                                                           VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_RENDERING_INFO};
  rendering.colorAttachmentCount = static_cast<uint32_t>(target.options.color_formats.size());
  rendering.pColorAttachmentFormats = target.options.color_formats.data();
  rendering.rasterizationSamples = target.options.samples;
  VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO,
                                                .pNext = &rendering};
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = flags | VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT;
  info.pInheritanceInfo = &inheritance;
  static_cast<void>(gpu);
  VK(vkBeginCommandBuffer(commands, &info));
}

// A column of the target per draw; red in steps.
Rect Column(uint32_t i, uint32_t of) {
  const float step = 2.0f / static_cast<float>(of), x = -1.0f + step * static_cast<float>(i);
  return {.x0 = x, .x1 = x + step, .red = static_cast<float>(i + 1) / static_cast<float>(of), .green = 1};
}

}  // namespace

VK_CASE(secondary, draws) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  VkCommandBuffer secondaries[8];
  for (uint32_t i = 0; i < 8; i++) {
    secondaries[i] = gpu.MakeCommands(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
    BeginSecondary(gpu, secondaries[i], target);
    vkCmdBindPipeline(secondaries[i], kGraphics, pipeline);
    DrawRect(secondaries[i], builder.layout, Column(i, 8));
    VK(vkEndCommandBuffer(secondaries[i]));
  }
  gpu.Run([&](VkCommandBuffer commands) {
    target.Begin(commands, VK_RENDERING_CONTENTS_SECONDARY_COMMAND_BUFFERS_BIT);
    vkCmdExecuteCommands(commands, 3, secondaries);
    vkCmdExecuteCommands(commands, 5, secondaries + 3);
    target.End(commands);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(Texel(pixels, 32, 31, 0) == 0xff00ffff, "the last column is %#x", Texel(pixels, 32, 31, 0));
  // Once more with the same secondaries: they may be executed again.
  target.clear = {.float32 = {1, 1, 1, 1}};
  gpu.Run([&](VkCommandBuffer commands) {
    target.Begin(commands, VK_RENDERING_CONTENTS_SECONDARY_COMMAND_BUFFERS_BIT);
    vkCmdExecuteCommands(commands, 4, secondaries + 4);
    target.End(commands);
  });
  t.Bytes("again", target.Pixels());
}

VK_CASE(secondary, simultaneous_use) {
  // One secondary in three primaries, in one submission.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {5, 64};
  const VkCommandBuffer secondary = gpu.MakeCommands(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  begin.pInheritanceInfo = &inheritance;
  VK(vkBeginCommandBuffer(secondary, &begin));
  job.Dispatch(secondary, 1, constants);
  VK(vkEndCommandBuffer(secondary));
  VkCommandBuffer primaries[3];
  for (VkCommandBuffer& primary : primaries) {
    primary = gpu.MakeCommands();
    gpu.Begin(primary);
    vkCmdExecuteCommands(primary, 1, &secondary);
    vkCmdExecuteCommands(primary, 1, &secondary);
    VK(vkEndCommandBuffer(primary));
  }
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 3;
  submit.pCommandBuffers = primaries;
  VK(vkQueueSubmit(gpu.queue, 1, &submit, VK_NULL_HANDLE));
  VK(vkQueueWaitIdle(gpu.queue));
  t.Bytes("result", data.data, data.size);
  t.Expect(data.as<uint32_t>()[0] == 30, "the word is %u", data.as<uint32_t>()[0]);
}

VK_CASE(secondary, reset_and_rerecord) {
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool_info.queueFamilyIndex = gpu.family;
  VkCommandPool pool = VK_NULL_HANDLE;
  VK(vkCreateCommandPool(gpu.device, &pool_info, nullptr, &pool));
  VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool;
  allocate.commandBufferCount = 4;
  VkCommandBuffer commands[4];
  VK(vkAllocateCommandBuffers(gpu.device, &allocate, commands));
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 50; round++) {
    VkCommandBuffer one = commands[round % 4];
    gpu.Begin(one);
    for (uint32_t i = 0; i <= round; i++) vkCmdFillBuffer(one, data.buffer, 4 * (i % 64), 4, round * 100 + i);
    FullBarrier(one);
    VK(vkEndCommandBuffer(one));
    gpu.SubmitAndWait(one);
    sum += data.as<uint32_t>()[round];
    if (round % 4 == 3)
      VK(vkResetCommandPool(gpu.device, pool, round % 8 == 7 ? VK_COMMAND_POOL_RESET_RELEASE_RESOURCES_BIT : 0));
  }
  vkTrimCommandPool(gpu.device, pool, 0);
  t.Value("sum", sum);
  t.Bytes("result", data.data, data.size);
  vkFreeCommandBuffers(gpu.device, pool, 2, commands);
  vkDestroyCommandPool(gpu.device, pool, nullptr);  // frees the other two
  // Explicit and implicit resets of single buffers.
  const VkCommandBuffer single = gpu.MakeCommands();
  for (uint32_t i = 0; i < 10; i++) {
    gpu.Begin(single);  // resets what is there
    vkCmdFillBuffer(single, data.buffer, 0, 4, 7000 + i);
    FullBarrier(single);
    VK(vkEndCommandBuffer(single));
    gpu.SubmitAndWait(single);
    t.Expect(data.as<uint32_t>()[0] == 7000 + i, "round %u gives %u", i, data.as<uint32_t>()[0]);
    if (i % 3 == 0) VK(vkResetCommandBuffer(single, i % 2 == 0 ? VK_COMMAND_BUFFER_RESET_RELEASE_RESOURCES_BIT : 0));
  }
}

VK_CASE(secondary, long_recording) {
  // 100,000 commands of several kinds in one buffer: longer than any chunk in which recordings travel.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(65536, VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  for (uint32_t i = 0; i < 100000; i++) {
    if (i % 3 == 0) {
      vkCmdFillBuffer(commands, data.buffer, 4 * (i % 8192), 4, i);
    } else if (i % 3 == 1) {
      vkCmdUpdateBuffer(commands, data.buffer, 4 * (i % 8192), 4, &i);
    } else {
      const VkBufferCopy region = {4 * (i % 8192), 4 * (8192 + i % 8192), 4};
      vkCmdCopyBuffer(commands, data.buffer, data.buffer, 1, &region);
    }
  }
  FullBarrier(commands);
  VK(vkEndCommandBuffer(commands));
  gpu.SubmitAndWait(commands);
  t.Bytes("result", data.data, data.size);
}

VK_CASE(indirect, draws) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer arguments = gpu.MakeBuffer(1024, kIndirect | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const Buffer indices = gpu.MakeBuffer(256, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  for (uint32_t i = 0; i < 6; i++) indices.as<uint32_t>()[i + 2] = i;
  // Three draws 32 bytes apart, of 6 vertices, of 3, and of 2 instances.
  const VkDrawIndirectCommand draws[3] = {{6, 1, 0, 0}, {3, 1, 0, 3}, {6, 2, 0, 5}};
  for (uint32_t i = 0; i < 3; i++) memcpy(arguments.as<uint8_t>() + 16 + 32 * i, &draws[i], sizeof draws[i]);
  const VkDrawIndexedIndirectCommand indexed[2] = {{6, 1, 2, 0, 1}, {3, 3, 2, 0, 2}};
  memcpy(arguments.as<uint8_t>() + 512, indexed, sizeof indexed);
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    PushRect(commands, builder.layout,
             {.x0 = -1, .y0 = -1, .x1 = -0.8f, .y1 = -0.1f, .red = 1, .instance_step = 0.25f});
    vkCmdDrawIndirect(commands, arguments.buffer, 16, 3, 32);
    vkCmdBindIndexBuffer(commands, indices.buffer, 0, VK_INDEX_TYPE_UINT32);
    PushRect(commands, builder.layout,
             {.x0 = -1, .y0 = 0.1f, .x1 = -0.8f, .y1 = 0.9f, .green = 1, .instance_step = 0.25f});
    vkCmdDrawIndexedIndirect(commands, arguments.buffer, 512, 2, sizeof indexed[0]);
    vkCmdDrawIndirect(commands, arguments.buffer, 16, 0, 32);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xff0000ff) > 0 && CountTexels(pixels, 0xff00ff00) > 0, "something is not drawn");
}

VK_CASE(indirect, counts) {
  Gpu& gpu = t.gpu();
  if (!gpu.features12.drawIndirectCount) t.Skip("no indirect counts");
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer arguments = gpu.MakeBuffer(1024, kIndirect);
  const Buffer counts = gpu.MakeBuffer(64, kIndirect | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const Buffer indices = gpu.MakeBuffer(64, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  for (uint16_t i = 0; i < 6; i++) indices.as<uint16_t>()[i] = i;
  for (uint32_t i = 0; i < 8; i++) {
    const VkDrawIndirectCommand draw = {6, 1, 0, i};
    memcpy(arguments.as<uint8_t>() + 16 * i, &draw, sizeof draw);
    const VkDrawIndexedIndirectCommand indexed = {6, 1, 0, 0, i};
    memcpy(arguments.as<uint8_t>() + 512 + 20 * i, &indexed, sizeof indexed);
  }
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, counts.buffer, 4, 4, 3);
    vkCmdFillBuffer(commands, counts.buffer, 8, 4, 100);  // more than the maximum
    FullBarrier(commands);
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    PushRect(commands, builder.layout,
             {.x0 = -1, .y0 = -1, .x1 = -0.8f, .y1 = -0.1f, .red = 1, .instance_step = 0.25f});
    vkCmdDrawIndirectCount(commands, arguments.buffer, 0, counts.buffer, 4, 8, 16);
    vkCmdBindIndexBuffer(commands, indices.buffer, 0, VK_INDEX_TYPE_UINT16);
    PushRect(commands, builder.layout,
             {.x0 = -1, .y0 = 0.1f, .x1 = -0.8f, .y1 = 0.9f, .green = 1, .instance_step = 0.25f});
    vkCmdDrawIndexedIndirectCount(commands, arguments.buffer, 512, counts.buffer, 8, 5, 20);
    target.End(commands);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(Texel(pixels, 32, 9, 3) == 0xff0000ff && Texel(pixels, 32, 13, 3) == 0xff000000, "the count is not obeyed");
  t.Expect(Texel(pixels, 32, 17, 25) == 0xff00ff00 && Texel(pixels, 32, 21, 25) == 0xff000000,
           "the maximum is not obeyed");
}

VK_CASE(indirect, written_by_compute) {
  // A dispatch writes the arguments of a draw.
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer arguments = gpu.MakeBuffer(256, kIndirect | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  arguments.as<uint32_t>()[0] = 5;  // 5 + 1 vertices, 0 + 1 instances; then 0xffffffff + 1
  arguments.as<uint32_t>()[2] = arguments.as<uint32_t>()[3] = 0xffffffff;
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&arguments}, 8);
  const uint32_t constants[2] = {1, 4};
  gpu.Run([&](VkCommandBuffer commands) {
    job.Dispatch(commands, 1, constants);
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    PushRect(commands, builder.layout, {.x0 = 0, .blue = 1});
    vkCmdDrawIndirect(commands, arguments.buffer, 0, 1, 16);
    target.End(commands);
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xffff0000) == 512, "%u blue texels", CountTexels(pixels, 0xffff0000));
}

VK_CASE(indirect, multi_draw) {
  VkPhysicalDeviceMultiDrawFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MULTI_DRAW_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_MULTI_DRAW_EXTENSION_NAME}, .features = &features});
  DEVICE_FUNCTION(gpu, vkCmdDrawMultiEXT);
  DEVICE_FUNCTION(gpu, vkCmdDrawMultiIndexedEXT);
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.VertexShaders();
  const VkPipeline pipeline = builder.Build();
  const Buffer vertices = gpu.MakeBuffer(64 * sizeof(Vertex), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
  const Buffer indices = gpu.MakeBuffer(512, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
  for (uint32_t i = 0; i < 60; i++) {
    const float x = -1.0f + 0.1f * static_cast<float>(i / 3) + (i % 3 == 1 ? 0.1f : 0.0f),
                y = i % 3 == 2 ? 0.9f : -0.9f;
    vertices.as<Vertex>()[i] = {x, y, 0, 0.05f * static_cast<float>(i / 3), 1, 0, 1};
    indices.as<uint32_t>()[i] = 59 - i;
  }
  struct Draw {
    VkMultiDrawInfoEXT info;
    uint32_t gap[2];
  };
  Draw draws[5];
  for (uint32_t i = 0; i < 5; i++) draws[i].info = {i * 6, 3};
  struct Indexed {
    VkMultiDrawIndexedInfoEXT info;
    uint32_t gap;
  };
  Indexed indexed[4];
  for (uint32_t i = 0; i < 4; i++) indexed[i].info = {i * 3, 3, static_cast<int32_t>(i) * -3};
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    const VkDeviceSize offset = 0;
    vkCmdBindVertexBuffers(commands, 0, 1, &vertices.buffer, &offset);
    vkCmdDrawMultiEXT(commands, 5, &draws[0].info, 1, 0, sizeof(Draw));
    vkCmdBindIndexBuffer(commands, indices.buffer, 0, VK_INDEX_TYPE_UINT32);
    vkCmdDrawMultiIndexedEXT(commands, 4, &indexed[0].info, 1, 0, sizeof(Indexed), nullptr);
    const int32_t vertex_offset = -30;
    vkCmdDrawMultiIndexedEXT(commands, 2, &indexed[0].info, 1, 0, sizeof(Indexed), &vertex_offset);
  });
  t.Bytes("picture", target.Pixels());
}

}  // namespace sluice::vktest
