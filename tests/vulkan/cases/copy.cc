// Buffers and images: copies, fills, updates, clears.
#include <cstring>
#include <string>

#include "tests/vulkan/lib/gpu.h"

namespace sluice::vktest {
namespace {

constexpr VkBufferUsageFlags kBoth = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
constexpr VkImageSubresourceLayers kColor = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};

Image Random2D(Gpu& gpu, VkFormat format, uint32_t width, uint32_t height, uint64_t seed) {
  ImageOptions options;
  options.format = format;
  options.extent = {width, height, 1};
  const Image image = gpu.MakeImage(options);
  std::vector<uint8_t> data(size_t{width} * height * TexelBytes(format));
  Random(seed).Fill(data.data(), data.size());
  gpu.Write(image, data.data(), data.size());
  return image;
}

}  // namespace

VK_CASE(copy, buffer_regions) {
  Gpu& gpu = t.gpu();
  const Buffer from = gpu.MakeBuffer(10000, kBoth);
  const Buffer to = gpu.MakeBuffer(10000, kBoth);
  Random(1).Fill(from.data, from.size);
  const VkBufferCopy regions[] = {{0, 1, 1}, {3, 100, 997}, {5000, 2000, 4096}, {9999, 9999, 1}};
  gpu.Run([&](VkCommandBuffer commands) { vkCmdCopyBuffer(commands, from.buffer, to.buffer, 4, regions); });
  t.Bytes("result", to.data, to.size);
  t.Expect(memcmp(from.as<uint8_t>() + 5000, to.as<uint8_t>() + 2000, 4096) == 0, "region 2 is wrong");
  t.Expect(to.as<uint8_t>()[0] == 0 && to.as<uint8_t>()[2] == 0, "a byte beside a region was written");
}

VK_CASE(copy, buffer_2) {
  Gpu& gpu = t.gpu();
  const Buffer from = gpu.MakeBuffer(4096, kBoth);
  const Buffer to = gpu.MakeBuffer(4096, kBoth);
  Random(2).Fill(from.data, from.size);
  VkBufferCopy2 regions[2] = {{.sType = VK_STRUCTURE_TYPE_BUFFER_COPY_2}, {.sType = VK_STRUCTURE_TYPE_BUFFER_COPY_2}};
  regions[0].size = 1000;
  regions[1].srcOffset = 2000;
  regions[1].dstOffset = 3000;
  regions[1].size = 1096;
  VkCopyBufferInfo2 info = {.sType = VK_STRUCTURE_TYPE_COPY_BUFFER_INFO_2};
  info.srcBuffer = from.buffer;
  info.dstBuffer = to.buffer;
  info.regionCount = 2;
  info.pRegions = regions;
  gpu.Run([&](VkCommandBuffer commands) { vkCmdCopyBuffer2(commands, &info); });
  t.Bytes("result", to.data, to.size);
  t.Expect(memcmp(from.as<uint8_t>() + 2000, to.as<uint8_t>() + 3000, 1096) == 0, "region 1 is wrong");
}

VK_CASE(copy, fill) {
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(1003, kBoth);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, buffer.buffer, 0, VK_WHOLE_SIZE, 0x01020304);  // the last 3 bytes stay
    FullBarrier(commands);
    vkCmdFillBuffer(commands, buffer.buffer, 16, 8, 0xffffffff);
    vkCmdFillBuffer(commands, buffer.buffer, 100, 4, 0);
  });
  t.Bytes("result", buffer.data, buffer.size);
  t.Expect(buffer.as<uint32_t>()[4] == 0xffffffff && buffer.as<uint32_t>()[6] == 0x01020304, "a fill is wrong");
}

VK_CASE(copy, update) {
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(1 << 20, kBoth);
  std::vector<uint8_t> data(65536);
  Random random(3);
  VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  std::vector<uint8_t> expected(buffer.size);
  VkDeviceSize at = 0;
  for (const VkDeviceSize size : {4u, 8u, 100u, 1024u, 4096u, 16384u, 65536u, 65532u}) {
    random.Fill(data.data(), size);
    vkCmdUpdateBuffer(commands, buffer.buffer, at, size, data.data());
    memcpy(expected.data() + at, data.data(), size);
    at += size + 4;
  }
  // The data belongs to the command from the call on.
  memset(data.data(), 0xee, data.size());
  FullBarrier(commands);
  VK(vkEndCommandBuffer(commands));
  gpu.SubmitAndWait(commands);
  t.Bytes("result", buffer.data, buffer.size);
  t.Expect(memcmp(buffer.data, expected.data(), expected.size()) == 0, "an update is wrong");
}

VK_CASE(copy, update_megabytes) {
  // 8 MiB in one command buffer, submitted twice.
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(8 << 20, kBoth);
  std::vector<uint8_t> data(65536);
  Random random(4);
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  for (VkDeviceSize at = 0; at < buffer.size; at += data.size()) {
    random.Fill(data.data(), data.size());
    vkCmdUpdateBuffer(commands, buffer.buffer, at, data.size(), data.data());
  }
  FullBarrier(commands);
  VK(vkEndCommandBuffer(commands));
  gpu.SubmitAndWait(commands);
  t.Bytes("first", buffer.data, buffer.size);
  memset(buffer.data, 0, buffer.size);
  gpu.SubmitAndWait(commands);
  t.Bytes("second", buffer.data, buffer.size);
  t.Expect(memcmp(buffer.as<uint8_t>() + buffer.size - 65536, data.data(), 65536) == 0, "the last block is wrong");
}

VK_CASE(copy, buffer_image_pitch) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.extent = {20, 10, 1};
  const Image image = gpu.MakeImage(options);
  const Buffer from = gpu.MakeBuffer(32 * 16 * 4 + 64, kBoth);
  const Buffer to = gpu.MakeBuffer(64 * 16 * 4, kBoth);
  Random(5).Fill(from.data, from.size);
  VkBufferImageCopy in = {64, 32, 16, kColor, {0, 0, 0}, {20, 10, 1}};
  VkBufferImageCopy out[2] = {{0, 64, 0, kColor, {0, 0, 0}, {20, 5, 1}}, {2048, 33, 6, kColor, {3, 5, 0}, {11, 5, 1}}};
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, image);
    vkCmdCopyBufferToImage(commands, from.buffer, image.image, VK_IMAGE_LAYOUT_GENERAL, 1, &in);
    FullBarrier(commands);
    vkCmdCopyImageToBuffer(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, to.buffer, 2, out);
  });
  t.Bytes("result", to.data, to.size);
  t.Expect(memcmp(to.data, from.as<uint8_t>() + 64, 80) == 0, "the first row is wrong");
  t.Expect(memcmp(to.as<uint8_t>() + 2048, from.as<uint8_t>() + 64 + 5 * 128 + 12, 44) == 0,
           "the second region is wrong");
}

VK_CASE(copy, formats_roundtrip) {
  Gpu& gpu = t.gpu();
  constexpr VkFormat kFormats[] = {VK_FORMAT_R8_UNORM,
                                   VK_FORMAT_R8_UINT,
                                   VK_FORMAT_R8G8_UNORM,
                                   VK_FORMAT_R5G6B5_UNORM_PACK16,
                                   VK_FORMAT_R16_UINT,
                                   VK_FORMAT_R8G8B8A8_UNORM,
                                   VK_FORMAT_R8G8B8A8_SRGB,
                                   VK_FORMAT_B8G8R8A8_UNORM,
                                   VK_FORMAT_R8G8B8A8_SNORM,
                                   VK_FORMAT_R32_SFLOAT,
                                   VK_FORMAT_R16G16_SFLOAT,
                                   VK_FORMAT_A2B10G10R10_UNORM_PACK32,
                                   VK_FORMAT_B10G11R11_UFLOAT_PACK32,
                                   VK_FORMAT_E5B9G9R9_UFLOAT_PACK32,
                                   VK_FORMAT_R16G16B16A16_SFLOAT,
                                   VK_FORMAT_R32G32_UINT,
                                   VK_FORMAT_R32G32B32A32_SFLOAT,
                                   VK_FORMAT_R32G32B32A32_UINT};
  for (const VkFormat format : kFormats) {
    const Image image = Random2D(gpu, format, 19, 7, static_cast<uint64_t>(format));
    t.Bytes("format." + std::to_string(format), gpu.Read(image));
  }
}

VK_CASE(copy, compressed) {
  Gpu& gpu = t.gpu();
  VkFormatProperties properties;
  vkGetPhysicalDeviceFormatProperties(gpu.physical, VK_FORMAT_BC1_RGBA_UNORM_BLOCK, &properties);
  if ((properties.optimalTilingFeatures & VK_FORMAT_FEATURE_TRANSFER_DST_BIT) == 0) t.Skip("no BC1");
  ImageOptions options;
  options.format = VK_FORMAT_BC1_RGBA_UNORM_BLOCK;
  options.extent = {40, 24, 1};
  options.mips = 3;
  const Image image = gpu.MakeImage(options);
  const Buffer from = gpu.MakeBuffer(4096, kBoth);
  const Buffer to = gpu.MakeBuffer(4096, kBoth);
  Random(6).Fill(from.data, from.size);
  VkBufferImageCopy regions[3] = {{0, 0, 0, {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1}, {0, 0, 0}, {40, 24, 1}},
                                  {1024, 0, 0, {VK_IMAGE_ASPECT_COLOR_BIT, 1, 0, 1}, {0, 0, 0}, {20, 12, 1}},
                                  {2048, 0, 0, {VK_IMAGE_ASPECT_COLOR_BIT, 2, 0, 1}, {0, 0, 0}, {10, 6, 1}}};
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, image);
    vkCmdCopyBufferToImage(commands, from.buffer, image.image, VK_IMAGE_LAYOUT_GENERAL, 3, regions);
    FullBarrier(commands);
    vkCmdCopyImageToBuffer(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, to.buffer, 3, regions);
  });
  t.Bytes("result", to.data, to.size);
  t.Expect(memcmp(from.data, to.data, 480) == 0, "level 0 differs");
}

VK_CASE(copy, mips_and_layers) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.extent = {37, 21, 1};
  options.mips = 6;
  options.layers = 3;
  const Image image = gpu.MakeImage(options);
  Random random(7);
  for (uint32_t layer = 0; layer < 3; layer++) {
    for (uint32_t mip = 0; mip < 6; mip++) {
      const uint32_t w = std::max(1u, 37u >> mip), h = std::max(1u, 21u >> mip);
      std::vector<uint8_t> data(size_t{w} * h * 4);
      random.Fill(data.data(), data.size());
      gpu.Write(image, data.data(), data.size(), mip, layer);
    }
  }
  for (uint32_t layer = 0; layer < 3; layer++) {
    for (uint32_t mip = 0; mip < 6; mip++) t.Bytes("level", gpu.Read(image, mip, layer));
  }
}

VK_CASE(copy, image_3d) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.type = VK_IMAGE_TYPE_3D;
  options.extent = {9, 8, 7};
  const Image image = gpu.MakeImage(options);
  std::vector<uint8_t> data(9 * 8 * 7 * 4);
  Random(8).Fill(data.data(), data.size());
  gpu.Write(image, data.data(), data.size());
  const Image other = gpu.MakeImage(options);
  const VkImageCopy region = {kColor, {1, 1, 1}, kColor, {2, 0, 3}, {5, 6, 4}};
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, other);
    const VkClearColorValue zero = {};
    const VkImageSubresourceRange range = other.whole();
    vkCmdClearColorImage(commands, other.image, VK_IMAGE_LAYOUT_GENERAL, &zero, 1, &range);
    FullBarrier(commands);
    vkCmdCopyImage(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, other.image, VK_IMAGE_LAYOUT_GENERAL, 1, &region);
  });
  const std::vector<uint8_t> result = gpu.Read(other);
  t.Bytes("result", result);
  const size_t at = 4 * (2 + 9 * (0 + 8 * 3)), source = 4 * (1 + 9 * (1 + 8 * 1));
  t.Expect(memcmp(result.data() + at, data.data() + source, 20) == 0, "the first row is wrong");
}

VK_CASE(copy, image_to_image) {
  Gpu& gpu = t.gpu();
  const Image from = Random2D(gpu, VK_FORMAT_R8G8B8A8_UNORM, 40, 30, 9);
  // Formats of the same size are compatible.
  const Image to = Random2D(gpu, VK_FORMAT_R32_UINT, 50, 50, 10);
  VkImageCopy2 regions[2] = {{.sType = VK_STRUCTURE_TYPE_IMAGE_COPY_2}, {.sType = VK_STRUCTURE_TYPE_IMAGE_COPY_2}};
  for (VkImageCopy2& region : regions) region.srcSubresource = region.dstSubresource = kColor;
  regions[0].extent = {40, 10, 1};
  regions[1].srcOffset = {5, 12, 0};
  regions[1].dstOffset = {33, 41, 0};
  regions[1].extent = {17, 9, 1};
  VkCopyImageInfo2 info = {.sType = VK_STRUCTURE_TYPE_COPY_IMAGE_INFO_2};
  info.srcImage = from.image;
  info.srcImageLayout = VK_IMAGE_LAYOUT_GENERAL;
  info.dstImage = to.image;
  info.dstImageLayout = VK_IMAGE_LAYOUT_GENERAL;
  info.regionCount = 2;
  info.pRegions = regions;
  const std::vector<uint8_t> source = gpu.Read(from);
  gpu.Run([&](VkCommandBuffer commands) { vkCmdCopyImage2(commands, &info); });
  const std::vector<uint8_t> result = gpu.Read(to);
  t.Bytes("result", result);
  t.Expect(memcmp(result.data() + 4 * (41 * 50 + 33), source.data() + 4 * (12 * 40 + 5), 68) == 0, "region 1 is wrong");
}

VK_CASE(copy, buffer_image_2) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.extent = {16, 16, 1};
  const Image image = gpu.MakeImage(options);
  const Buffer from = gpu.MakeBuffer(1024, kBoth);
  const Buffer to = gpu.MakeBuffer(1024, kBoth);
  Random(11).Fill(from.data, from.size);
  VkBufferImageCopy2 region = {.sType = VK_STRUCTURE_TYPE_BUFFER_IMAGE_COPY_2};
  region.imageSubresource = kColor;
  region.imageExtent = {16, 16, 1};
  VkCopyBufferToImageInfo2 in = {.sType = VK_STRUCTURE_TYPE_COPY_BUFFER_TO_IMAGE_INFO_2};
  in.srcBuffer = from.buffer;
  in.dstImage = image.image;
  in.dstImageLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
  in.regionCount = 1;
  in.pRegions = &region;
  VkCopyImageToBufferInfo2 out = {.sType = VK_STRUCTURE_TYPE_COPY_IMAGE_TO_BUFFER_INFO_2};
  out.srcImage = image.image;
  out.srcImageLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  out.dstBuffer = to.buffer;
  out.regionCount = 1;
  out.pRegions = &region;
  gpu.Run([&](VkCommandBuffer commands) {
    ToLayout(commands, image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    vkCmdCopyBufferToImage2(commands, &in);
    ToLayout(commands, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdCopyImageToBuffer2(commands, &out);
  });
  t.Bytes("result", to.data, to.size);
  t.Expect(memcmp(from.data, to.data, 1024) == 0, "the picture differs");
}

VK_CASE(copy, blit) {
  Gpu& gpu = t.gpu();
  const Image from = Random2D(gpu, VK_FORMAT_R8G8B8A8_UNORM, 16, 16, 12);
  ImageOptions options;
  options.extent = {64, 48, 1};
  struct Way {
    const char* name;
    VkFilter filter;
    VkFormat format;
    VkImageBlit region;
  };
  const Way ways[] = {
      {"nearest",
       VK_FILTER_NEAREST,
       VK_FORMAT_R8G8B8A8_UNORM,
       {kColor, {{0, 0, 0}, {16, 16, 1}}, kColor, {{0, 0, 0}, {64, 48, 1}}}},
      {"linear",
       VK_FILTER_LINEAR,
       VK_FORMAT_R8G8B8A8_UNORM,
       {kColor, {{0, 0, 0}, {16, 16, 1}}, kColor, {{0, 0, 0}, {64, 48, 1}}}},
      {"mirror",
       VK_FILTER_NEAREST,
       VK_FORMAT_R8G8B8A8_UNORM,
       {kColor, {{16, 0, 0}, {0, 16, 1}}, kColor, {{8, 40, 0}, {40, 8, 1}}}},
      {"down",
       VK_FILTER_LINEAR,
       VK_FORMAT_R8G8B8A8_UNORM,
       {kColor, {{2, 3, 0}, {14, 15, 1}}, kColor, {{1, 1, 0}, {4, 6, 1}}}},
      {"swizzle",
       VK_FILTER_NEAREST,
       VK_FORMAT_B8G8R8A8_UNORM,
       {kColor, {{0, 0, 0}, {16, 16, 1}}, kColor, {{0, 0, 0}, {16, 16, 1}}}},
      {"float",
       VK_FILTER_NEAREST,
       VK_FORMAT_R32G32B32A32_SFLOAT,
       {kColor, {{0, 0, 0}, {16, 16, 1}}, kColor, {{0, 0, 0}, {32, 32, 1}}}},
  };
  for (const Way& way : ways) {
    options.format = way.format;
    const Image to = gpu.MakeImage(options);
    gpu.Run([&](VkCommandBuffer commands) {
      ToGeneral(commands, to);
      const VkClearColorValue zero = {};
      const VkImageSubresourceRange range = to.whole();
      vkCmdClearColorImage(commands, to.image, VK_IMAGE_LAYOUT_GENERAL, &zero, 1, &range);
      FullBarrier(commands);
      vkCmdBlitImage(commands, from.image, VK_IMAGE_LAYOUT_GENERAL, to.image, VK_IMAGE_LAYOUT_GENERAL, 1, &way.region,
                     way.filter);
    });
    t.Bytes(way.name, gpu.Read(to));
  }
}

VK_CASE(copy, blit_mips_2) {
  // A mip chain by blits, each level from the one before.
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.extent = {32, 32, 1};
  options.mips = 6;
  const Image image = gpu.MakeImage(options);
  std::vector<uint8_t> data(32 * 32 * 4);
  Random(13).Fill(data.data(), data.size());
  gpu.Run([&](VkCommandBuffer commands) { ToGeneral(commands, image); });
  gpu.Write(image, data.data(), data.size());
  gpu.Run([&](VkCommandBuffer commands) {
    for (uint32_t mip = 1; mip < 6; mip++) {
      VkImageBlit2 region = {.sType = VK_STRUCTURE_TYPE_IMAGE_BLIT_2};
      region.srcSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, mip - 1, 0, 1};
      region.dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, mip, 0, 1};
      region.srcOffsets[1] = {32 >> (mip - 1), 32 >> (mip - 1), 1};
      region.dstOffsets[1] = {32 >> mip, 32 >> mip, 1};
      VkBlitImageInfo2 info = {.sType = VK_STRUCTURE_TYPE_BLIT_IMAGE_INFO_2};
      info.srcImage = info.dstImage = image.image;
      info.srcImageLayout = info.dstImageLayout = VK_IMAGE_LAYOUT_GENERAL;
      info.regionCount = 1;
      info.pRegions = &region;
      info.filter = VK_FILTER_LINEAR;
      vkCmdBlitImage2(commands, &info);
      FullBarrier(commands);
    }
  });
  for (uint32_t mip = 0; mip < 6; mip++) t.Bytes("level", gpu.Read(image, mip));
}

VK_CASE(copy, clear_color) {
  Gpu& gpu = t.gpu();
  struct Way {
    VkFormat format;
    VkClearColorValue color;
  };
  const Way ways[] = {{VK_FORMAT_R8G8B8A8_UNORM, {.float32 = {0.25f, 0.5f, 1.0f, 0.0f}}},
                      {VK_FORMAT_R8G8B8A8_SRGB, {.float32 = {0.25f, 0.5f, 1.0f, 0.5f}}},
                      {VK_FORMAT_R32G32B32A32_SFLOAT, {.float32 = {-1.5f, 1e20f, 0.1f, 3.0f}}},
                      {VK_FORMAT_R32G32B32A32_UINT, {.uint32 = {1, 0xffffffff, 77, 0x80000000}}},
                      {VK_FORMAT_R32_SINT, {.int32 = {-5, 0, 0, 0}}},
                      {VK_FORMAT_R8G8B8A8_UINT, {.uint32 = {1, 2, 255, 4}}},
                      {VK_FORMAT_R16G16B16A16_SFLOAT, {.float32 = {0.1f, 65504.0f, -2.0f, 0.0f}}}};
  for (const Way& way : ways) {
    ImageOptions options;
    options.format = way.format;
    options.extent = {8, 8, 1};
    options.mips = 2;
    options.layers = 2;
    const Image image = gpu.MakeImage(options);
    gpu.Run([&](VkCommandBuffer commands) {
      ToGeneral(commands, image);
      const VkClearColorValue zero = {};
      const VkImageSubresourceRange all = image.whole();
      vkCmdClearColorImage(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, &zero, 1, &all);
      FullBarrier(commands);
      const VkImageSubresourceRange ranges[2] = {{VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 1, 1},
                                                 {VK_IMAGE_ASPECT_COLOR_BIT, 1, 1, 0, 1}};
      vkCmdClearColorImage(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, &way.color, 2, ranges);
    });
    for (uint32_t mip = 0; mip < 2; mip++) {
      for (uint32_t layer = 0; layer < 2; layer++) {
        t.Bytes("format." + std::to_string(way.format) + "." + std::to_string(mip) + std::to_string(layer),
                gpu.Read(image, mip, layer));
      }
    }
  }
}

VK_CASE(copy, clear_depth_stencil) {
  Gpu& gpu = t.gpu();
  for (const VkFormat format :
       {VK_FORMAT_D16_UNORM, VK_FORMAT_D32_SFLOAT, VK_FORMAT_D32_SFLOAT_S8_UINT, VK_FORMAT_D24_UNORM_S8_UINT}) {
    VkFormatProperties properties;
    vkGetPhysicalDeviceFormatProperties(gpu.physical, format, &properties);
    if ((properties.optimalTilingFeatures & VK_FORMAT_FEATURE_TRANSFER_DST_BIT) == 0) continue;
    const bool stencil = format == VK_FORMAT_D32_SFLOAT_S8_UINT || format == VK_FORMAT_D24_UNORM_S8_UINT;
    ImageOptions options;
    options.format = format;
    options.extent = {12, 12, 1};
    options.usage |= VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
    options.aspect = VK_IMAGE_ASPECT_DEPTH_BIT | (stencil ? VK_IMAGE_ASPECT_STENCIL_BIT : 0);
    const Image image = gpu.MakeImage(options);
    gpu.Run([&](VkCommandBuffer commands) {
      ToGeneral(commands, image);
      const VkClearDepthStencilValue value = {0.25f, 0xa5};
      const VkImageSubresourceRange range = image.whole();
      vkCmdClearDepthStencilImage(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, &value, 1, &range);
    });
    const std::string name = "format." + std::to_string(format);
    t.Bytes(name + ".depth", gpu.Read(image, 0, 0, VK_IMAGE_ASPECT_DEPTH_BIT));
    if (stencil) {
      const std::vector<uint8_t> bytes = gpu.Read(image, 0, 0, VK_IMAGE_ASPECT_STENCIL_BIT);
      t.Bytes(name + ".stencil", bytes);
      t.Expect(bytes[77] == 0xa5, "the stencil is %#x", bytes[77]);
    }
  }
}

VK_CASE(copy, resolve) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.extent = {16, 16, 1};
  options.samples = VK_SAMPLE_COUNT_4_BIT;
  options.usage |= VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
  const Image from = gpu.MakeImage(options);
  options.samples = VK_SAMPLE_COUNT_1_BIT;
  const Image to = gpu.MakeImage(options);
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, from);
    ToGeneral(commands, to);
    const VkClearColorValue zero = {}, color = {.float32 = {0.2f, 0.4f, 0.6f, 1.0f}};
    const VkImageSubresourceRange range = to.whole();
    vkCmdClearColorImage(commands, to.image, VK_IMAGE_LAYOUT_GENERAL, &zero, 1, &range);
    vkCmdClearColorImage(commands, from.image, VK_IMAGE_LAYOUT_GENERAL, &color, 1, &range);
    FullBarrier(commands);
    const VkImageResolve region = {kColor, {0, 0, 0}, kColor, {4, 4, 0}, {8, 8, 1}};
    vkCmdResolveImage(commands, from.image, VK_IMAGE_LAYOUT_GENERAL, to.image, VK_IMAGE_LAYOUT_GENERAL, 1, &region);
    VkImageResolve2 corner = {.sType = VK_STRUCTURE_TYPE_IMAGE_RESOLVE_2};
    corner.srcSubresource = corner.dstSubresource = kColor;
    corner.extent = {2, 2, 1};
    VkResolveImageInfo2 info = {.sType = VK_STRUCTURE_TYPE_RESOLVE_IMAGE_INFO_2};
    info.srcImage = from.image;
    info.srcImageLayout = info.dstImageLayout = VK_IMAGE_LAYOUT_GENERAL;
    info.dstImage = to.image;
    info.regionCount = 1;
    info.pRegions = &corner;
    vkCmdResolveImage2(commands, &info);
  });
  const std::vector<uint8_t> result = gpu.Read(to);
  t.Bytes("result", result);
  t.Expect(result[0] == 51 && result[4 * 3] == 0 && result[4 * (5 * 16 + 5)] == 51, "the resolve is wrong");
}

VK_CASE(copy, depth_stencil_copy) {
  Gpu& gpu = t.gpu();
  ImageOptions options;
  options.format = VK_FORMAT_D32_SFLOAT_S8_UINT;
  options.extent = {16, 16, 1};
  options.usage |= VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
  options.aspect = VK_IMAGE_ASPECT_DEPTH_BIT | VK_IMAGE_ASPECT_STENCIL_BIT;
  const Image from = gpu.MakeImage(options);
  const Image to = gpu.MakeImage(options);
  const Buffer depth = gpu.MakeBuffer(1024, kBoth);
  const Buffer stencil = gpu.MakeBuffer(256, kBoth);
  for (uint32_t i = 0; i < 256; i++) {
    depth.as<float>()[i] = static_cast<float>(i) / 256.0f;
    stencil.as<uint8_t>()[i] = static_cast<uint8_t>(255 - i);
  }
  VkBufferImageCopy region = {0, 0, 0, {VK_IMAGE_ASPECT_DEPTH_BIT, 0, 0, 1}, {0, 0, 0}, {16, 16, 1}};
  gpu.Run([&](VkCommandBuffer commands) {
    ToGeneral(commands, from);
    ToGeneral(commands, to);
    vkCmdCopyBufferToImage(commands, depth.buffer, from.image, VK_IMAGE_LAYOUT_GENERAL, 1, &region);
    region.imageSubresource.aspectMask = VK_IMAGE_ASPECT_STENCIL_BIT;
    vkCmdCopyBufferToImage(commands, stencil.buffer, from.image, VK_IMAGE_LAYOUT_GENERAL, 1, &region);
    FullBarrier(commands);
    const VkImageSubresourceLayers both = {VK_IMAGE_ASPECT_DEPTH_BIT | VK_IMAGE_ASPECT_STENCIL_BIT, 0, 0, 1};
    const VkImageCopy copy = {both, {0, 0, 0}, both, {0, 0, 0}, {16, 16, 1}};
    vkCmdCopyImage(commands, from.image, VK_IMAGE_LAYOUT_GENERAL, to.image, VK_IMAGE_LAYOUT_GENERAL, 1, &copy);
  });
  const std::vector<uint8_t> d = gpu.Read(to, 0, 0, VK_IMAGE_ASPECT_DEPTH_BIT);
  const std::vector<uint8_t> s = gpu.Read(to, 0, 0, VK_IMAGE_ASPECT_STENCIL_BIT);
  t.Bytes("depth", d);
  t.Bytes("stencil", s);
  t.Expect(memcmp(d.data(), depth.data, 1024) == 0, "the depth differs");
  t.Expect(memcmp(s.data(), stencil.data, 256) == 0, "the stencil differs");
}

}  // namespace sluice::vktest
