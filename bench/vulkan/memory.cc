// Mapped memory, transfers, dispatches.
#include "bench/vulkan/cases.h"
#include "bench/vulkan/pipeline.h"
#include "bench/vulkan/shaders.h"

namespace vkbench {

struct ComputeRig {
  Ctx& c;
  Bin bin;
  VkDescriptorSetLayout sl;
  VkPipelineLayout layout;
  VkDescriptorPool dp;
  VkPipeline fill, sum, step;
  struct Push {
    uint32_t n, seed, stride;
  };

  explicit ComputeRig(Ctx& c) : c(c), bin(c) {
    sl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr},
                        {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}});
    layout = bin.pipelineLayout(sl, VK_SHADER_STAGE_COMPUTE_BIT, sizeof(Push));
    dp = bin.descriptorPool(8, {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 16}});
    fill = bin.compute(layout, bin.shader(fill_comp, sizeof fill_comp));
    sum = bin.compute(layout, bin.shader(sum_comp, sizeof sum_comp));
    step = bin.compute(layout, bin.shader(step_comp, sizeof step_comp));
  }
  VkDescriptorSet set(const Buf& data, const Buf& out) {
    VkDescriptorSet s = bin.set(dp, sl);
    VkDescriptorBufferInfo bi[2] = {{data.b, 0, VK_WHOLE_SIZE}, {out.b, 0, 4}};
    VkWriteDescriptorSet w[2]{};
    for (uint32_t k = 0; k < 2; k++) {
      w[k] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
      w[k].dstSet = s;
      w[k].dstBinding = k;
      w[k].descriptorCount = 1;
      w[k].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      w[k].pBufferInfo = &bi[k];
    }
    vkUpdateDescriptorSets(c.dev, 2, w, 0, nullptr);
    return s;
  }
  void run(VkCommandBuffer cb, VkPipeline p, VkDescriptorSet s, uint32_t words, uint32_t seed) {
    uint32_t groups = std::clamp(words / 64u, 1u, 64u);
    Push pc{words, seed, groups * 64};
    vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, p);
    vkCmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &s, 0, nullptr);
    vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof pc, &pc);
    vkCmdDispatch(cb, groups, 1, 1);
  }
};

constexpr auto kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;

uint32_t hostSum(const uint32_t* v, uint32_t n) {
  uint32_t s = 0;
  for (uint32_t i = 0; i < n; i++) s += v[i] ^ (i * 2246822519u);
  return s;
}

void caseMapped(Ctx& c, Report& r) {
  ComputeRig rig(c);
  const VkDeviceSize size = 64 << 20;
  const uint32_t words = uint32_t(size / 4);
  const double gb = double(size) / 1e9;
  std::vector<uint32_t> src(words), dst(words);
  for (uint32_t i = 0; i < words; i++) src[i] = i * 747796405u + 2891336453u;

  double t = nowNs();
  Buf data = rig.bin.buffer(size, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT, kHost,
                            VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  r.add("mapped/alloc+map_64MiB", (nowNs() - t) / 1e3, "us");
  Buf out = rig.bin.buffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, kHost);
  VkDescriptorSet set = rig.set(data, out);

  auto bandwidth = [&](const char* name, int n, void* to, const void* from) {
    std::vector<double> v;
    for (int i = 0; i < n; i++) {
      double b = nowNs();
      memcpy(to, from, size_t(size));
      v.push_back(gb / ((nowNs() - b) / 1e9));
    }
    r.add(name, median(v), "GB/s");
  };
  bandwidth("mapped/write_first_touch", 1, data.p, src.data());
  bandwidth("mapped/write", 8, data.p, src.data());

  // The device sees what the host wrote.
  *out.as<uint32_t>() = 0;
  c.once([&](VkCommandBuffer cb) {
    rig.run(cb, rig.sum, set, words, 0);
    hostBarrier(cb, kCompute, VK_ACCESS_SHADER_WRITE_BIT);
  });
  uint32_t want = hostSum(src.data(), words);
  if (*out.as<uint32_t>() != want) fail("the compute shader read 0x%x, the host wrote 0x%x", *out.as<uint32_t>(), want);

  // The host sees what the device wrote.
  const uint32_t seed = 77;
  c.once([&](VkCommandBuffer cb) {
    memBarrier(cb, kCompute, VK_ACCESS_SHADER_READ_BIT, kCompute, VK_ACCESS_SHADER_WRITE_BIT);
    rig.run(cb, rig.fill, set, words, seed);
    hostBarrier(cb, kCompute, VK_ACCESS_SHADER_WRITE_BIT);
  });
  bandwidth("mapped/read", 8, dst.data(), data.p);
  for (uint32_t i = 0; i < words; i++)
    if (dst[i] != (i ^ seed) * 2654435761u + 12345u) fail("word %u read back as 0x%x", i, dst[i]);

  // Small round trip: host writes 4 KiB, a prerecorded dispatch sums it, host reads the sum.
  Buf small = rig.bin.buffer(4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, kHost);
  VkDescriptorSet sset = rig.set(small, out);
  VkCommandPool pool = rig.bin.commandPool();
  VkCommandBuffer cb = c.allocCb(pool);
  c.begin(cb);
  rig.run(cb, rig.sum, sset, 1024, 0);
  hostBarrier(cb, kCompute, VK_ACCESS_SHADER_WRITE_BIT);
  VK(vkEndCommandBuffer(cb));
  std::vector<double> us;
  for (uint32_t k = 0; k < 500; k++) {
    double b = nowNs();
    for (uint32_t i = 0; i < 1024; i++) small.as<uint32_t>()[i] = i * 31 + k;
    *out.as<uint32_t>() = 0;
    c.submitWait(cb);
    uint32_t got = *out.as<uint32_t>();
    us.push_back((nowNs() - b) / 1e3);
    if (got != hostSum(small.as<uint32_t>(), 1024)) fail("round trip %u: stale data", k);
  }
  addPercentiles(r, "mapped/host_device_host_4KiB", us);

  // Unmap and map again; the contents stay.
  timeEach(r, "mapped/unmap+map", 1000, [&] {
    vkUnmapMemory(c.dev, small.m);
    VK(vkMapMemory(c.dev, small.m, 0, VK_WHOLE_SIZE, 0, &small.p));
  });
  if (small.as<uint32_t>()[5] != 5 * 31 + 499) fail("contents lost over unmap and map");
  timeEach(r, "mapped/flush+invalidate_64MiB", 200, [&] {
    VkMappedMemoryRange mr{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
    mr.memory = data.m;
    mr.size = VK_WHOLE_SIZE;
    VK(vkFlushMappedMemoryRanges(c.dev, 1, &mr));
    VK(vkInvalidateMappedMemoryRanges(c.dev, 1, &mr));
  });
}

void caseTransfer(Ctx& c, Report& r) {
  Bin bin(c);
  const auto T = VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkDeviceSize size = 64 << 20;
  const uint32_t words = uint32_t(size / 4);
  const double gb = double(size) / 1e9;
  const auto rw = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  Buf host = bin.buffer(size, rw, kHost, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  Buf back = bin.buffer(size, rw, kHost, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  Buf dev = bin.buffer(size, rw, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  for (uint32_t i = 0; i < words; i++) host.as<uint32_t>()[i] = i * 2654435761u;
  auto same = [&](const char* what) {
    if (memcmp(host.p, back.p, size_t(size))) fail("%s: contents differ", what);
    memset(back.p, 0, size_t(size));
  };
  auto timed = [&](const std::string& name, int n, auto&& rec) {
    std::vector<double> v;
    for (int i = 0; i < n; i++) {
      double t = nowNs();
      c.once(rec);
      v.push_back(gb / ((nowNs() - t) / 1e9));
    }
    r.add(name, median(v), "GB/s");
  };
  VkBufferCopy whole{0, 0, size};
  timed("transfer/copy_buffer_64MiB", 8, [&](VkCommandBuffer cb) { vkCmdCopyBuffer(cb, host.b, dev.b, 1, &whole); });
  timed("transfer/readback_64MiB", 8, [&](VkCommandBuffer cb) {
    vkCmdCopyBuffer(cb, dev.b, back.b, 1, &whole);
    hostBarrier(cb, T, VK_ACCESS_TRANSFER_WRITE_BIT);
  });
  same("copy buffer");

  // From the host's hands to the device and back again, as a streaming application does.
  std::vector<uint32_t> app(host.as<uint32_t>(), host.as<uint32_t>() + words);
  std::vector<double> v;
  for (int i = 0; i < 5; i++) {
    double t = nowNs();
    memcpy(host.p, app.data(), size_t(size));
    c.once([&](VkCommandBuffer cb) {
      vkCmdCopyBuffer(cb, host.b, dev.b, 1, &whole);
      memBarrier(cb, T, VK_ACCESS_TRANSFER_WRITE_BIT, T, VK_ACCESS_TRANSFER_READ_BIT);
      vkCmdCopyBuffer(cb, dev.b, back.b, 1, &whole);
      hostBarrier(cb, T, VK_ACCESS_TRANSFER_WRITE_BIT);
    });
    memcpy(app.data(), back.p, size_t(size));
    v.push_back(gb / ((nowNs() - t) / 1e9));
  }
  r.add("transfer/stream_in_and_out_64MiB", median(v), "GB/s");
  same("stream");

  timed("transfer/fill_buffer_64MiB", 8,
        [&](VkCommandBuffer cb) { vkCmdFillBuffer(cb, dev.b, 0, VK_WHOLE_SIZE, 0xabcd1234); });
  c.once([&](VkCommandBuffer cb) {
    vkCmdCopyBuffer(cb, dev.b, back.b, 1, &whole);
    hostBarrier(cb, T, VK_ACCESS_TRANSFER_WRITE_BIT);
  });
  for (uint32_t i = 0; i < words; i++)
    if (back.as<uint32_t>()[i] != 0xabcd1234) fail("fill: word %u is 0x%x", i, back.as<uint32_t>()[i]);

  const uint32_t side = 4096;  // 4096 * 4096 * 4 bytes is 64 MiB
  Img img =
      bin.image(side, side, VK_FORMAT_R8G8B8A8_UNORM, VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT,
                VK_IMAGE_ASPECT_COLOR_BIT, false);
  VkBufferImageCopy bic{};
  bic.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  bic.imageExtent = {side, side, 1};
  timed("transfer/buffer_to_image_64MiB", 6, [&](VkCommandBuffer cb) {
    imageBarrier(cb, img.i, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                 VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 0, T, VK_ACCESS_TRANSFER_WRITE_BIT);
    vkCmdCopyBufferToImage(cb, host.b, img.i, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &bic);
  });
  c.once([&](VkCommandBuffer cb) {
    imageBarrier(cb, img.i, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, T,
                 VK_ACCESS_TRANSFER_WRITE_BIT, T, VK_ACCESS_TRANSFER_READ_BIT);
  });
  timed("transfer/image_to_buffer_64MiB", 6, [&](VkCommandBuffer cb) {
    vkCmdCopyImageToBuffer(cb, img.i, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, back.b, 1, &bic);
    hostBarrier(cb, T, VK_ACCESS_TRANSFER_WRITE_BIT);
  });
  same("image");

  // vkCmdUpdateBuffer carries its data in the command buffer itself: 8 MiB in the largest pieces.
  const VkDeviceSize piece = 65536, total = 8 << 20;
  VkCommandPool pool = bin.commandPool();
  VkCommandBuffer cb = c.allocCb(pool);
  std::vector<double> rec, all;
  for (int k = 0; k < 8; k++) {
    double t = nowNs();
    VK(vkResetCommandPool(c.dev, pool, 0));
    c.begin(cb, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    for (VkDeviceSize o = 0; o < total; o += piece) vkCmdUpdateBuffer(cb, dev.b, o, piece, host.as<char>() + o);
    VK(vkEndCommandBuffer(cb));
    double u = nowNs();
    c.submitWait(cb);
    double e = nowNs();
    rec.push_back(double(total) / (u - t));
    all.push_back(double(total) / (e - t));
  }
  r.add("transfer/update_buffer_8MiB/record", median(rec), "GB/s");
  r.add("transfer/update_buffer_8MiB", median(all), "GB/s");
  VkBufferCopy part{0, 0, total};
  c.once([&](VkCommandBuffer b) {
    vkCmdCopyBuffer(b, dev.b, back.b, 1, &part);
    hostBarrier(b, T, VK_ACCESS_TRANSFER_WRITE_BIT);
  });
  if (memcmp(host.p, back.p, size_t(total))) fail("update buffer: contents differ");
}

void caseDispatch(Ctx& c, Report& r) {
  ComputeRig rig(c);
  Buf data = rig.bin.buffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, kHost);
  Buf out = rig.bin.buffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, kHost);
  VkDescriptorSet set = rig.set(data, out);
  VkCommandPool pool = rig.bin.commandPool();
  VkCommandBuffer cb = c.allocCb(pool);
  const int n = 1000;
  std::vector<double> rec, all;
  for (int k = 0; k < 20; k++) {
    for (uint32_t i = 0; i < 64; i++) data.as<uint32_t>()[i] = i;
    double t = nowNs();
    VK(vkResetCommandPool(c.dev, pool, 0));
    c.begin(cb, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    vkCmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, rig.step);
    vkCmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, rig.layout, 0, 1, &set, 0, nullptr);
    for (int i = 0; i < n; i++) {
      vkCmdDispatch(cb, 1, 1, 1);
      memBarrier(cb, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    hostBarrier(cb, kCompute, VK_ACCESS_SHADER_WRITE_BIT);
    VK(vkEndCommandBuffer(cb));
    double u = nowNs();
    c.submitWait(cb);
    double e = nowNs();
    for (uint32_t i = 0; i < 64; i++) {
      uint32_t want = i;
      for (int s = 0; s < n; s++) want = want * 1664525u + 1013904223u;
      if (data.as<uint32_t>()[i] != want) fail("after %d dispatches word %u is wrong", n, i);
    }
    rec.push_back((u - t) / n);
    all.push_back((e - t) / n);
  }
  r.add("dispatch/1k/record", median(rec), "ns/dispatch");
  r.add("dispatch/1k/e2e", median(all), "ns/dispatch");
}

}  // namespace vkbench
