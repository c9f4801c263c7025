// Compute pipelines: dispatches, constants, shared memory, atomics, wide and narrow types, addresses.
#include "tests/vulkan/lib/compute.h"

#include <cstring>
#include <string>

#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/add_comp.h"
#include "tests/vulkan/shaders/address_comp.h"
#include "tests/vulkan/shaders/atomic_float_comp.h"
#include "tests/vulkan/shaders/atomics_comp.h"
#include "tests/vulkan/shaders/constants_comp.h"
#include "tests/vulkan/shaders/ids_comp.h"
#include "tests/vulkan/shaders/reduce_comp.h"
#include "tests/vulkan/shaders/special_comp.h"
#include "tests/vulkan/shaders/subgroup_comp.h"
#include "tests/vulkan/shaders/types_comp.h"

namespace sluice::vktest {
namespace {
constexpr VkBufferUsageFlags kStorage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
}  // namespace

VK_CASE(compute, add) {
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(4000, kStorage);
  for (uint32_t i = 0; i < 1000; i++) data.as<uint32_t>()[i] = i;
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {1000000, 999};
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 16, constants); });
  t.Bytes("result", data.data, data.size);
  t.Expect(data.as<uint32_t>()[998] == 1000998 && data.as<uint32_t>()[999] == 999, "wrong words");
}

VK_CASE(compute, chain_of_1000) {
  // Dispatches that depend on each other, in one command buffer; executed three times.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  for (uint32_t i = 0; i < 1000; i++) {
    const uint32_t constants[2] = {i, 64};
    job.Dispatch(commands, 1, constants);
  }
  VK(vkEndCommandBuffer(commands));
  for (int i = 0; i < 3; i++) gpu.SubmitAndWait(commands);
  t.Bytes("result", data.data, data.size);
  t.Expect(data.as<uint32_t>()[63] == 3 * 499500, "the sum is %u", data.as<uint32_t>()[63]);
}

VK_CASE(compute, ids_and_base) {
  Gpu& gpu = t.gpu();
  const Buffer out = gpu.MakeBuffer(4 * 4 * 4 * 4 * 16, kStorage);
  ComputeJob job(gpu, ids_comp, sizeof ids_comp, {&out}, 0, nullptr, VK_PIPELINE_CREATE_DISPATCH_BASE_BIT);
  gpu.Run([&](VkCommandBuffer commands) {
    job.Bind(commands);
    vkCmdDispatchBase(commands, 1, 0, 2, 2, 3, 1);
    FullBarrier(commands);
    vkCmdDispatchBase(commands, 0, 0, 0, 1, 1, 1);
  });
  t.Bytes("result", out.data, out.size);
}

VK_CASE(compute, indirect) {
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(64 * 4 * 10, kStorage);
  const Buffer arguments = gpu.MakeBuffer(256, VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const uint32_t groups[3] = {3, 1, 1};
  memcpy(arguments.as<uint8_t>() + 16, groups, sizeof groups);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {9, 100000};
  gpu.Run([&](VkCommandBuffer commands) {
    job.Bind(commands, constants);
    vkCmdDispatchIndirect(commands, arguments.buffer, 16);
    FullBarrier(commands);
    // The device writes the arguments of the second one itself.
    vkCmdFillBuffer(commands, arguments.buffer, 32, 12, 1);
    FullBarrier(commands);
    vkCmdDispatchIndirect(commands, arguments.buffer, 32);
  });
  t.Bytes("result", data.data, data.size);
  t.Expect(data.as<uint32_t>()[63] == 18 && data.as<uint32_t>()[191] == 9 && data.as<uint32_t>()[192] == 0,
           "wrong words");
}

VK_CASE(compute, push_constants) {
  // All 128 bytes, pushed in pieces, some twice.
  Gpu& gpu = t.gpu();
  const Buffer out = gpu.MakeBuffer(512, kStorage);
  ComputeJob job(gpu, constants_comp, sizeof constants_comp, {&out}, 128);
  uint32_t words[32];
  for (uint32_t i = 0; i < 32; i++) words[i] = 0x01010101 * i;
  gpu.Run([&](VkCommandBuffer commands) {
    job.Bind(commands, words);
    for (uint32_t i = 0; i < 32; i += 3) {
      const uint32_t value = 0xf0000000 + i;
      vkCmdPushConstants(commands, job.layout, VK_SHADER_STAGE_COMPUTE_BIT, i * 4, 4, &value);
    }
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 128);
  t.Expect(out.as<uint32_t>()[30] == 0xf000001e && out.as<uint32_t>()[31] == 0x1f1f1f1f, "wrong words");
}

VK_CASE(compute, specialization) {
  Gpu& gpu = t.gpu();
  struct {
    VkBool32 flag = VK_TRUE;
    float scale = 2.5f;
    int32_t offset = -7;
    uint32_t size = 33;
    uint64_t wide = 0x123456789abcdef0;
  } values;
  const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}, {3, 12, 4}, {4, 16, 8}};
  const VkSpecializationInfo info = {5, entries, sizeof values, &values};
  const Buffer out = gpu.MakeBuffer(4096, kStorage);
  ComputeJob with(gpu, special_comp, sizeof special_comp, {&out}, 0, &info);
  gpu.Run([&](VkCommandBuffer commands) { with.Dispatch(commands, 1); });
  t.Bytes("specialized", out.data, 512);
  t.Expect(out.as<uint32_t>()[4] == 33 && out.as<int32_t>()[2] == -7, "the constants did not arrive");
  memset(out.data, 0, out.size);
  ComputeJob without(gpu, special_comp, sizeof special_comp, {&out});
  gpu.Run([&](VkCommandBuffer commands) { without.Dispatch(commands, 1); });
  t.Bytes("default", out.data, 512);
  t.Expect(out.as<uint32_t>()[4] == 8, "the default is %u", out.as<uint32_t>()[4]);
}

VK_CASE(compute, shared_memory) {
  Gpu& gpu = t.gpu();
  const Buffer in = gpu.MakeBuffer(4 * 1024 * 8, kStorage);
  const Buffer out = gpu.MakeBuffer(64, kStorage);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 8192; i++) sum += in.as<uint32_t>()[i] = i * 37;
  ComputeJob job(gpu, reduce_comp, sizeof reduce_comp, {&in, &out});
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 32); });
  t.Bytes("sum", out.data, 8);
  t.Expect(out.as<uint32_t>()[0] == sum, "the sum is %u, not %u", out.as<uint32_t>()[0], sum);
}

VK_CASE(compute, atomics) {
  Gpu& gpu = t.gpu();
  const Buffer out = gpu.MakeBuffer(256, kStorage);
  out.as<uint32_t>()[2] = 0xffffffff;
  ComputeJob job(gpu, atomics_comp, sizeof atomics_comp, {&out});
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 64); });
  t.Bytes("result", out.data, 64);
  t.Expect(out.as<uint32_t>()[0] == 4096, "%u additions of 4096", out.as<uint32_t>()[0]);
  t.Expect(out.as<uint64_t>()[3] == 4096ull << 32, "the 64-bit sum is wrong");
}

VK_CASE(compute, atomic_float) {
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT};
  Gpu& gpu = t.gpu({.extensions = {VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME}, .features = &features});
  const Buffer out = gpu.MakeBuffer(64, kStorage);
  ComputeJob job(gpu, atomic_float_comp, sizeof atomic_float_comp, {&out});
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 16); });
  t.Float("sum", out.as<float>()[0]);
  t.Expect(out.as<float>()[0] == 512.0f, "the sum is %f", static_cast<double>(out.as<float>()[0]));
}

VK_CASE(compute, subgroups) {
  Gpu& gpu = t.gpu();
  const Buffer out = gpu.MakeBuffer(4096, kStorage);
  ComputeJob job(gpu, subgroup_comp, sizeof subgroup_comp, {&out});
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 4); });
  t.Bytes("result", out.data, 2048);
}

VK_CASE(compute, types) {
  // 8, 16 and 64 bits in storage; 16-bit floats.
  Gpu& gpu = t.gpu();
  const Buffer in = gpu.MakeBuffer(1024, kStorage);
  const Buffer out = gpu.MakeBuffer(2048, kStorage);
  Random(1).Fill(in.data, in.size);
  ComputeJob job(gpu, types_comp, sizeof types_comp, {&in, &out});
  gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 1); });
  t.Bytes("result", out.data, out.size);
  t.Expect(out.as<uint64_t>()[1] == uint64_t{in.as<uint8_t>()[1]} * 0x100000001ull, "a 64-bit product is wrong");
}

VK_CASE(compute, device_address) {
  Gpu& gpu = t.gpu();
  constexpr VkBufferUsageFlags kAddressed = kStorage | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  // A linked list of three nodes in three buffers; the shader follows the addresses.
  struct Node {
    VkDeviceAddress next;
    uint32_t value, padding;
  };
  const Buffer nodes[3] = {gpu.MakeBuffer(64, kAddressed), gpu.MakeBuffer(64, kAddressed),
                           gpu.MakeBuffer(64, kAddressed)};
  const Buffer out = gpu.MakeBuffer(64, kAddressed);
  for (uint32_t i = 0; i < 3; i++) *nodes[i].as<Node>() = {i < 2 ? nodes[i + 1].address : 0, 10 * (i + 1), 0};
  const VkPipelineLayout layout = gpu.MakeLayout({}, {{VK_SHADER_STAGE_COMPUTE_BIT, 0, 16}});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(address_comp, sizeof address_comp), layout);
  const VkDeviceAddress constants[2] = {nodes[0].address, out.address};
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 16, constants);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Value("sum", out.as<uint32_t>()[0]);
  t.Expect(out.as<uint32_t>()[0] == 60 && out.as<uint32_t>()[1] == 3, "the list was not followed");
  VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = out.buffer};
  t.Expect(vkGetBufferDeviceAddress(gpu.device, &info) == out.address, "the address changed");
  vkGetBufferOpaqueCaptureAddress(gpu.device, &info);
}

VK_CASE(compute, many_pipelines) {
  // Created in one call, with a derivative and a cache.
  Gpu& gpu = t.gpu();
  const Buffer out = gpu.MakeBuffer(4096, kStorage);
  ComputeJob job(gpu, special_comp, sizeof special_comp, {&out});
  VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache = VK_NULL_HANDLE;
  VK(vkCreatePipelineCache(gpu.device, &cache_info, nullptr, &cache));
  const VkShaderModule shader = gpu.MakeShader(special_comp, sizeof special_comp);
  constexpr uint32_t kCount = 8;
  uint32_t sizes[kCount];
  VkSpecializationMapEntry entry = {3, 0, 4};
  VkSpecializationInfo special[kCount];
  VkComputePipelineCreateInfo infos[kCount];
  VkPipeline pipelines[kCount];
  for (uint32_t i = 0; i < kCount; i++) {
    sizes[i] = i + 1;
    special[i] = {1, &entry, 4, &sizes[i]};
    infos[i] = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    infos[i].flags = i == 0 ? VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT : VK_PIPELINE_CREATE_DERIVATIVE_BIT;
    infos[i].stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    infos[i].stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    infos[i].stage.module = shader;
    infos[i].stage.pName = "main";
    infos[i].stage.pSpecializationInfo = &special[i];
    infos[i].layout = job.layout;
    infos[i].basePipelineIndex = i == 0 ? -1 : 0;
  }
  VK(vkCreateComputePipelines(gpu.device, cache, kCount, infos, nullptr, pipelines));
  for (uint32_t i = 0; i < kCount; i++) {
    gpu.Run([&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines[i]);
      vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, job.layout, 0, 1, &job.set, 0, nullptr);
      vkCmdDispatch(commands, 1, 1, 1);
    });
    t.Expect(out.as<uint32_t>()[4] == i + 1, "pipeline %u has %u", i, out.as<uint32_t>()[4]);
    t.Bytes("result", out.data, 512);
  }
  for (const VkPipeline pipeline : pipelines) vkDestroyPipeline(gpu.device, pipeline, nullptr);
  vkDestroyPipelineCache(gpu.device, cache, nullptr);
}

}  // namespace sluice::vktest
