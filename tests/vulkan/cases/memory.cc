// Allocation, mapping, coherence, binding, and what happens at the limits.
#include <cstring>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {

VK_CASE(memory, map_roundtrip) {
  Gpu& gpu = t.gpu();
  const Buffer from = gpu.MakeBuffer(65536, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  const Buffer to = gpu.MakeBuffer(65536, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  Random(1).Fill(from.data, from.size);
  gpu.Run([&](VkCommandBuffer commands) {
    const VkBufferCopy region = {0, 0, from.size};
    vkCmdCopyBuffer(commands, from.buffer, to.buffer, 1, &region);
  });
  t.Bytes("copy", to.data, to.size);
  t.Expect(memcmp(from.data, to.data, to.size) == 0, "the copy differs");
}

VK_CASE(memory, odd_sizes) {
  Gpu& gpu = t.gpu();
  // Sizes that are no multiple of a page, all alive at once: each keeps its bytes, and so do its neighbours.
  constexpr VkDeviceSize kSizes[] = {1, 3, 63, 64, 65, 4095, 4096, 4097, 16383, 131001, 131072, 1048577};
  std::vector<VkDeviceMemory> memories;
  std::vector<uint8_t*> maps;
  for (const VkDeviceSize size : kSizes) {
    memories.push_back(gpu.Allocate({size, 1, ~0u}, kHostMemory));
    void* data = nullptr;
    VK(vkMapMemory(gpu.device, memories.back(), 0, VK_WHOLE_SIZE, 0, &data));
    maps.push_back(static_cast<uint8_t*>(data));
  }
  for (size_t i = 0; i < maps.size(); i++) memset(maps[i], static_cast<int>(i + 1), kSizes[i]);
  for (size_t i = 0; i < maps.size(); i++) {
    bool right = true;
    for (VkDeviceSize at = 0; at < kSizes[i]; at++) right = right && maps[i][at] == i + 1;
    t.Expect(right, "size %zu does not keep its bytes", static_cast<size_t>(kSizes[i]));
  }
  // Every byte also reaches the device.
  for (size_t i = 0; i < maps.size(); i++) {
    Random(i).Fill(maps[i], kSizes[i]);
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = kSizes[i];
    info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
    VkBuffer buffer = VK_NULL_HANDLE;
    VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffer));
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(gpu.device, buffer, &requirements);
    if (requirements.size <= kSizes[i]) {
      VK(vkBindBufferMemory(gpu.device, buffer, memories[i], 0));
      const Buffer to = gpu.MakeBuffer(kSizes[i], VK_BUFFER_USAGE_TRANSFER_DST_BIT);
      gpu.Run([&](VkCommandBuffer commands) {
        const VkBufferCopy region = {0, 0, kSizes[i]};
        vkCmdCopyBuffer(commands, buffer, to.buffer, 1, &region);
      });
      t.Expect(memcmp(maps[i], to.data, kSizes[i]) == 0, "size %zu does not reach the device",
               static_cast<size_t>(kSizes[i]));
      t.Bytes("size", to.data, kSizes[i]);
    }
    vkDestroyBuffer(gpu.device, buffer, nullptr);
  }
}

VK_CASE(memory, map_offsets) {
  Gpu& gpu = t.gpu();
  const VkDeviceMemory memory = gpu.Allocate({100000, 1, ~0u}, kHostMemory);
  void* all = nullptr;
  VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &all));
  for (uint32_t i = 0; i < 100000; i++) static_cast<uint8_t*>(all)[i] = static_cast<uint8_t>(i * 7);
  vkUnmapMemory(gpu.device, memory);
  for (const uint32_t offset : {1u, 64u, 4096u, 5000u, 99999u}) {
    void* part = nullptr;
    VK(vkMapMemory(gpu.device, memory, offset, 1, 0, &part));
    t.Expect(*static_cast<uint8_t*>(part) == static_cast<uint8_t>(offset * 7), "offset %u", offset);
    vkUnmapMemory(gpu.device, memory);
  }
  // Alignment of a map at 0.
  VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &all));
  t.Expect(std::bit_cast<uintptr_t>(all) % gpu.properties.limits.minMemoryMapAlignment == 0, "a map is not aligned");
  t.Bytes("memory", all, 100000);
}

VK_CASE(memory, coherency) {
  // 10,000 times: the host writes, the device reads and answers, the host reads; no flush.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {1, 1024};  // add 1 to 1024 words
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  FullBarrier(commands);
  job.Dispatch(commands, 16, constants);
  VK(vkEndCommandBuffer(commands));
  uint32_t* words = data.as<uint32_t>();
  uint32_t wrong = 0;
  for (uint32_t round = 0; round < 10000; round++) {
    const uint32_t at = round % 1024;
    for (uint32_t i = 0; i < 8; i++) words[(at + i * 128) % 1024] = round * 2654435761u + i;
    gpu.SubmitAndWait(commands);
    for (uint32_t i = 0; i < 8; i++) wrong += words[(at + i * 128) % 1024] != round * 2654435761u + i + 1 ? 1 : 0;
  }
  t.Expect(wrong == 0, "%u stale or wrong words", wrong);
  t.Bytes("last", data.data, data.size);
}

VK_CASE(memory, write_while_executing) {
  // What the host writes into another part of a mapped buffer while the device works stays.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(1 << 20, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {3, 1024};
  const VkFence fence = gpu.MakeFence();
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  for (int i = 0; i < 50; i++) job.Dispatch(commands, 16, constants);
  VK(vkEndCommandBuffer(commands));
  gpu.Submit(commands, fence);
  for (uint32_t i = 65536; i < data.size / 4; i++) data.as<uint32_t>()[i] = i;
  gpu.Wait(fence);
  t.Expect(data.as<uint32_t>()[5] == 150, "the device's word is %u", data.as<uint32_t>()[5]);
  bool right = true;
  for (uint32_t i = 65536; i < data.size / 4; i++) right = right && data.as<uint32_t>()[i] == i;
  t.Expect(right, "the host's words were lost");
  t.Bytes("all", data.data, data.size);
}

VK_CASE(memory, flush_and_invalidate) {
  Gpu& gpu = t.gpu();
  const Buffer from = gpu.MakeBuffer(8192, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  const Buffer to = gpu.MakeBuffer(8192, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  Random(2).Fill(from.data, from.size);
  VkMappedMemoryRange ranges[2] = {{.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE},
                                   {.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE}};
  ranges[0].memory = from.memory;
  ranges[0].size = VK_WHOLE_SIZE;
  ranges[1].memory = to.memory;
  ranges[1].offset = 4096;
  ranges[1].size = VK_WHOLE_SIZE;
  VK(vkFlushMappedMemoryRanges(gpu.device, 2, ranges));
  gpu.Run([&](VkCommandBuffer commands) {
    const VkBufferCopy region = {0, 0, from.size};
    vkCmdCopyBuffer(commands, from.buffer, to.buffer, 1, &region);
  });
  VK(vkInvalidateMappedMemoryRanges(gpu.device, 2, ranges));
  t.Bytes("copy", to.data, to.size);
}

VK_CASE(memory, many_allocations) {
  Gpu& gpu = t.gpu();
  // Allocated and freed out of order, some mapped, with a tag in each.
  struct Piece {
    VkDeviceMemory memory;
    uint32_t* data;
  };
  std::vector<Piece> pieces(400, {VK_NULL_HANDLE, nullptr});
  Random random(3);
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.memoryTypeIndex = gpu.MemoryType(~0u, kHostMemory);
  for (uint32_t round = 0; round < 3000; round++) {
    Piece& piece = pieces[random.Next() % pieces.size()];
    if (piece.memory != VK_NULL_HANDLE) {
      if (piece.data != nullptr) {
        t.Expect(*piece.data == static_cast<uint32_t>(&piece - pieces.data()), "a tag changed");
      }
      vkFreeMemory(gpu.device, piece.memory, nullptr);
      piece = {VK_NULL_HANDLE, nullptr};
      continue;
    }
    info.allocationSize = 4 + random.Next() % 20000;
    VK(vkAllocateMemory(gpu.device, &info, nullptr, &piece.memory));
    if (random.Next() % 2 == 0) {
      void* data = nullptr;
      VK(vkMapMemory(gpu.device, piece.memory, 0, VK_WHOLE_SIZE, 0, &data));
      piece.data = static_cast<uint32_t*>(data);
      *piece.data = static_cast<uint32_t>(&piece - pieces.data());
    }
  }
  for (const Piece& piece : pieces) vkFreeMemory(gpu.device, piece.memory, nullptr);
}

VK_CASE(memory, free_while_mapped) {
  Gpu& gpu = t.gpu();
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.memoryTypeIndex = gpu.MemoryType(~0u, kHostMemory);
  info.allocationSize = 1 << 20;
  for (int i = 0; i < 200; i++) {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VK(vkAllocateMemory(gpu.device, &info, nullptr, &memory));
    void* data = nullptr;
    VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &data));
    memset(data, i, 1 << 20);
    vkFreeMemory(gpu.device, memory, nullptr);
  }
  vkFreeMemory(gpu.device, VK_NULL_HANDLE, nullptr);
}

VK_CASE(memory, requirements) {
  Gpu& gpu = t.gpu();
  for (const VkDeviceSize size : {1ull, 64ull, 1000ull, 1048576ull}) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    VkBuffer buffer = VK_NULL_HANDLE;
    VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffer));
    VkMemoryRequirements one;
    vkGetBufferMemoryRequirements(gpu.device, buffer, &one);
    VkBufferMemoryRequirementsInfo2 about = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
                                             .buffer = buffer};
    VkMemoryDedicatedRequirements dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 two = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, .pNext = &dedicated};
    vkGetBufferMemoryRequirements2(gpu.device, &about, &two);
    VkDeviceBufferMemoryRequirements created = {.sType = VK_STRUCTURE_TYPE_DEVICE_BUFFER_MEMORY_REQUIREMENTS,
                                                .pCreateInfo = &info};
    VkMemoryRequirements2 three = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
    vkGetDeviceBufferMemoryRequirements(gpu.device, &created, &three);
    t.Value("buffer.size", one.size);
    t.Value("buffer.alignment", one.alignment);
    t.Value("buffer.types", one.memoryTypeBits);
    t.Value("buffer.dedicated", dedicated.prefersDedicatedAllocation + 2 * dedicated.requiresDedicatedAllocation);
    t.Expect(one.size == two.memoryRequirements.size && one.size == three.memoryRequirements.size,
             "the three queries differ");
    t.Expect(one.size >= size, "too small");
    vkDestroyBuffer(gpu.device, buffer, nullptr);
  }
  for (const VkFormat format : {VK_FORMAT_R8_UNORM, VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_D32_SFLOAT_S8_UINT}) {
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent = {100, 60, 1};
    info.mipLevels = 3;
    info.arrayLayers = 2;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_SAMPLED_BIT;
    VkImage image = VK_NULL_HANDLE;
    VK(vkCreateImage(gpu.device, &info, nullptr, &image));
    VkMemoryRequirements one;
    vkGetImageMemoryRequirements(gpu.device, image, &one);
    VkDeviceImageMemoryRequirements created = {.sType = VK_STRUCTURE_TYPE_DEVICE_IMAGE_MEMORY_REQUIREMENTS,
                                               .pCreateInfo = &info};
    VkMemoryRequirements2 two = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
    vkGetDeviceImageMemoryRequirements(gpu.device, &created, &two);
    t.Value("image.size", one.size);
    t.Value("image.alignment", one.alignment);
    t.Value("image.types", one.memoryTypeBits);
    t.Expect(one.size == two.memoryRequirements.size, "the queries differ");
    vkDestroyImage(gpu.device, image, nullptr);
  }
}

VK_CASE(memory, bind2) {
  Gpu& gpu = t.gpu();
  // Two buffers and an image in one allocation, bound by one call each.
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = 4096;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffers[2];
  VkBindBufferMemoryInfo binds[2] = {};
  const VkDeviceMemory memory = gpu.Allocate({65536, 1, ~0u}, kHostMemory);
  for (int i = 0; i < 2; i++) {
    VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffers[i]));
    gpu.Defer([&gpu, buffer = buffers[i]] { vkDestroyBuffer(gpu.device, buffer, nullptr); });
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(gpu.device, buffers[i], &requirements);
    binds[i] = {.sType = VK_STRUCTURE_TYPE_BIND_BUFFER_MEMORY_INFO, .buffer = buffers[i], .memory = memory};
    binds[i].memoryOffset = static_cast<VkDeviceSize>(i) * 8192;
  }
  VK(vkBindBufferMemory2(gpu.device, 2, binds));
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, buffers[0], 0, VK_WHOLE_SIZE, 0x11111111);
    vkCmdFillBuffer(commands, buffers[1], 0, VK_WHOLE_SIZE, 0x22222222);
  });
  void* data = nullptr;
  VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &data));
  t.Bytes("first", data, 4096);
  t.Bytes("second", static_cast<uint8_t*>(data) + 8192, 4096);
  t.Expect(static_cast<uint32_t*>(data)[2048] == 0x22222222, "the second buffer is not at its offset");
}

VK_CASE(memory, dedicated) {
  Gpu& gpu = t.gpu();
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = 12345;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffer));
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(gpu.device, buffer, &requirements);
  VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                             .buffer = buffer};
  const VkDeviceMemory memory = gpu.Allocate(requirements, kHostMemory, &dedicated);
  gpu.Defer([&gpu, buffer] { vkDestroyBuffer(gpu.device, buffer, nullptr); });
  VK(vkBindBufferMemory(gpu.device, buffer, memory, 0));
  gpu.Run([&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, buffer, 0, 12344, 0xabcdef01); });
  void* data = nullptr;
  VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &data));
  t.Bytes("buffer", data, 12344);
}

VK_CASE(memory, out_of_memory) {
  Gpu& gpu = t.gpu();
  // More than any heap: refused at the allocation, and the device works on.
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.memoryTypeIndex = gpu.MemoryType(~0u, kHostMemory);
  std::vector<VkDeviceMemory> kept;
  info.allocationSize = 512ull << 20;
  VkResult result = VK_SUCCESS;
  // lavapipe has no limit of its own below what the host gives, so the heap's size ends it here.
  const VkDeviceSize heap = gpu.memory.memoryHeaps[gpu.memory.memoryTypes[info.memoryTypeIndex].heapIndex].size;
  for (VkDeviceSize all = 0; all + info.allocationSize <= heap / 2; all += info.allocationSize) {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    result = vkAllocateMemory(gpu.device, &info, nullptr, &memory);
    if (result != VK_SUCCESS) break;
    kept.push_back(memory);
  }
  t.Expect(result == VK_SUCCESS, "half of the heap cannot be allocated: %d", result);
  for (const VkDeviceMemory memory : kept) vkFreeMemory(gpu.device, memory, nullptr);
  const Buffer after = gpu.MakeBuffer(4096, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  gpu.Run([&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, after.buffer, 0, VK_WHOLE_SIZE, 5); });
  t.Expect(after.as<uint32_t>()[1000] == 5, "the device does not work on");
}

VK_CASE(memory, image_linear) {
  Gpu& gpu = t.gpu();
  // The host writes a linear image through its layout; the device copies it.
  ImageOptions options;
  options.tiling = VK_IMAGE_TILING_LINEAR;
  options.extent = {33, 17, 1};
  options.memory = kHostMemory;
  const Image image = gpu.MakeImage(options);
  VkImageSubresource sub = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
  VkSubresourceLayout layout;
  vkGetImageSubresourceLayout(gpu.device, image.image, &sub, &layout);
  t.Value("offset", layout.offset);
  t.Value("size", layout.size);
  t.Value("row", layout.rowPitch);
  gpu.Run([&](VkCommandBuffer commands) { ToGeneral(commands, image); });
  void* data = nullptr;
  VK(vkMapMemory(gpu.device, image.memory, 0, VK_WHOLE_SIZE, 0, &data));
  for (uint32_t y = 0; y < 17; y++) {
    auto* row = static_cast<uint8_t*>(data) + layout.offset + y * layout.rowPitch;
    for (uint32_t x = 0; x < 33; x++) {
      const uint32_t texel = x | y << 8 | 0xff000000u;
      memcpy(row + 4 * x, &texel, 4);
    }
  }
  const std::vector<uint8_t> pixels = gpu.Read(image);
  t.Bytes("pixels", pixels);
  uint32_t last = 0;
  memcpy(&last, pixels.data() + pixels.size() - 4, 4);
  t.Expect(last == (32u | 16u << 8 | 0xff000000u), "the last texel is %#x", last);
}

}  // namespace sluice::vktest
