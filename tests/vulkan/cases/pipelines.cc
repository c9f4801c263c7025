// Pipeline caches and libraries, shader modules, creation flags.
#include <cstring>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/pipeline.h"
#include "tests/vulkan/shaders/add_comp.h"
#include "tests/vulkan/shaders/rect_frag.h"
#include "tests/vulkan/shaders/rect_vert.h"

namespace sluice::vktest {
namespace {

constexpr VkPipelineBindPoint kGraphics = VK_PIPELINE_BIND_POINT_GRAPHICS;

VkPipelineCache MakeCache(Gpu& gpu, const std::vector<uint8_t>& data = {}) {
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VkPipelineCache cache = VK_NULL_HANDLE;
  VK(vkCreatePipelineCache(gpu.device, &info, nullptr, &cache));
  gpu.Defer([&gpu, cache] { vkDestroyPipelineCache(gpu.device, cache, nullptr); });
  return cache;
}

std::vector<uint8_t> CacheData(Gpu& gpu, VkPipelineCache cache) {
  size_t size = 0;
  VK(vkGetPipelineCacheData(gpu.device, cache, &size, nullptr));
  std::vector<uint8_t> data(size);
  VK(vkGetPipelineCacheData(gpu.device, cache, &size, data.data()));
  data.resize(size);
  return data;
}

}  // namespace

VK_CASE(pipeline, cache) {
  Gpu& gpu = t.gpu();
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkPipelineCache cache = MakeCache(gpu), other = MakeCache(gpu);
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateGraphicsPipelines(gpu.device, cache, 1, &builder.Info(), nullptr, &pipeline));
  const std::vector<uint8_t> data = CacheData(gpu, cache);
  t.Expect(data.size() >= sizeof(VkPipelineCacheHeaderVersionOne), "%zu bytes of cache", data.size());
  VkPipelineCacheHeaderVersionOne header = {};
  memcpy(&header, data.data(), std::min(sizeof header, data.size()));
  t.Value("header.size", header.headerSize);
  t.Value("header.version", header.headerVersion);
  t.Value("header.vendor", header.vendorID);
  t.Expect(header.vendorID == gpu.properties.vendorID, "the cache is of another vendor");
  t.Expect(memcmp(header.pipelineCacheUUID, gpu.properties.pipelineCacheUUID, VK_UUID_SIZE) == 0,
           "the cache has another UUID");
  // Into a new cache, and merged.
  const VkPipelineCache filled = MakeCache(gpu, data);
  VK(vkMergePipelineCaches(gpu.device, other, 1, &filled));
  // Too small an array: VK_INCOMPLETE.
  if (data.size() > 4) {
    size_t little = 4;
    std::vector<uint8_t> four(4);
    const VkResult result = vkGetPipelineCacheData(gpu.device, cache, &little, four.data());
    t.Result("little", result);
    t.Expect(result == VK_INCOMPLETE, "4 bytes of cache: %d", result);
  }
  vkDestroyPipeline(gpu.device, pipeline, nullptr);
  VK(vkCreateGraphicsPipelines(gpu.device, other, 1, &builder.Info(), nullptr, &pipeline));
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout, {.x0 = 0, .red = 1});
  });
  t.Bytes("picture", target.Pixels());
  vkDestroyPipeline(gpu.device, pipeline, nullptr);
}

VK_CASE(pipeline, cache_garbage) {
  // Data that is no cache is ignored.
  Gpu& gpu = t.gpu();
  std::vector<uint8_t> data(1000);
  Random(1).Fill(data.data(), data.size());
  VkPipelineCacheHeaderVersionOne header = {32, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, 0x1234, 0x5678, {}};
  memcpy(data.data(), &header, sizeof header);
  const VkPipelineCache cache = MakeCache(gpu, data);
  const Buffer buffer = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&buffer}, 8);
  VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = gpu.MakeShader(add_comp, sizeof add_comp);
  info.stage.pName = "main";
  info.layout = job.layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateComputePipelines(gpu.device, cache, 1, &info, nullptr, &pipeline));
  vkDestroyPipeline(gpu.device, pipeline, nullptr);
}

VK_CASE(pipeline, cache_control) {
  Gpu& gpu = t.gpu();
  if (!gpu.features13.pipelineCreationCacheControl) t.Skip("no cache control");
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  builder.flags = VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = vkCreateGraphicsPipelines(gpu.device, VK_NULL_HANDLE, 1, &builder.Info(), nullptr, &pipeline);
  t.Result("result", result);
  t.Expect((result == VK_SUCCESS) == (pipeline != VK_NULL_HANDLE), "result %d, but the handle says otherwise", result);
  vkDestroyPipeline(gpu.device, pipeline, nullptr);
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.flags = VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT;
  VkPipelineCache cache = VK_NULL_HANDLE;
  VK(vkCreatePipelineCache(gpu.device, &info, nullptr, &cache));
  vkDestroyPipelineCache(gpu.device, cache, nullptr);
}

VK_CASE(pipeline, graphics_library) {
  // Four libraries of one part each, linked to one pipeline.
  VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT};
  Gpu& gpu =
      t.gpu({.extensions = {VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME},
             .features = &features});
  Target target(gpu);
  PipelineBuilder builder(gpu, target);
  builder.RectShaders();
  const VkGraphicsPipelineCreateInfo whole = builder.Info();
  constexpr VkGraphicsPipelineLibraryFlagsEXT kParts[4] = {
      VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT,
      VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT,
      VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT,
      VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT};
  VkPipeline libraries[4];
  for (int i = 0; i < 4; i++) {
    VkPipelineRenderingCreateInfo rendering = builder.rendering;
    VkGraphicsPipelineLibraryCreateInfoEXT library = {.sType =
                                                          VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT};
    library.flags = kParts[i];
    rendering.pNext = &library;
    if (i != 3) rendering.colorAttachmentCount = 0;
    VkGraphicsPipelineCreateInfo part = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO, .pNext = &rendering};
    part.flags = VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    part.basePipelineIndex = -1;
    if (i == 0) {
      part.pVertexInputState = whole.pVertexInputState;
      part.pInputAssemblyState = whole.pInputAssemblyState;
    } else if (i == 1) {
      part.stageCount = 1;
      part.pStages = &whole.pStages[0];
      part.pViewportState = whole.pViewportState;
      part.pRasterizationState = whole.pRasterizationState;
      part.layout = builder.layout;
    } else if (i == 2) {
      part.stageCount = 1;
      part.pStages = &whole.pStages[1];
      part.pMultisampleState = whole.pMultisampleState;
      part.pDepthStencilState = whole.pDepthStencilState;
      part.layout = builder.layout;
    } else {
      part.pMultisampleState = whole.pMultisampleState;
      part.pColorBlendState = whole.pColorBlendState;
    }
    VK(vkCreateGraphicsPipelines(gpu.device, VK_NULL_HANDLE, 1, &part, nullptr, &libraries[i]));
    gpu.Defer([&gpu, library_pipeline = libraries[i]] { vkDestroyPipeline(gpu.device, library_pipeline, nullptr); });
  }
  VkPipelineLibraryCreateInfoKHR link = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR};
  link.libraryCount = 4;
  link.pLibraries = libraries;
  VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO, .pNext = &link};
  info.layout = builder.layout;
  info.basePipelineIndex = -1;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateGraphicsPipelines(gpu.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline));
  gpu.Defer([&gpu, pipeline] { vkDestroyPipeline(gpu.device, pipeline, nullptr); });
  target.Render([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, kGraphics, pipeline);
    DrawRect(commands, builder.layout, {.x0 = 0, .y0 = 0, .green = 1});
  });
  const std::vector<uint8_t> pixels = target.Pixels();
  t.Bytes("picture", pixels);
  t.Expect(CountTexels(pixels, 0xff00ff00) == 256, "%u green texels", CountTexels(pixels, 0xff00ff00));
}

VK_CASE(pipeline, destroyed_parts) {
  // Modules, layouts and set layouts may go once the pipeline is there.
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob keep(gpu, add_comp, sizeof add_comp, {&buffer}, 8);
  VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = sizeof add_comp;
  module_info.pCode = add_comp;
  VkShaderModule module = VK_NULL_HANDLE;
  VK(vkCreateShaderModule(gpu.device, &module_info, nullptr, &module));
  VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = keep.layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK(vkCreateComputePipelines(gpu.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline));
  vkDestroyShaderModule(gpu.device, module, nullptr);
  const uint32_t constants[2] = {11, 64};
  gpu.Run([&](VkCommandBuffer commands) {
    keep.Bind(commands, constants);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", buffer.data, buffer.size);
  t.Expect(buffer.as<uint32_t>()[0] == 11, "the word is %u", buffer.as<uint32_t>()[0]);
  vkDestroyPipeline(gpu.device, pipeline, nullptr);
  vkDestroyPipeline(gpu.device, VK_NULL_HANDLE, nullptr);
}

VK_CASE(pipeline, maintenance4_local_size) {
  // A pipeline layout that is destroyed while its pipeline lives (allowed since maintenance4).
  Gpu& gpu = t.gpu();
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}});
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
  VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set_layout;
  layout_info.pushConstantRangeCount = 1;
  layout_info.pPushConstantRanges = &range;
  VkPipelineLayout passing = VK_NULL_HANDLE;
  VK(vkCreatePipelineLayout(gpu.device, &layout_info, nullptr, &passing));
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(add_comp, sizeof add_comp), passing);
  vkDestroyPipelineLayout(gpu.device, passing, nullptr);
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout}, {range});
  const Buffer buffer = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1}}), set_layout);
  WriteBuffer(gpu, set, 0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffer.buffer);
  const uint32_t constants[2] = {13, 64};
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, constants);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", buffer.data, buffer.size);
}

}  // namespace sluice::vktest
