// Frames of 300 textured cubes, with readback.
#include "bench/vulkan/cases.h"
#include "bench/vulkan/pipeline.h"
#include "bench/vulkan/shaders.h"

namespace vkbench {

struct Mat {
  float m[16];
};

Mat mul(const Mat& a, const Mat& b) {
  Mat r{};
  for (int col = 0; col < 4; col++)
    for (int row = 0; row < 4; row++)
      for (int k = 0; k < 4; k++) r.m[col * 4 + row] += a.m[k * 4 + row] * b.m[col * 4 + k];
  return r;
}

Mat perspective(float fovy, float aspect, float zn, float zf) {
  float f = 1 / std::tan(fovy / 2);
  return {{f / aspect, 0, 0, 0, 0, -f, 0, 0, 0, 0, zf / (zn - zf), -1, 0, 0, zn * zf / (zn - zf), 0}};
}

Mat turnAt(float angle, float x, float y, float z) {
  float c = std::cos(angle), s = std::sin(angle);
  Mat ry{{c, 0, -s, 0, 0, 1, 0, 0, s, 0, c, 0, 0, 0, 0, 1}};
  Mat rx{{1, 0, 0, 0, 0, c, s, 0, 0, -s, c, 0, 0, 0, 0, 1}};
  Mat t{{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, x, y, z, 1}};
  return mul(t, mul(ry, rx));
}

struct FrameRig {
  static constexpr int kDraws = 300, kTextures = 4, kMaxInFlight = 3;
  struct FrameUbo {
    Mat viewProj;
    float light[4];
  };
  struct Push {
    Mat model;
    float tint[4];
  };
  struct Slot {
    Img color, depth;
    VkFramebuffer fb;
    Buf ubo, read;
    VkDescriptorSet set[kTextures];
    VkCommandPool pool;
    VkCommandBuffer cb;
    VkFence fence;
    int frame = -1;
  };
  Ctx& c;
  Bin bin;
  uint32_t w, h;
  VkRenderPass rp;
  VkPipelineLayout layout;
  VkPipeline pipe;
  Buf vb, ib;
  Slot slot[kMaxInFlight];

  FrameRig(Ctx& c, uint32_t w, uint32_t h) : c(c), bin(c), w(w), h(h) {
    makeCube();
    const VkFormat cf = VK_FORMAT_R8G8B8A8_UNORM, df = VK_FORMAT_D32_SFLOAT;
    rp = bin.renderPass(cf, df);
    auto sl = bin.setLayout({{0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_VERTEX_BIT, nullptr},
                             {1, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr}});
    const uint32_t sets = kTextures * kMaxInFlight;
    auto dp = bin.descriptorPool(
        sets, {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, sets}, {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, sets}});
    layout = bin.pipelineLayout(sl, VK_SHADER_STAGE_VERTEX_BIT, sizeof(Push));
    PipeDesc d;
    d.vs = bin.shader(cube_vert, sizeof cube_vert);
    d.fs = bin.shader(cube_frag, sizeof cube_frag);
    d.layout = layout;
    d.rp = rp;
    d.w = w;
    d.h = h;
    d.scissor = {{0, 0}, {w, h}};
    d.depth = d.vertices = true;
    pipe = makePipeline(c.dev, VK_NULL_HANDLE, d);
    bin.defer([dev = c.dev, p = pipe] { vkDestroyPipeline(dev, p, nullptr); });
    VkSampler smp = bin.sampler();
    Img tex[kTextures];
    for (int i = 0; i < kTextures; i++) tex[i] = makeTexture(i);
    for (auto& s : slot) {
      s.color = bin.image(w, h, cf, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
                          VK_IMAGE_ASPECT_COLOR_BIT);
      s.depth = bin.image(w, h, df, VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT, VK_IMAGE_ASPECT_DEPTH_BIT);
      s.fb = bin.framebuffer(rp, {s.color.v, s.depth.v}, w, h);
      s.ubo = bin.buffer(sizeof(FrameUbo), VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, kHost);
      s.read = bin.buffer(VkDeviceSize(w) * h * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT, kHost,
                          VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
      s.pool = bin.commandPool();
      s.cb = c.allocCb(s.pool);
      s.fence = bin.fence();
      for (int i = 0; i < kTextures; i++) {
        s.set[i] = bin.set(dp, sl);
        VkDescriptorBufferInfo bi{s.ubo.b, 0, sizeof(FrameUbo)};
        VkDescriptorImageInfo ii{smp, tex[i].v, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
        VkWriteDescriptorSet wr[2]{};
        wr[0] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        wr[0].dstSet = s.set[i];
        wr[0].descriptorCount = 1;
        wr[0].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
        wr[0].pBufferInfo = &bi;
        wr[1] = wr[0];
        wr[1].dstBinding = 1;
        wr[1].descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
        wr[1].pBufferInfo = nullptr;
        wr[1].pImageInfo = &ii;
        vkUpdateDescriptorSets(c.dev, 2, wr, 0, nullptr);
      }
    }
  }

  void makeCube() {
    std::vector<float> v;
    std::vector<uint16_t> idx;
    for (int face = 0; face < 6; face++) {
      int axis = face / 2;
      float sign = face % 2 ? 1.f : -1.f;
      for (int k = 0; k < 4; k++) {
        float a = k & 1 ? 1.f : -1.f, b = k & 2 ? 1.f : -1.f;
        float p[3];
        p[axis] = sign;
        p[(axis + 1) % 3] = a;
        p[(axis + 2) % 3] = b;
        v.insert(v.end(), {p[0], p[1], p[2], (a + 1) / 2, (b + 1) / 2});
      }
      for (int k : {0, 1, 2, 2, 1, 3}) idx.push_back(uint16_t(face * 4 + k));
    }
    vb = bin.buffer(v.size() * 4, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT, kHost);
    memcpy(vb.p, v.data(), v.size() * 4);
    ib = bin.buffer(idx.size() * 2, VK_BUFFER_USAGE_INDEX_BUFFER_BIT, kHost);
    memcpy(ib.p, idx.data(), idx.size() * 2);
  }
  Img makeTexture(int k) {
    const uint32_t n = 64;
    Img t = bin.image(n, n, VK_FORMAT_R8G8B8A8_UNORM, VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT,
                      VK_IMAGE_ASPECT_COLOR_BIT);
    Buf up = bin.buffer(n * n * 4, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, kHost);
    for (uint32_t y = 0; y < n; y++)
      for (uint32_t x = 0; x < n; x++) {
        bool on = ((x >> 3) ^ (y >> 3)) & 1;
        uint32_t g = on ? 0xff : 0x60;
        up.as<uint32_t>()[y * n + x] = 0xff000000u | (g << (8 * (k % 3))) | 0x303030u;
      }
    c.once([&](VkCommandBuffer cb) {
      const auto T = VK_PIPELINE_STAGE_TRANSFER_BIT;
      imageBarrier(cb, t.i, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                   VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 0, T, VK_ACCESS_TRANSFER_WRITE_BIT);
      VkBufferImageCopy r{};
      r.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
      r.imageExtent = {n, n, 1};
      vkCmdCopyBufferToImage(cb, up.b, t.i, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &r);
      imageBarrier(cb, t.i, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL, T,
                   VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT);
    });
    return t;
  }

  void record(Slot& s, int frame) {
    FrameUbo u{};
    u.viewProj = perspective(0.9f, float(w) / float(h), 1, 200);
    u.light[0] = u.light[1] = u.light[2] = 0.75f + 0.25f * std::sin(float(frame) * 0.1f);
    u.light[3] = 1;
    memcpy(s.ubo.p, &u, sizeof u);

    VK(vkResetCommandPool(c.dev, s.pool, 0));
    c.begin(s.cb, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    VkClearValue cv[2]{};
    cv[0].color = {{0, 0, 0, 1}};
    cv[1].depthStencil.depth = 1;
    VkRenderPassBeginInfo rb{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
    rb.renderPass = rp;
    rb.framebuffer = s.fb;
    rb.renderArea = {{0, 0}, {w, h}};
    rb.clearValueCount = 2;
    rb.pClearValues = cv;
    vkCmdBeginRenderPass(s.cb, &rb, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdBindPipeline(s.cb, VK_PIPELINE_BIND_POINT_GRAPHICS, pipe);
    VkDeviceSize zero = 0;
    vkCmdBindVertexBuffers(s.cb, 0, 1, &vb.b, &zero);
    vkCmdBindIndexBuffer(s.cb, ib.b, 0, VK_INDEX_TYPE_UINT16);
    for (int i = 0; i < kDraws; i++) {
      int gx = i % 20, gy = i / 20;
      Push p;
      p.model = turnAt(float(frame) * 0.03f + float(i), (float(gx) - 9.5f) * 3, (float(gy) - 7) * 3, -50);
      for (int k = 0; k < 4; k++) p.tint[k] = k == 3 ? 1.f : 0.5f + 0.5f * float((i * (k + 3)) % 16) / 16;
      vkCmdBindDescriptorSets(s.cb, VK_PIPELINE_BIND_POINT_GRAPHICS, layout, 0, 1, &s.set[i % kTextures], 0, nullptr);
      vkCmdPushConstants(s.cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof p, &p);
      vkCmdDrawIndexed(s.cb, 36, 1, 0, 0, 0);
    }
    vkCmdEndRenderPass(s.cb);
    VkBufferImageCopy r{};
    r.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    r.imageExtent = {w, h, 1};
    vkCmdCopyImageToBuffer(s.cb, s.color.i, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, s.read.b, 1, &r);
    hostBarrier(s.cb, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    VK(vkEndCommandBuffer(s.cb));
    c.submit(s.cb, s.fence);
    s.frame = frame;
  }
  // Waits for the slot's frame and reads every pixel of it.
  uint64_t finish(Slot& s) {
    c.waitReset(s.fence);
    s.frame = -1;
    return hash64(s.read.p, size_t(w) * h * 4);
  }
  double coverage(const Slot& s) const {
    const uint32_t* px = s.read.as<uint32_t>();
    size_t n = size_t(w) * h, lit = 0;
    for (size_t i = 0; i < n; i++) lit += px[i] != 0xff000000u;
    return double(lit) / double(n);
  }
  // Runs the frames with so many in flight; returns the per-frame hashes folded together.
  uint64_t run(int frames, int inFlight, double& seconds, double& cpu, double& recordNs) {
    uint64_t all = 0;
    recordNs = 0;
    double c0 = cpuNs(), t0 = nowNs();
    auto done = [&](Slot& s) { all = all * 31 + finish(s); };
    for (int f = 0; f < frames; f++) {
      Slot& s = slot[f % inFlight];
      if (s.frame >= 0) done(s);
      double t = nowNs();
      record(s, f);
      recordNs += nowNs() - t;
      if (inFlight == 1) done(s);
    }
    for (int k = 0; k < inFlight; k++) {
      Slot& s = slot[(frames + k) % inFlight];
      if (s.frame >= 0) done(s);
    }
    seconds = (nowNs() - t0) / 1e9;
    cpu = cpuNs() - c0;
    return all;
  }
};

void dumpPpm(const FrameRig& rig, const FrameRig::Slot& s) {
  const char* path = getenv("VKBENCH_PPM");
  if (!path) return;
  if (FILE* f = fopen(path, "wb")) {
    fprintf(f, "P6\n%u %u\n255\n", rig.w, rig.h);
    for (size_t i = 0; i < size_t(rig.w) * rig.h; i++) fwrite(s.read.as<uint8_t>() + i * 4, 1, 3, f);
    fclose(f);
  }
}

void caseFrame(Ctx& c, Report& r) {
  for (auto [w, h, frames] : {std::tuple{640u, 480u, 120}, std::tuple{64u, 48u, 240}}) {
    FrameRig rig(c, w, h);
    double s, cpu, rec;
    rig.run(6, 3, s, cpu, rec);
    uint64_t hash[2] = {};
    for (int inFlight : {1, 3}) {
      std::string name =
          "frame/" + std::to_string(w) + "x" + std::to_string(h) + "/" + (inFlight == 1 ? "serial" : "3_in_flight");
      uint64_t got = rig.run(frames, inFlight, s, cpu, rec);
      hash[inFlight == 3] = got;
      r.add(name, frames / s, "frames/s");
      r.add(name + "/record+submit", rec / frames / 1e3, "us/frame");
      r.add(name + "/client_cpu", cpu / frames / 1e3, "us/frame");
    }
    dumpPpm(rig, rig.slot[(frames - 1) % 3]);
    double cov = rig.coverage(rig.slot[(frames - 1) % 3]);
    if (cov < 0.2 || cov > 0.95) fail("%.1f %% of the picture is lit", cov * 100);
    if (hash[0] != hash[1]) fail("serial and pipelined frames differ");
    r.check("frame/" + std::to_string(w) + "x" + std::to_string(h), hash[0]);
  }
}

}  // namespace vkbench
