// Creating and destroying objects.
#include "bench/vulkan/cases.h"
#include "bench/vulkan/pipeline.h"
#include "bench/vulkan/shaders.h"

namespace vkbench {

// Creates n objects, waits until the driver has really made them, destroys them, waits again.
template <class Make, class Kill>
void churn(Ctx& c, Report& r, const std::string& name, int n, Make make, Kill kill) {
  using T = decltype(make(0));
  std::vector<T> v;
  v.reserve(size_t(n));
  double a = nowNs();
  for (int i = 0; i < n; i++) v.push_back(make(i));
  double b = nowNs();
  c.sync();
  double d = nowNs();
  for (auto& o : v) kill(o);
  double e = nowNs();
  c.sync();
  double f = nowNs();
  r.add("churn/" + name + "/create", (b - a) / n / 1e3, "us");
  r.add("churn/" + name + "/create_synced", (d - a) / n / 1e3, "us");
  r.add("churn/" + name + "/destroy", (e - d) / n / 1e3, "us");
  r.add("churn/" + name + "/destroy_synced", (f - d) / n / 1e3, "us");
}

void caseChurn(Ctx& c, Report& r) {
  Bin bin(c);
  const int n = 1000;
  churn(
      c, r, "buffer", n,
      [&](int i) {
        VkBufferCreateInfo ci{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
        ci.size = 4096u + 256u * unsigned(i);
        ci.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
        VkBuffer b;
        VK(vkCreateBuffer(c.dev, &ci, nullptr, &b));
        VkMemoryRequirements mr;
        vkGetBufferMemoryRequirements(c.dev, b, &mr);
        if (mr.size < ci.size || !mr.memoryTypeBits) fail("implausible buffer memory requirements");
        return b;
      },
      [&](VkBuffer b) { vkDestroyBuffer(c.dev, b, nullptr); });

  churn(
      c, r, "image", n,
      [&](int i) {
        VkImageCreateInfo ci{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
        ci.imageType = VK_IMAGE_TYPE_2D;
        ci.format = VK_FORMAT_R8G8B8A8_UNORM;
        ci.extent = {16u + unsigned(i), 16, 1};
        ci.mipLevels = ci.arrayLayers = 1;
        ci.samples = VK_SAMPLE_COUNT_1_BIT;
        ci.usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
        VkImage m;
        VK(vkCreateImage(c.dev, &ci, nullptr, &m));
        VkMemoryRequirements mr;
        vkGetImageMemoryRequirements(c.dev, m, &mr);
        if (mr.size < 64u * (16u + unsigned(i)) || !mr.memoryTypeBits) fail("implausible image memory requirements");
        return m;
      },
      [&](VkImage m) { vkDestroyImage(c.dev, m, nullptr); });

  // The same size again and again, as applications do: drivers may remember the answer.
  churn(
      c, r, "image_same", n,
      [&](int) {
        VkImageCreateInfo ci{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
        ci.imageType = VK_IMAGE_TYPE_2D;
        ci.format = VK_FORMAT_R8G8B8A8_UNORM;
        ci.extent = {64, 64, 1};
        ci.mipLevels = ci.arrayLayers = 1;
        ci.samples = VK_SAMPLE_COUNT_1_BIT;
        ci.usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
        VkImage m;
        VK(vkCreateImage(c.dev, &ci, nullptr, &m));
        VkMemoryRequirements mr;
        vkGetImageMemoryRequirements(c.dev, m, &mr);
        return m;
      },
      [&](VkImage m) { vkDestroyImage(c.dev, m, nullptr); });

  Img img = bin.image(64, 64, VK_FORMAT_R8G8B8A8_UNORM, VK_IMAGE_USAGE_SAMPLED_BIT, VK_IMAGE_ASPECT_COLOR_BIT);
  churn(
      c, r, "image_view", n,
      [&](int) {
        VkImageViewCreateInfo vi{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
        vi.image = img.i;
        vi.viewType = VK_IMAGE_VIEW_TYPE_2D;
        vi.format = VK_FORMAT_R8G8B8A8_UNORM;
        vi.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        VkImageView v;
        VK(vkCreateImageView(c.dev, &vi, nullptr, &v));
        return v;
      },
      [&](VkImageView v) { vkDestroyImageView(c.dev, v, nullptr); });

  churn(
      c, r, "sampler", n,
      [&](int i) {
        VkSamplerCreateInfo ci{VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
        ci.magFilter = ci.minFilter = VK_FILTER_LINEAR;
        ci.maxLod = float(i % 12);
        VkSampler s;
        VK(vkCreateSampler(c.dev, &ci, nullptr, &s));
        return s;
      },
      [&](VkSampler s) { vkDestroySampler(c.dev, s, nullptr); });

  churn(
      c, r, "fence", n,
      [&](int) {
        VkFenceCreateInfo ci{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        VkFence f;
        VK(vkCreateFence(c.dev, &ci, nullptr, &f));
        return f;
      },
      [&](VkFence f) { vkDestroyFence(c.dev, f, nullptr); });

  churn(
      c, r, "semaphore", n,
      [&](int) {
        VkSemaphoreCreateInfo ci{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
        VkSemaphore s;
        VK(vkCreateSemaphore(c.dev, &ci, nullptr, &s));
        return s;
      },
      [&](VkSemaphore s) { vkDestroySemaphore(c.dev, s, nullptr); });

  auto alloc = [&](VkMemoryPropertyFlags f) {
    VkMemoryAllocateInfo ai{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    ai.allocationSize = 64 << 10;
    ai.memoryTypeIndex = c.memType(~0u, f);
    VkDeviceMemory m;
    VK(vkAllocateMemory(c.dev, &ai, nullptr, &m));
    return m;
  };
  auto freeMem = [&](VkDeviceMemory m) { vkFreeMemory(c.dev, m, nullptr); };
  churn(
      c, r, "memory_64k", 200, [&](int) { return alloc(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT); }, freeMem);
  churn(
      c, r, "memory_64k_mapped", 200,
      [&](int i) {
        VkDeviceMemory m = alloc(kHost);
        void* p = nullptr;
        VK(vkMapMemory(c.dev, m, 0, VK_WHOLE_SIZE, 0, &p));
        static_cast<volatile int*>(p)[0] = i;
        return m;
      },
      freeMem);

  // Descriptor sets: allocate, write two descriptors, free in one go.
  auto sl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_ALL, nullptr},
                           {1, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_ALL, nullptr}});
  auto dp =
      bin.descriptorPool(n, {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, n}, {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, n}});
  Buf ubo = bin.buffer(256, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, kHost);
  VkSampler smp = bin.sampler();
  std::vector<VkDescriptorSet> sets;
  double a = nowNs();
  for (int i = 0; i < n; i++) sets.push_back(bin.set(dp, sl));
  double b = nowNs();
  for (auto s : sets) {
    VkDescriptorBufferInfo bi{ubo.b, 0, 256};
    VkDescriptorImageInfo ii{smp, img.v, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
    VkWriteDescriptorSet w[2]{};
    w[0] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    w[0].dstSet = s;
    w[0].descriptorCount = 1;
    w[0].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    w[0].pBufferInfo = &bi;
    w[1] = w[0];
    w[1].dstBinding = 1;
    w[1].descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
    w[1].pBufferInfo = nullptr;
    w[1].pImageInfo = &ii;
    vkUpdateDescriptorSets(c.dev, 2, w, 0, nullptr);
  }
  double d = nowNs();
  c.sync();
  double e = nowNs();
  VK(vkResetDescriptorPool(c.dev, dp, 0));
  c.sync();
  double f = nowNs();
  r.add("churn/descriptor_set/alloc", (b - a) / n / 1e3, "us");
  r.add("churn/descriptor_set/update2", (d - b) / n / 1e3, "us");
  r.add("churn/descriptor_set/alloc+update2_synced", (e - a) / n / 1e3, "us");
  r.add("churn/descriptor_set/reset_pool_synced", (f - e) / n / 1e3, "us");

  churn(
      c, r, "shader_module", 200,
      [&](int) {
        VkShaderModuleCreateInfo ci{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
        ci.codeSize = sizeof cube_vert;
        ci.pCode = cube_vert;
        VkShaderModule m;
        VK(vkCreateShaderModule(c.dev, &ci, nullptr, &m));
        return m;
      },
      [&](VkShaderModule m) { vkDestroyShaderModule(c.dev, m, nullptr); });

  // Graphics pipelines: each differs by a specialization constant, then again from a warm cache.
  VkRenderPass rp = bin.renderPass(VK_FORMAT_R32G32B32A32_SFLOAT, VK_FORMAT_UNDEFINED);
  auto dsl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr}});
  PipeDesc pdsc;
  pdsc.vs = bin.shader(draw_vert, sizeof draw_vert);
  pdsc.fs = bin.shader(draw_frag, sizeof draw_frag);
  pdsc.layout = bin.pipelineLayout(dsl, VK_SHADER_STAGE_FRAGMENT_BIT, 4);
  pdsc.rp = rp;
  pdsc.additive = true;
  static int serial = 0;
  auto killPipe = [&](VkPipeline p) { vkDestroyPipeline(c.dev, p, nullptr); };
  const int np = 50;
  churn(
      c, r, "graphics_pipeline", np,
      [&](int) {
        pdsc.spec = float(++serial);
        return makePipeline(c.dev, VK_NULL_HANDLE, pdsc);
      },
      killPipe);
  VkPipelineCacheCreateInfo pci{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache;
  VK(vkCreatePipelineCache(c.dev, &pci, nullptr, &cache));
  bin.defer([dev = c.dev, cache] { vkDestroyPipelineCache(dev, cache, nullptr); });
  int from = serial;
  for (int i = 0; i < np; i++) {
    pdsc.spec = float(++serial);
    killPipe(makePipeline(c.dev, cache, pdsc));
  }
  churn(
      c, r, "graphics_pipeline_cached", np,
      [&](int i) {
        pdsc.spec = float(from + 1 + i);
        return makePipeline(c.dev, cache, pdsc);
      },
      killPipe);
  size_t bytes = 0;
  timeEach(r, "churn/pipeline_cache/get_data", 20, [&] {
    VK(vkGetPipelineCacheData(c.dev, cache, &bytes, nullptr));
    std::vector<char> data(bytes);
    VK(vkGetPipelineCacheData(c.dev, cache, &bytes, data.data()));
  });
  if (bytes < 16) fail("pipeline cache data has no header");
  VkShaderModule cs = bin.shader(fill_comp, sizeof fill_comp);
  auto csl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}});
  VkPipelineLayout cpl = bin.pipelineLayout(csl, VK_SHADER_STAGE_COMPUTE_BIT, 12);
  churn(
      c, r, "compute_pipeline", 20,
      [&](int) {
        VkComputePipelineCreateInfo ci{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
        ci.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
        ci.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
        ci.stage.module = cs;
        ci.stage.pName = "main";
        ci.layout = cpl;
        VkPipeline p;
        VK(vkCreateComputePipelines(c.dev, VK_NULL_HANDLE, 1, &ci, nullptr, &p));
        return p;
      },
      killPipe);
}

}  // namespace vkbench
