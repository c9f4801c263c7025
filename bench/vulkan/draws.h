// File: draws.h
//
// The draws that the cases record, e2e and multi count: a tiny target where one pixel sums up what each draw carried.
#ifndef SLUICE_BENCH_VULKAN_DRAWS_H_
#define SLUICE_BENCH_VULKAN_DRAWS_H_

#include "bench/vulkan/pipeline.h"
#include "bench/vulkan/shaders.h"

namespace vkbench {

enum class Mode { Draw, Push, Bind, Discard };
inline const char* modeName(Mode m) {
  switch (m) {
    case Mode::Draw:
      return "draw";
    case Mode::Push:
      return "push";
    case Mode::Bind:
      return "bind";
    default:
      return "discard";
  }
}

// A 16x16 float target where one pixel sums up what each draw carried.
struct DrawRig {
  static constexpr uint32_t kW = 16, kX = 3, kY = 5;
  Ctx& c;
  Bin bin;
  Img target;
  Buf read, ubo[2], count;
  VkRenderPass rp;
  VkFramebuffer fb;
  VkDescriptorSet set[2];
  VkPipelineLayout layout;
  VkPipeline pipe[2], discard = VK_NULL_HANDLE;
  VkCommandPool pool;
  VkCommandBuffer cb;

  explicit DrawRig(Ctx& c) : c(c), bin(c) {
    const VkFormat fmt = VK_FORMAT_R32G32B32A32_SFLOAT;
    VkFormatProperties fp;
    vkGetPhysicalDeviceFormatProperties(c.pd, fmt, &fp);
    if (!(fp.optimalTilingFeatures & VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT))
      fail("R32G32B32A32_SFLOAT cannot be blended on this device");
    target = bin.image(kW, kW, fmt, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
                       VK_IMAGE_ASPECT_COLOR_BIT);
    read = bin.buffer(kW * kW * 16, VK_BUFFER_USAGE_TRANSFER_DST_BIT, kHost, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    count = bin.buffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT, kHost);
    rp = bin.renderPass(fmt, VK_FORMAT_UNDEFINED);
    fb = bin.framebuffer(rp, {target.v}, kW, kW);
    auto sl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr},
                             {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_VERTEX_BIT, nullptr}});
    auto dp = bin.descriptorPool(2, {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 2}, {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2}});
    for (int i = 0; i < 2; i++) {
      ubo[i] = bin.buffer(256, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, kHost);
      ubo[i].as<float>()[0] = float(1 + i * 2);
      set[i] = bin.set(dp, sl);
      VkDescriptorBufferInfo bi[2] = {{ubo[i].b, 0, 16}, {count.b, 0, 4}};
      VkWriteDescriptorSet w[2]{};
      for (int k = 0; k < 2; k++) {
        w[k] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        w[k].dstSet = set[i];
        w[k].dstBinding = uint32_t(k);
        w[k].descriptorCount = 1;
        w[k].descriptorType = k ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
        w[k].pBufferInfo = &bi[k];
      }
      vkUpdateDescriptorSets(c.dev, 2, w, 0, nullptr);
    }
    layout = bin.pipelineLayout(sl, VK_SHADER_STAGE_FRAGMENT_BIT, 4);
    PipeDesc d;
    d.vs = bin.shader(draw_vert, sizeof draw_vert);
    d.fs = bin.shader(draw_frag, sizeof draw_frag);
    d.layout = layout;
    d.rp = rp;
    d.scissor = {{kX, kY}, {1, 1}};
    d.additive = true;
    for (int i = 0; i < 2; i++) {
      d.spec = i ? 4 : 1;
      pipe[i] = makePipeline(c.dev, VK_NULL_HANDLE, d);
      bin.defer([dev = c.dev, p = pipe[i]] { vkDestroyPipeline(dev, p, nullptr); });
    }
    if (c.features.vertexPipelineStoresAndAtomics) {
      d.vs = bin.shader(count_vert, sizeof count_vert);
      d.discard = d.points = true;
      discard = makePipeline(c.dev, VK_NULL_HANDLE, d);
      bin.defer([dev = c.dev, p = discard] { vkDestroyPipeline(dev, p, nullptr); });
    }
    pool = bin.commandPool();
    cb = c.allocCb(pool);
  }

  void record(Mode mode, uint32_t n) {
    c.begin(cb, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    VkClearValue clear{};
    VkRenderPassBeginInfo rb{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
    rb.renderPass = rp;
    rb.framebuffer = fb;
    rb.renderArea = {{0, 0}, {kW, kW}};
    rb.clearValueCount = 1;
    rb.pClearValues = &clear;
    vkCmdBeginRenderPass(cb, &rb, VK_SUBPASS_CONTENTS_INLINE);
    const auto gfx = VK_PIPELINE_BIND_POINT_GRAPHICS;
    float v = 1;
    vkCmdBindPipeline(cb, gfx, mode == Mode::Discard ? discard : pipe[0]);
    vkCmdBindDescriptorSets(cb, gfx, layout, 0, 1, &set[0], 0, nullptr);
    vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, 4, &v);
    switch (mode) {
      case Mode::Draw:
        for (uint32_t i = 0; i < n; i++) vkCmdDraw(cb, 3, 1, 0, 0);
        break;
      case Mode::Push:
        for (uint32_t i = 0; i < n; i++) {
          v = float(i & 63);
          vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, 4, &v);
          vkCmdDraw(cb, 3, 1, 0, 0);
        }
        break;
      case Mode::Bind:
        for (uint32_t i = 0; i < n; i++) {
          v = float(i & 63);
          vkCmdBindPipeline(cb, gfx, pipe[i & 1]);
          vkCmdBindDescriptorSets(cb, gfx, layout, 0, 1, &set[i >> 1 & 1], 0, nullptr);
          vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, 4, &v);
          vkCmdDraw(cb, 3, 1, 0, 0);
        }
        break;
      case Mode::Discard:
        for (uint32_t i = 0; i < n; i++) vkCmdDraw(cb, 1, 1, 0, 0);
        break;
    }
    vkCmdEndRenderPass(cb);
    if (mode == Mode::Discard) {
      hostBarrier(cb, VK_PIPELINE_STAGE_VERTEX_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT);
    } else {
      VkBufferImageCopy r{};
      r.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
      r.imageExtent = {kW, kW, 1};
      vkCmdCopyImageToBuffer(cb, target.i, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, read.b, 1, &r);
      hostBarrier(cb, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    }
    VK(vkEndCommandBuffer(cb));
  }
  void clearResult() {
    memset(read.p, 0xff, size_t(read.size));
    *count.as<uint32_t>() = 0;
  }
  // Were exactly these n draws carried out, with the state each had?
  void verify(Mode mode, uint32_t n) {
    if (mode == Mode::Discard) {
      uint32_t got = *count.as<uint32_t>();
      if (got < n) fail("vertex counter is %u after %u draws", got, n);
      return;
    }
    double e[4] = {0, 0, double(n), 0};
    for (uint32_t i = 0; i < n; i++) {
      e[0] += mode == Mode::Draw ? 1 : i & 63;
      e[1] += mode == Mode::Bind ? 1 + 2 * (i >> 1 & 1) : 1;
      e[3] += mode == Mode::Bind && (i & 1) ? 4 : 1;
    }
    const float* px = read.as<float>();
    for (uint32_t y = 0; y < kW; y++)
      for (uint32_t x = 0; x < kW; x++)
        for (int k = 0; k < 4; k++) {
          double want = x == kX && y == kY ? e[k] : 0;
          double got = px[(y * kW + x) * 4 + k];
          if (got != want) fail("%s: pixel (%u,%u) channel %d is %g, not %g", modeName(mode), x, y, k, got, want);
        }
  }
  bool has(Mode m) const { return m != Mode::Discard || discard; }
  void reset() { VK(vkResetCommandPool(c.dev, pool, 0)); }
};

inline double e2eOnce(DrawRig& rig, Mode m, uint32_t n) {
  double t = nowNs();
  rig.reset();
  rig.record(m, n);
  rig.c.submitWait(rig.cb);
  return nowNs() - t;
}

}  // namespace vkbench

#endif  // SLUICE_BENCH_VULKAN_DRAWS_H_
