// Descriptor sets: every type, and every way to write them.
#include <cstring>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/array_comp.h"
#include "tests/vulkan/shaders/block_comp.h"
#include "tests/vulkan/shaders/images_comp.h"
#include "tests/vulkan/shaders/index_comp.h"
#include "tests/vulkan/shaders/null_comp.h"
#include "tests/vulkan/shaders/pair_comp.h"
#include "tests/vulkan/shaders/texel_comp.h"

namespace sluice::vktest {
namespace {

constexpr VkBufferUsageFlags kStorage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
constexpr VkShaderStageFlags kCompute = VK_SHADER_STAGE_COMPUTE_BIT;
constexpr VkDescriptorType kStorageBuffer = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;

// A pipeline of shaders/pair.comp: out (binding 1) = uniform (binding 0) + 1, 16 words.
struct Pair {
  Gpu& gpu;
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline pipeline;
  Buffer in, out;

  Pair(Gpu& the_gpu, VkDescriptorType in_type, VkDescriptorType out_type, VkDescriptorSetLayoutCreateFlags flags = 0)
      : gpu(the_gpu) {
    set_layout = gpu.MakeSetLayout({{0, in_type, 1, kCompute, nullptr}, {1, out_type, 1, kCompute, nullptr}}, flags);
    layout = gpu.MakeLayout({set_layout});
    pipeline = gpu.MakeCompute(gpu.MakeShader(pair_comp, sizeof pair_comp), layout);
    in = gpu.MakeBuffer(4096, kStorage);
    out = gpu.MakeBuffer(4096, kStorage);
    for (uint32_t i = 0; i < 1024; i++) in.as<uint32_t>()[i] = i * 10;
  }
  void Bind(VkCommandBuffer commands) const { vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline); }
};

constexpr VkDescriptorType kUniform = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;

void RunSet(const Pair& pair, VkDescriptorSet set, const std::vector<uint32_t>& offsets = {}) {
  pair.gpu.Run([&](VkCommandBuffer commands) {
    pair.Bind(commands);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pair.layout, 0, 1, &set,
                            static_cast<uint32_t>(offsets.size()), offsets.data());
    vkCmdDispatch(commands, 1, 1, 1);
  });
}

struct TemplateData {
  VkDescriptorBufferInfo out;
  uint32_t gap;
  VkDescriptorBufferInfo in;
};

VkDescriptorUpdateTemplate MakeTemplate(const Pair& pair, VkDescriptorUpdateTemplateType type) {
  const VkDescriptorUpdateTemplateEntry entries[2] = {{0, 0, 1, kUniform, offsetof(TemplateData, in), 0},
                                                      {1, 0, 1, kStorageBuffer, offsetof(TemplateData, out), 0}};
  VkDescriptorUpdateTemplateCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_UPDATE_TEMPLATE_CREATE_INFO};
  info.descriptorUpdateEntryCount = 2;
  info.pDescriptorUpdateEntries = entries;
  info.templateType = type;
  info.descriptorSetLayout = pair.set_layout;
  info.pipelineBindPoint = VK_PIPELINE_BIND_POINT_COMPUTE;
  info.pipelineLayout = pair.layout;
  info.set = 0;
  VkDescriptorUpdateTemplate result = VK_NULL_HANDLE;
  VK(vkCreateDescriptorUpdateTemplate(pair.gpu.device, &info, nullptr, &result));
  pair.gpu.Defer([&gpu = pair.gpu, result] { vkDestroyDescriptorUpdateTemplate(gpu.device, result, nullptr); });
  return result;
}

}  // namespace

VK_CASE(descriptors, write_and_copy) {
  Gpu& gpu = t.gpu();
  Pair pair(gpu, kUniform, kStorageBuffer);
  const VkDescriptorPool pool = gpu.MakePool(2, {{kUniform, 2}, {kStorageBuffer, 2}});
  const VkDescriptorSet first = gpu.MakeSet(pool, pair.set_layout), second = gpu.MakeSet(pool, pair.set_layout);
  WriteBuffer(gpu, first, 0, kUniform, pair.in.buffer, 64, 64);
  WriteBuffer(gpu, first, 1, kStorageBuffer, pair.out.buffer, 256, 64);
  VkCopyDescriptorSet copies[2] = {{.sType = VK_STRUCTURE_TYPE_COPY_DESCRIPTOR_SET},
                                   {.sType = VK_STRUCTURE_TYPE_COPY_DESCRIPTOR_SET}};
  for (uint32_t i = 0; i < 2; i++) {
    copies[i].srcSet = first;
    copies[i].dstSet = second;
    copies[i].srcBinding = copies[i].dstBinding = i;
    copies[i].descriptorCount = 1;
  }
  vkUpdateDescriptorSets(gpu.device, 0, nullptr, 2, copies);
  RunSet(pair, second);
  t.Bytes("result", pair.out.data, 512);
  t.Expect(pair.out.as<uint32_t>()[64] == 161 && pair.out.as<uint32_t>()[79] == 311, "wrong words");
}

VK_CASE(descriptors, update_between_submissions) {
  Gpu& gpu = t.gpu();
  Pair pair(gpu, kUniform, kStorageBuffer);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{kUniform, 1}, {kStorageBuffer, 1}}), pair.set_layout);
  for (uint32_t i = 0; i < 32; i++) {
    WriteBuffer(gpu, set, 0, kUniform, pair.in.buffer, i * 64, 64);
    WriteBuffer(gpu, set, 1, kStorageBuffer, pair.out.buffer, (31 - i) * 64, 64);
    RunSet(pair, set);
  }
  t.Bytes("result", pair.out.data, 4096);
  t.Expect(pair.out.as<uint32_t>()[0] == 31 * 160 + 1, "wrong words");
}

VK_CASE(descriptors, dynamic_offsets) {
  Gpu& gpu = t.gpu();
  constexpr VkDescriptorType kUniformDynamic = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC;
  constexpr VkDescriptorType kStorageDynamic = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC;
  Pair pair(gpu, kUniformDynamic, kStorageDynamic);
  const VkDescriptorSet set =
      gpu.MakeSet(gpu.MakePool(1, {{kUniformDynamic, 1}, {kStorageDynamic, 1}}), pair.set_layout);
  WriteBuffer(gpu, set, 0, kUniformDynamic, pair.in.buffer, 0, 64);
  WriteBuffer(gpu, set, 1, kStorageDynamic, pair.out.buffer, 64, 64);
  RunSet(pair, set, {256, 1024});
  RunSet(pair, set, {0, 0});
  t.Bytes("result", pair.out.data, 4096);
  t.Expect(pair.out.as<uint32_t>()[16] == 1 && pair.out.as<uint32_t>()[272] == 641, "wrong words");
}

VK_CASE(descriptors, update_template) {
  Gpu& gpu = t.gpu();
  Pair pair(gpu, kUniform, kStorageBuffer);
  const VkDescriptorUpdateTemplate update = MakeTemplate(pair, VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{kUniform, 1}, {kStorageBuffer, 1}}), pair.set_layout);
  const TemplateData data = {{pair.out.buffer, 128, 64}, 0, {pair.in.buffer, 192, 64}};
  vkUpdateDescriptorSetWithTemplate(gpu.device, set, update, &data);
  RunSet(pair, set);
  t.Bytes("result", pair.out.data, 256);
  t.Expect(pair.out.as<uint32_t>()[32] == 481, "the first word is %u", pair.out.as<uint32_t>()[32]);
}

VK_CASE(descriptors, update_template_arrays) {
  // An entry with a stride over an array of storage buffers, beginning at element 1.
  Gpu& gpu = t.gpu();
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, kStorageBuffer, 4, kCompute, nullptr}, {1, kStorageBuffer, 1, kCompute, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(array_comp, sizeof array_comp), layout);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{kStorageBuffer, 5}}), set_layout);
  const Buffer in = gpu.MakeBuffer(4096, kStorage), out = gpu.MakeBuffer(256, kStorage);
  for (uint32_t i = 0; i < 1024; i++) in.as<uint32_t>()[i] = i;
  struct Element {
    VkDescriptorBufferInfo info;
    uint64_t gap[3];
  };
  Element elements[5];
  for (uint32_t i = 0; i < 4; i++) elements[i].info = {in.buffer, i * 512, 256};
  elements[4].info = {out.buffer, 0, 256};
  const VkDescriptorUpdateTemplateEntry entries[3] = {{0, 1, 3, kStorageBuffer, sizeof(Element), sizeof(Element)},
                                                      {0, 0, 1, kStorageBuffer, 0, 0},
                                                      {1, 0, 1, kStorageBuffer, 4 * sizeof(Element), 0}};
  VkDescriptorUpdateTemplateCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_UPDATE_TEMPLATE_CREATE_INFO};
  info.descriptorUpdateEntryCount = 3;
  info.pDescriptorUpdateEntries = entries;
  info.templateType = VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET;
  info.descriptorSetLayout = set_layout;
  VkDescriptorUpdateTemplate update = VK_NULL_HANDLE;
  VK(vkCreateDescriptorUpdateTemplate(gpu.device, &info, nullptr, &update));
  vkUpdateDescriptorSetWithTemplate(gpu.device, set, update, elements);
  vkDestroyDescriptorUpdateTemplate(gpu.device, update, nullptr);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 64);
  t.Expect(out.as<uint32_t>()[3] == 3 * 128 + 3, "element 3 gives %u", out.as<uint32_t>()[3]);
}

VK_CASE(descriptors, push) {
  Gpu& gpu = t.gpu({.extensions = {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME}});
  DEVICE_FUNCTION(gpu, vkCmdPushDescriptorSetKHR);
  DEVICE_FUNCTION(gpu, vkCmdPushDescriptorSetWithTemplateKHR);
  Pair pair(gpu, kUniform, kStorageBuffer, VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR);
  const VkDescriptorUpdateTemplate update = MakeTemplate(pair, VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_PUSH_DESCRIPTORS_KHR);
  gpu.Run([&](VkCommandBuffer commands) {
    pair.Bind(commands);
    for (uint32_t i = 0; i < 8; i++) {
      const VkDescriptorBufferInfo infos[2] = {{pair.in.buffer, i * 64, 64}, {pair.out.buffer, (8 - i) * 64, 64}};
      VkWriteDescriptorSet writes[2] = {{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET},
                                        {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET}};
      for (uint32_t k = 0; k < 2; k++) {
        writes[k].dstBinding = k;
        writes[k].descriptorCount = 1;
        writes[k].descriptorType = k == 0 ? kUniform : kStorageBuffer;
        writes[k].pBufferInfo = &infos[k];
      }
      vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pair.layout, 0, 2, writes);
      vkCmdDispatch(commands, 1, 1, 1);
    }
    const TemplateData data = {{pair.out.buffer, 2048, 64}, 0, {pair.in.buffer, 64, 64}};
    vkCmdPushDescriptorSetWithTemplateKHR(commands, update, pair.layout, 0, &data);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", pair.out.data, 4096);
  t.Expect(pair.out.as<uint32_t>()[16] == 7 * 160 + 1 && pair.out.as<uint32_t>()[512] == 161, "wrong words");
}

VK_CASE(descriptors, inline_uniform_block) {
  Gpu& gpu = t.gpu();
  constexpr VkDescriptorType kBlock = VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK;
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, kBlock, 64, kCompute, nullptr}, {1, kStorageBuffer, 1, kCompute, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(block_comp, sizeof block_comp), layout);
  VkDescriptorPoolInlineUniformBlockCreateInfo blocks = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_INLINE_UNIFORM_BLOCK_CREATE_INFO};
  blocks.maxInlineUniformBlockBindings = 1;
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{kBlock, 64}, {kStorageBuffer, 1}}, 0, &blocks), set_layout);
  const Buffer out = gpu.MakeBuffer(256, kStorage);
  WriteBuffer(gpu, set, 1, kStorageBuffer, out.buffer);
  uint32_t words[16];
  for (uint32_t i = 0; i < 16; i++) words[i] = 100 + i;
  // In two pieces: bytes 0..16, then 16..64.
  for (const uint32_t at : {0u, 16u}) {
    VkWriteDescriptorSetInlineUniformBlock block = {.sType =
                                                        VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET_INLINE_UNIFORM_BLOCK};
    block.dataSize = at == 0 ? 16 : 48;
    block.pData = words + at / 4;
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .pNext = &block};
    write.dstSet = set;
    write.dstBinding = 0;
    write.dstArrayElement = at;
    write.descriptorCount = block.dataSize;
    write.descriptorType = kBlock;
    vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
  }
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 64);
  t.Expect(out.as<uint32_t>()[15] == 115, "the last word is %u", out.as<uint32_t>()[15]);
}

VK_CASE(descriptors, images_and_samplers) {
  Gpu& gpu = t.gpu();
  // Combined, separate image and sampler, immutable sampler, storage image, in one set.
  VkSamplerCreateInfo sampler_info = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
  sampler_info.addressModeU = sampler_info.addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER;
  sampler_info.borderColor = VK_BORDER_COLOR_FLOAT_OPAQUE_WHITE;
  sampler_info.maxLod = VK_LOD_CLAMP_NONE;
  const VkSampler nearest = gpu.MakeSampler(sampler_info);
  sampler_info.magFilter = sampler_info.minFilter = VK_FILTER_LINEAR;
  sampler_info.mipmapMode = VK_SAMPLER_MIPMAP_MODE_LINEAR;
  sampler_info.addressModeU = sampler_info.addressModeV = VK_SAMPLER_ADDRESS_MODE_MIRRORED_REPEAT;
  const VkSampler linear = gpu.MakeSampler(sampler_info);
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, kCompute, nullptr},
                         {1, VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, 1, kCompute, nullptr},
                         {2, VK_DESCRIPTOR_TYPE_SAMPLER, 1, kCompute, nullptr},
                         {3, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, kCompute, &linear},
                         {4, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1, kCompute, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(images_comp, sizeof images_comp), layout);
  ImageOptions options;
  options.extent = {16, 16, 1};
  options.usage |= VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT;
  const Image source = gpu.MakeImage(options), target = gpu.MakeImage(options);
  std::vector<uint8_t> data(16 * 16 * 4);
  Random(1).Fill(data.data(), data.size());
  gpu.Write(source, data.data(), data.size());
  const VkDescriptorPool pool = gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 2},
                                                 {VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, 1},
                                                 {VK_DESCRIPTOR_TYPE_SAMPLER, 1},
                                                 {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1}});
  const VkDescriptorSet set = gpu.MakeSet(pool, set_layout);
  WriteImage(gpu, set, 0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, source.view, nearest);
  WriteImage(gpu, set, 1, VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, source.view);
  WriteImage(gpu, set, 2, VK_DESCRIPTOR_TYPE_SAMPLER, VK_NULL_HANDLE, nearest);
  WriteImage(gpu, set, 3, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, source.view);
  WriteImage(gpu, set, 4, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, target.view);
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, target);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 2, 2, 1);
  });
  const std::vector<uint8_t> result = gpu.Read(target);
  t.Bytes("result", result);
  t.Expect(result[0] == data[0] && result[4 * 17] == data[4 * 17], "the nearest sample is wrong");
}

VK_CASE(descriptors, texel_buffers) {
  Gpu& gpu = t.gpu();
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 1, kCompute, nullptr},
                         {1, VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, 1, kCompute, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(texel_comp, sizeof texel_comp), layout);
  const Buffer in = gpu.MakeBuffer(1024, VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT);
  const Buffer out = gpu.MakeBuffer(1024, VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT);
  Random(2).Fill(in.data, in.size);
  VkBufferView views[2];
  for (int i = 0; i < 2; i++) {
    VkBufferViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO};
    info.buffer = i == 0 ? in.buffer : out.buffer;
    info.format = i == 0 ? VK_FORMAT_R8G8B8A8_UNORM : VK_FORMAT_R32_UINT;
    info.offset = 64;
    info.range = i == 0 ? 256 : VK_WHOLE_SIZE;
    VK(vkCreateBufferView(gpu.device, &info, nullptr, &views[i]));
    gpu.Defer([&gpu, view = views[i]] { vkDestroyBufferView(gpu.device, view, nullptr); });
  }
  const VkDescriptorSet set = gpu.MakeSet(
      gpu.MakePool(1, {{VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 1}, {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, 1}}),
      set_layout);
  for (uint32_t i = 0; i < 2; i++) {
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.dstSet = set;
    write.dstBinding = i;
    write.descriptorCount = 1;
    write.descriptorType = i == 0 ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER;
    write.pTexelBufferView = &views[i];
    vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
  }
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 512);
  t.Expect(out.as<uint32_t>()[16] == (in.as<uint8_t>()[64] | 64u << 16), "the first texel is wrong");
}

VK_CASE(descriptors, indexing) {
  // Update after bind, partially bound, a variable count, non-uniform indices.
  Gpu& gpu = t.gpu();
  if (!gpu.features12.runtimeDescriptorArray || !gpu.features12.descriptorBindingStorageBufferUpdateAfterBind ||
      !gpu.features12.descriptorBindingPartiallyBound || !gpu.features12.descriptorBindingVariableDescriptorCount ||
      !gpu.features12.shaderStorageBufferArrayNonUniformIndexing) {
    t.Skip("no descriptor indexing");
  }
  const VkDescriptorBindingFlags flags[2] = {VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT,
                                             VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT |
                                                 VK_DESCRIPTOR_BINDING_PARTIALLY_BOUND_BIT |
                                                 VK_DESCRIPTOR_BINDING_VARIABLE_DESCRIPTOR_COUNT_BIT};
  VkDescriptorSetLayoutBindingFlagsCreateInfo flags_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO};
  flags_info.bindingCount = 2;
  flags_info.pBindingFlags = flags;
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, kStorageBuffer, 1, kCompute, nullptr}, {1, kStorageBuffer, 64, kCompute, nullptr}},
                        VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT, &flags_info);
  VkDescriptorSetLayoutSupport support = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_SUPPORT};
  VkDescriptorSetVariableDescriptorCountLayoutSupport most = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_VARIABLE_DESCRIPTOR_COUNT_LAYOUT_SUPPORT};
  support.pNext = &most;
  const VkDescriptorSetLayoutBinding bindings[2] = {{0, kStorageBuffer, 1, kCompute, nullptr},
                                                    {1, kStorageBuffer, 64, kCompute, nullptr}};
  VkDescriptorSetLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .pNext = &flags_info};
  layout_info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT;
  layout_info.bindingCount = 2;
  layout_info.pBindings = bindings;
  vkGetDescriptorSetLayoutSupport(gpu.device, &layout_info, &support);
  t.Value("supported", support.supported);
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(index_comp, sizeof index_comp), layout);
  const uint32_t count = 20;
  VkDescriptorSetVariableDescriptorCountAllocateInfo variable = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_VARIABLE_DESCRIPTOR_COUNT_ALLOCATE_INFO};
  variable.descriptorSetCount = 1;
  variable.pDescriptorCounts = &count;
  const VkDescriptorSet set = gpu.MakeSet(
      gpu.MakePool(1, {{kStorageBuffer, 65}}, VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT), set_layout, &variable);
  const Buffer in = gpu.MakeBuffer(8192, kStorage), out = gpu.MakeBuffer(256, kStorage);
  for (uint32_t i = 0; i < 2048; i++) in.as<uint32_t>()[i] = i;
  WriteBuffer(gpu, set, 0, kStorageBuffer, out.buffer);
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  vkCmdDispatch(commands, 1, 1, 1);
  FullBarrier(commands);
  VK(vkEndCommandBuffer(commands));
  // After recording; the odd elements are never bound and never used.
  for (uint32_t i = 0; i < 20; i += 2) WriteBuffer(gpu, set, 1, kStorageBuffer, in.buffer, i * 256, 64, i);
  gpu.SubmitAndWait(commands);
  t.Bytes("result", out.data, 64);
  t.Expect(out.as<uint32_t>()[9] == 18 * 64, "element 18 gives %u", out.as<uint32_t>()[9]);
}

VK_CASE(descriptors, null_descriptors) {
  VkPhysicalDeviceRobustness2FeaturesEXT features = {.sType =
                                                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT};
  Gpu& gpu =
      t.gpu({.extensions = {VK_EXT_ROBUSTNESS_2_EXTENSION_NAME}, .features = &features, .robust_buffer_access = true});
  if (features.nullDescriptor == VK_FALSE) t.Skip("no null descriptors");
  const VkDescriptorSetLayout set_layout =
      gpu.MakeSetLayout({{0, kStorageBuffer, 1, kCompute, nullptr},
                         {1, kStorageBuffer, 1, kCompute, nullptr},
                         {2, VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, 1, kCompute, nullptr}});
  const VkPipelineLayout layout = gpu.MakeLayout({set_layout});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(null_comp, sizeof null_comp), layout);
  const VkDescriptorSet set =
      gpu.MakeSet(gpu.MakePool(1, {{kStorageBuffer, 2}, {VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, 1}}), set_layout);
  const Buffer out = gpu.MakeBuffer(64, kStorage);
  memset(out.data, 0xff, 64);
  WriteBuffer(gpu, set, 0, kStorageBuffer, out.buffer);
  WriteBuffer(gpu, set, 1, kStorageBuffer, VK_NULL_HANDLE);
  WriteImage(gpu, set, 2, VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, VK_NULL_HANDLE);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 16);
  t.Expect(out.as<uint32_t>()[0] == 0, "a null buffer reads %u", out.as<uint32_t>()[0]);
}

VK_CASE(descriptors, robust_buffer_access) {
  // Writes past the range of a descriptor do nothing.
  VkPhysicalDeviceRobustness2FeaturesEXT features = {.sType =
                                                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT};
  Gpu& gpu =
      t.gpu({.extensions = {VK_EXT_ROBUSTNESS_2_EXTENSION_NAME}, .features = &features, .robust_buffer_access = true});
  Pair pair(gpu, kUniform, kStorageBuffer);
  const VkDescriptorSet set = gpu.MakeSet(gpu.MakePool(1, {{kUniform, 1}, {kStorageBuffer, 1}}), pair.set_layout);
  WriteBuffer(gpu, set, 0, kUniform, pair.in.buffer, 0, 64);
  WriteBuffer(gpu, set, 1, kStorageBuffer, pair.out.buffer, 0, 48);
  RunSet(pair, set);
  t.Value("enabled", features.robustBufferAccess2);
  t.Bytes("result", pair.out.data, 128);
  t.Expect(pair.out.as<uint32_t>()[11] == 111 && pair.out.as<uint32_t>()[12] == 0, "a write past the range was done");
}

VK_CASE(descriptors, pools) {
  Gpu& gpu = t.gpu();
  Pair pair(gpu, kUniform, kStorageBuffer);
  const VkDescriptorPool pool =
      gpu.MakePool(64, {{kUniform, 64}, {kStorageBuffer, 64}}, VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT);
  const std::vector<VkDescriptorSetLayout> layouts(64, pair.set_layout);
  std::vector<VkDescriptorSet> sets(64);
  VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.pSetLayouts = layouts.data();
  info.descriptorSetCount = 64;
  VK(vkAllocateDescriptorSets(gpu.device, &info, sets.data()));
  VK(vkFreeDescriptorSets(gpu.device, pool, 32, sets.data()));
  info.descriptorSetCount = 32;
  VK(vkAllocateDescriptorSets(gpu.device, &info, sets.data()));
  VK(vkResetDescriptorPool(gpu.device, pool, 0));
  info.descriptorSetCount = 64;
  VK(vkAllocateDescriptorSets(gpu.device, &info, sets.data()));
  for (uint32_t i = 0; i < 64; i++) {
    WriteBuffer(gpu, sets[i], 0, kUniform, pair.in.buffer, i * 64, 64);
    WriteBuffer(gpu, sets[i], 1, kStorageBuffer, pair.out.buffer, (63 - i) * 64, 64);
  }
  gpu.Run([&](VkCommandBuffer commands) {
    pair.Bind(commands);
    for (const VkDescriptorSet set : sets) {
      vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pair.layout, 0, 1, &set, 0, nullptr);
      vkCmdDispatch(commands, 1, 1, 1);
    }
  });
  t.Bytes("result", pair.out.data, 4096);
  // Freeing VK_NULL_HANDLE is allowed.
  const VkDescriptorSet none = VK_NULL_HANDLE;
  VK(vkFreeDescriptorSets(gpu.device, pool, 1, &none));
  // Pools that are destroyed with their sets, over and over.
  for (int i = 0; i < 200; i++) {
    VkDescriptorPoolSize size = {kStorageBuffer, 8};
    VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool_info.maxSets = 4;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &size;
    VkDescriptorPool passing = VK_NULL_HANDLE;
    VK(vkCreateDescriptorPool(gpu.device, &pool_info, nullptr, &passing));
    vkDestroyDescriptorPool(gpu.device, passing, nullptr);
  }
}

VK_CASE(descriptors, several_sets) {
  // Two sets bound by one call, then one of them replaced: the other stays bound.
  Gpu& gpu = t.gpu();
  const VkDescriptorSetLayout one =
      gpu.MakeSetLayout({{0, kStorageBuffer, 4, kCompute, nullptr}, {1, kStorageBuffer, 1, kCompute, nullptr}});
  const VkDescriptorSetLayout empty = gpu.MakeSetLayout({});
  const VkPipelineLayout layout = gpu.MakeLayout({one, empty, one});
  const VkPipeline pipeline = gpu.MakeCompute(gpu.MakeShader(array_comp, sizeof array_comp), layout);
  const VkDescriptorPool pool = gpu.MakePool(4, {{kStorageBuffer, 20}});
  VkDescriptorSet sets[3] = {gpu.MakeSet(pool, one), gpu.MakeSet(pool, empty), gpu.MakeSet(pool, one)};
  const Buffer in = gpu.MakeBuffer(4096, kStorage), out = gpu.MakeBuffer(1024, kStorage);
  for (uint32_t i = 0; i < 1024; i++) in.as<uint32_t>()[i] = 7 * i;
  for (const int s : {0, 2}) {
    for (uint32_t i = 0; i < 4; i++)
      WriteBuffer(gpu, sets[s], 0, kStorageBuffer, in.buffer, 256 * i + 64 * static_cast<uint32_t>(s), 64, i);
    WriteBuffer(gpu, sets[s], 1, kStorageBuffer, out.buffer, 256 * static_cast<uint32_t>(s), 256);
  }
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 3, sets, 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &sets[2], 0, nullptr);
    vkCmdDispatch(commands, 1, 1, 1);
  });
  t.Bytes("result", out.data, 1024);
}

}  // namespace sluice::vktest
