// Query pools: occlusion, timestamps, statistics; reading them on the host and on the device.
#include <cstring>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {
namespace {
constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;
}  // namespace

VK_CASE(query, occlusion) {
  Gpu& gpu = t.gpu();
  Target target(gpu, {.depth_format = VK_FORMAT_D32_SFLOAT});
  target.clear_depth = 0.5f;
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.depth_stencil.depthTestEnable = VK_TRUE;
  builder.depth_stencil.depthCompareOp = VK_COMPARE_OP_LESS;
  const VkPipeline pipeline = builder.Build();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_OCCLUSION, 4);
  const Buffer copied = gpu.MakeBuffer(256, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const VkQueryControlFlags precise = gpu.features.features.occlusionQueryPrecise ? VK_QUERY_CONTROL_PRECISE_BIT : 0;
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, queries, 0, 4);
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    vkCmdBeginQuery(commands, queries, 0, precise);
    DrawRect(commands, builder.layout, {.x1 = 0, .red = 1, .depth = 0.25f});
    vkCmdEndQuery(commands, queries, 0);
    vkCmdBeginQuery(commands, queries, 1, precise);
    DrawRect(commands, builder.layout, {.x0 = 0, .red = 1, .depth = 0.75f});
    vkCmdEndQuery(commands, queries, 1);
    vkCmdBeginQuery(commands, queries, 2, 0);
    vkCmdEndQuery(commands, queries, 2);
    target.End(commands);
    FullBarrier(commands);
    vkCmdCopyQueryPoolResults(commands, queries, 0, 3, copied.buffer, 16, 32,
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    vkCmdCopyQueryPoolResults(commands, queries, 0, 3, copied.buffer, 128, 8,
                              VK_QUERY_RESULT_WAIT_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
  });
  uint64_t results[4] = {9, 9, 9, 9};
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 3, sizeof results, results, 8,
                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
  t.Bytes("results", results, 24);
  t.Bytes("copied", copied.data, copied.size);
  t.Expect(results[0] == 512 && results[1] == 0 && results[2] == 0 && results[3] == 9, "%llu, %llu, %llu",
           static_cast<unsigned long long>(results[0]), static_cast<unsigned long long>(results[1]),
           static_cast<unsigned long long>(results[2]));
  uint32_t pairs[6] = {};
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 3, sizeof pairs, pairs, 8, VK_QUERY_RESULT_WITH_AVAILABILITY_BIT));
  t.Bytes("available", pairs, sizeof pairs);
  t.Expect(pairs[0] == 512 && pairs[1] == 1, "%u, availability %u", pairs[0], pairs[1]);
}

VK_CASE(query, not_ready_and_reset) {
  Gpu& gpu = t.gpu();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_OCCLUSION, 8);
  vkResetQueryPool(gpu.device, queries, 0, 8);
  uint32_t results[16];
  memset(results, 0x5a, sizeof results);
  t.Expect(vkGetQueryPoolResults(gpu.device, queries, 0, 8, sizeof results, results, 4, 0) == VK_NOT_READY,
           "unused queries are ready");
  // What is not ready is not written.
  t.Expect(results[0] == 0x5a5a5a5a && results[7] == 0x5a5a5a5a, "a query that is not ready was written: %#x",
           results[0]);
  const VkResult result = vkGetQueryPoolResults(gpu.device, queries, 0, 8, sizeof results, results, 8,
                                                VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
  t.Result("availability", result);
  t.Expect(results[1] == 0 && results[15] == 0, "an unused query is available");
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBeginQuery(commands, queries, 3, 0);
    vkCmdEndQuery(commands, queries, 3);
  });
  t.Expect(vkGetQueryPoolResults(gpu.device, queries, 3, 1, 4, results, 4, 0) == VK_SUCCESS,
           "a used query is not ready");
  t.Expect(vkGetQueryPoolResults(gpu.device, queries, 2, 2, 8, results, 4, 0) == VK_NOT_READY, "an unused one is");
  vkResetQueryPool(gpu.device, queries, 3, 1);
  t.Expect(vkGetQueryPoolResults(gpu.device, queries, 3, 1, 4, results, 4, 0) == VK_NOT_READY,
           "a reset query is ready");
}

VK_CASE(query, timestamps) {
  Gpu& gpu = t.gpu();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_TIMESTAMP, 4);
  const Buffer data = gpu.MakeBuffer(1 << 20, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  uint64_t last = 0;
  for (int round = 0; round < 5; round++) {
    gpu.Run([&](VkCommandBuffer commands) {
      vkCmdResetQueryPool(commands, queries, 0, 4);
      vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 0);
      vkCmdFillBuffer(commands, data.buffer, 0, VK_WHOLE_SIZE, 3);
      FullBarrier(commands);
      vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 1);
      vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, queries, 2);
    });
    uint64_t times[3] = {};
    VK(vkGetQueryPoolResults(gpu.device, queries, 0, 3, sizeof times, times, 8,
                             VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    t.Expect(times[0] >= last && times[1] >= times[0] && times[2] >= times[1] && times[0] != 0, "time runs backwards");
    last = times[2];
  }
}

VK_CASE(query, calibrated_timestamps) {
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME}});
  INSTANCE_FUNCTION(gpu.instance, vkGetPhysicalDeviceCalibrateableTimeDomainsEXT);
  DEVICE_FUNCTION(gpu, vkGetCalibratedTimestampsEXT);
  uint32_t count = 0;
  VK(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(gpu.physical, &count, nullptr));
  std::vector<VkTimeDomainEXT> domains(count);
  VK(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(gpu.physical, &count, domains.data()));
  t.Expect(count > 0, "no time domain");
  std::vector<VkCalibratedTimestampInfoEXT> infos(count, {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT});
  for (uint32_t i = 0; i < count; i++) {
    t.Value("domain", domains[i]);
    infos[i].timeDomain = domains[i];
  }
  std::vector<uint64_t> first(count), second(count);
  uint64_t deviation = 0;
  VK(vkGetCalibratedTimestampsEXT(gpu.device, count, infos.data(), first.data(), &deviation));
  VK(vkGetCalibratedTimestampsEXT(gpu.device, count, infos.data(), second.data(), &deviation));
  for (uint32_t i = 0; i < count; i++) t.Expect(second[i] >= first[i] && first[i] != 0, "domain %u runs backwards", i);
}

VK_CASE(query, statistics) {
  Gpu& gpu = t.gpu();
  if (!gpu.features.features.pipelineStatisticsQuery) t.Skip("no pipeline statistics");
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_PIPELINE_STATISTICS, 2,
                                              VK_QUERY_PIPELINE_STATISTIC_INPUT_ASSEMBLY_VERTICES_BIT |
                                                  VK_QUERY_PIPELINE_STATISTIC_INPUT_ASSEMBLY_PRIMITIVES_BIT |
                                                  VK_QUERY_PIPELINE_STATISTIC_VERTEX_SHADER_INVOCATIONS_BIT |
                                                  VK_QUERY_PIPELINE_STATISTIC_CLIPPING_PRIMITIVES_BIT |
                                                  VK_QUERY_PIPELINE_STATISTIC_FRAGMENT_SHADER_INVOCATIONS_BIT |
                                                  VK_QUERY_PIPELINE_STATISTIC_COMPUTE_SHADER_INVOCATIONS_BIT);
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {1, 64};
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, queries, 0, 2);
    vkCmdBeginQuery(commands, queries, 1, 0);
    target.Begin(commands);
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    for (uint32_t i = 0; i < 5; i++) DrawRect(commands, builder.layout, {.red = 1});
    target.End(commands);
    vkCmdEndQuery(commands, queries, 1);
    vkCmdBeginQuery(commands, queries, 0, 0);
    job.Dispatch(commands, 3, constants);
    vkCmdEndQuery(commands, queries, 0);
  });
  uint64_t results[14] = {};
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 2, sizeof results, results, 56,
                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT));
  t.Bytes("results", results, sizeof results);
  t.Expect(results[7] == 30 && results[8] == 10, "%llu vertices of 30", static_cast<unsigned long long>(results[7]));
  t.Expect(results[13] == 1 && results[6] == 1, "not available");
}

VK_CASE(query, in_secondary) {
  Gpu& gpu = t.gpu();
  if (!gpu.features.features.inheritedQueries) t.Skip("no inherited queries");
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipeline pipeline = builder.Build();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_OCCLUSION, 1);
  const VkCommandBuffer secondary = gpu.MakeCommands(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  VkCommandBufferInheritanceRenderingInfo rendering = {.sType =
                                                           VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_RENDERING_INFO};
  rendering.colorAttachmentCount = 1;
  rendering.pColorAttachmentFormats = target.options.color_formats.data();
  rendering.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
  VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO,
                                                .pNext = &rendering};
  inheritance.occlusionQueryEnable = VK_TRUE;
  inheritance.queryFlags = VK_QUERY_CONTROL_PRECISE_BIT;
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT;
  begin.pInheritanceInfo = &inheritance;
  VK(vkBeginCommandBuffer(secondary, &begin));
  vkCmdBindPipeline(secondary, kGraphics, pipeline);
  DrawRect(secondary, builder.layout, {.x1 = -0.5f, .red = 1});
  VK(vkEndCommandBuffer(secondary));
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetQueryPool(commands, queries, 0, 1);
    vkCmdBeginQuery(commands, queries, 0, VK_QUERY_CONTROL_PRECISE_BIT);
    target.Begin(commands, VK_RENDERING_CONTENTS_SECONDARY_COMMAND_BUFFERS_BIT);
    vkCmdExecuteCommands(commands, 1, &secondary);
    target.End(commands);
    vkCmdEndQuery(commands, queries, 0);
  });
  uint32_t samples = 0;
  VK(vkGetQueryPoolResults(gpu.device, queries, 0, 1, 4, &samples, 4, VK_QUERY_RESULT_WAIT_BIT));
  t.Value("samples", samples);
  t.Expect(samples == 256, "%u samples", samples);
}

VK_CASE(query, polling) {
  // A query's result arrives while the host only polls.
  Gpu& gpu = t.gpu();
  const VkQueryPool queries = gpu.MakeQueries(VK_QUERY_TYPE_TIMESTAMP, 64);
  for (uint32_t i = 0; i < 64; i++) {
    vkResetQueryPool(gpu.device, queries, i, 1);
    const VkCommandBuffer commands = gpu.MakeCommands();
    gpu.Begin(commands);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, queries, i);
    VK(vkEndCommandBuffer(commands));
    gpu.Submit(commands);
    uint64_t time = 0;
    VkResult result = VK_NOT_READY;
    for (uint64_t polls = 0; result == VK_NOT_READY && polls < 2'000'000'000; polls++) {
      result = vkGetQueryPoolResults(gpu.device, queries, i, 1, 8, &time, 8, VK_QUERY_RESULT_64_BIT);
    }
    t.Expect(result == VK_SUCCESS && time != 0, "query %u: %d", i, result);
    VK(vkQueueWaitIdle(gpu.queue));
  }
}

}  // namespace sluice::vktest
