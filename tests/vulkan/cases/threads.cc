// Several threads: recording, submitting, creating, whole devices.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {
namespace {

constexpr uint32_t kThreads = 8;

void OnThreads(const std::function<void(uint32_t)>& run) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; i++) threads.emplace_back([&run, i] { run(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

VK_CASE(threads, record) {
  // Every thread records into a pool of its own; all is submitted at once.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(kThreads * 4096, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  VkCommandPool pools[kThreads];
  VkCommandBuffer commands[kThreads];
  for (int round = 0; round < 5; round++) {
    OnThreads([&](uint32_t i) {
      VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
      info.queueFamilyIndex = gpu.family;
      VK(vkCreateCommandPool(gpu.device, &info, nullptr, &pools[i]));
      VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
      allocate.commandPool = pools[i];
      allocate.commandBufferCount = 1;
      VK(vkAllocateCommandBuffers(gpu.device, &allocate, &commands[i]));
      gpu.Begin(commands[i]);
      for (uint32_t k = 0; k < 5000; k++)
        vkCmdFillBuffer(commands[i], data.buffer, i * 4096 + 4 * (k % 1024), 4, i * 100000 + k);
      FullBarrier(commands[i]);
      VK(vkEndCommandBuffer(commands[i]));
    });
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = kThreads;
    submit.pCommandBuffers = commands;
    VK(vkQueueSubmit(gpu.queue, 1, &submit, VK_NULL_HANDLE));
    VK(vkQueueWaitIdle(gpu.queue));
    for (const VkCommandPool pool : pools) vkDestroyCommandPool(gpu.device, pool, nullptr);
  }
  t.Bytes("result", data.data, data.size);
  t.Expect(data.as<uint32_t>()[7 * 1024] == 700000 + 4096, "the word is %u", data.as<uint32_t>()[7 * 1024]);
}

VK_CASE(threads, create_and_destroy) {
  Gpu& gpu = t.gpu();
  OnThreads([&](uint32_t i) {
    Random random(i);
    for (int round = 0; round < 500; round++) {
      VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
      info.size = 1 + random.Next() % 10000;
      info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
      VkBuffer buffer = VK_NULL_HANDLE;
      VK(vkCreateBuffer(gpu.device, &info, nullptr, &buffer));
      VkMemoryRequirements requirements;
      vkGetBufferMemoryRequirements(gpu.device, buffer, &requirements);
      VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
      allocate.allocationSize = requirements.size;
      allocate.memoryTypeIndex = gpu.MemoryType(requirements.memoryTypeBits, kHostMemory);
      VkDeviceMemory memory = VK_NULL_HANDLE;
      VK(vkAllocateMemory(gpu.device, &allocate, nullptr, &memory));
      VK(vkBindBufferMemory(gpu.device, buffer, memory, 0));
      void* data = nullptr;
      VK(vkMapMemory(gpu.device, memory, 0, VK_WHOLE_SIZE, 0, &data));
      memset(data, static_cast<int>(i), info.size);
      t.Expect(static_cast<uint8_t*>(data)[info.size - 1] == i, "a byte of another thread");
      vkDestroyBuffer(gpu.device, buffer, nullptr);
      vkFreeMemory(gpu.device, memory, nullptr);
    }
  });
}

VK_CASE(threads, submit) {
  // Submissions of all threads to one queue, under a lock; each waits for its own fence.
  Gpu& gpu = t.gpu();
  std::mutex queue_mutex;
  std::vector<Buffer> data;
  std::vector<std::unique_ptr<ComputeJob>> jobs;
  std::vector<VkFence> fences;
  std::vector<VkCommandBuffer> commands;
  for (uint32_t i = 0; i < kThreads; i++) {
    data.push_back(gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT));
    jobs.push_back(
        std::make_unique<ComputeJob>(gpu, add_comp, sizeof add_comp, std::vector<const Buffer*>{&data.back()}, 8));
    fences.push_back(gpu.MakeFence());
    commands.push_back(gpu.MakeCommands());
    const uint32_t constants[2] = {i + 1, 64};
    gpu.Begin(commands[i]);
    jobs[i]->Dispatch(commands[i], 1, constants);
    VK(vkEndCommandBuffer(commands[i]));
  }
  OnThreads([&](uint32_t i) {
    for (uint32_t round = 1; round <= 200; round++) {
      {
        const std::lock_guard lock(queue_mutex);
        gpu.Submit(commands[i], fences[i]);
      }
      gpu.Wait(fences[i]);
      VK(vkResetFences(gpu.device, 1, &fences[i]));
      t.Expect(data[i].as<uint32_t>()[0] == round * (i + 1), "thread %u, round %u: %u", i, round,
               data[i].as<uint32_t>()[0]);
    }
  });
  for (uint32_t i = 0; i < kThreads; i++) t.Bytes("result", data[i].data, 256);
}

VK_CASE(threads, pipelines) {
  // Created on all threads at once, through one cache.
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&buffer}, 8);
  VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache = VK_NULL_HANDLE;
  VK(vkCreatePipelineCache(gpu.device, &cache_info, nullptr, &cache));
  const VkShaderModule shader = gpu.MakeShader(add_comp, sizeof add_comp);
  VkPipeline pipelines[kThreads];
  OnThreads([&](uint32_t i) {
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = shader;
    info.stage.pName = "main";
    info.layout = job.layout;
    VK(vkCreateComputePipelines(gpu.device, cache, 1, &info, nullptr, &pipelines[i]));
  });
  const uint32_t constants[2] = {2, 64};
  gpu.Run([&](VkCommandBuffer commands) {
    for (const VkPipeline pipeline : pipelines) {
      job.Bind(commands, constants);
      vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
      vkCmdDispatch(commands, 1, 1, 1);
      FullBarrier(commands);
    }
  });
  t.Bytes("result", buffer.data, buffer.size);
  t.Expect(buffer.as<uint32_t>()[0] == 2 * kThreads, "the word is %u", buffer.as<uint32_t>()[0]);
  for (const VkPipeline pipeline : pipelines) vkDestroyPipeline(gpu.device, pipeline, nullptr);
  vkDestroyPipelineCache(gpu.device, cache, nullptr);
}

VK_CASE(threads, devices) {
  // A whole instance and device on each of four threads.
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; i++) {
    threads.emplace_back([&t, i] {
      Gpu gpu(t, GpuOptions());
      const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
      ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
      const uint32_t constants[2] = {i, 64};
      for (int round = 0; round < 20; round++) {
        gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 1, constants); });
      }
      t.Expect(data.as<uint32_t>()[0] == 20 * i, "thread %u: %u", i, data.as<uint32_t>()[0]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

VK_CASE(threads, descriptor_updates) {
  // Each thread writes the sets of its own pool.
  Gpu& gpu = t.gpu();
  const Buffer buffer = gpu.MakeBuffer(4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  const VkDescriptorSetLayout layout =
      gpu.MakeSetLayout({{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}});
  std::vector<VkDescriptorPool> pools;
  for (uint32_t i = 0; i < kThreads; i++) pools.push_back(gpu.MakePool(16, {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 16}}));
  OnThreads([&](uint32_t i) {
    for (int round = 0; round < 50; round++) {
      for (uint32_t k = 0; k < 16; k++) {
        const VkDescriptorSet set = gpu.MakeSet(pools[i], layout);
        WriteBuffer(gpu, set, 0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffer.buffer, k * 64, 64);
      }
      VK(vkResetDescriptorPool(gpu.device, pools[i], 0));
    }
  });
}

VK_CASE(threads, fork_with_exec) {
  // A child of a program with a device, that only runs another program, does not disturb it.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const uint32_t constants[2] = {1, 64};
  for (uint32_t round = 1; round <= 5; round++) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/true", "true", static_cast<char*>(nullptr));
      _exit(127);
    }
    gpu.Run([&](VkCommandBuffer commands) { job.Dispatch(commands, 1, constants); });
    int status = -1;
    waitpid(child, &status, 0);
    t.Expect(status == 0, "the child's status is %d", status);
    t.Expect(data.as<uint32_t>()[0] == round, "round %u: %u", round, data.as<uint32_t>()[0]);
  }
}

VK_CASE(threads, many_contexts) {
  // 20 instances one after the other, none with a device.
  for (int i = 0; i < 20; i++) {
    InstanceHolder holder(t, VK_API_VERSION_1_3);
    uint32_t count = 0;
    VK(vkEnumeratePhysicalDevices(holder.instance, &count, nullptr));
    t.Expect(count > 0, "instance %d has no device", i);
  }
}

}  // namespace sluice::vktest
