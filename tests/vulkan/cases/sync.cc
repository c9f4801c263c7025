// Fences, semaphores of both kinds, events, synchronization2, waiting.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/vulkan/lib/compute.h"
#include "tests/vulkan/lib/gpu.h"
#include "tests/vulkan/shaders/add_comp.h"

namespace sluice::vktest {
namespace {

constexpr VkBufferUsageFlags kStorage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;

// A command buffer that adds `add` to the first 64 words of `data`.
VkCommandBuffer Adder(Gpu& gpu, const ComputeJob& job, uint32_t add) {
  const uint32_t constants[2] = {add, 64};
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
  FullBarrier(commands);
  job.Dispatch(commands, 1, constants);
  VK(vkEndCommandBuffer(commands));
  return commands;
}

// A submission with timeline semaphores; either may be null.
void SubmitTimeline(Gpu& gpu, VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value, VkSemaphore signal,
                    uint64_t signal_value) {
  VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values};
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  submit.pWaitDstStageMask = &stage;
  submit.waitSemaphoreCount = values.waitSemaphoreValueCount = wait != VK_NULL_HANDLE ? 1 : 0;
  submit.pWaitSemaphores = &wait;
  values.pWaitSemaphoreValues = &wait_value;
  submit.signalSemaphoreCount = values.signalSemaphoreValueCount = signal != VK_NULL_HANDLE ? 1 : 0;
  submit.pSignalSemaphores = &signal;
  values.pSignalSemaphoreValues = &signal_value;
  submit.commandBufferCount = commands != VK_NULL_HANDLE ? 1 : 0;
  submit.pCommandBuffers = &commands;
  VK(vkQueueSubmit(gpu.queue, 1, &submit, VK_NULL_HANDLE));
}

VkResult WaitTimeline(Gpu& gpu, VkSemaphore semaphore, uint64_t value, uint64_t timeout = kTimeoutNs) {
  VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  return vkWaitSemaphores(gpu.device, &info, timeout);
}

uint64_t Counter(Gpu& gpu, VkSemaphore semaphore) {
  uint64_t value = 0;
  VK(vkGetSemaphoreCounterValue(gpu.device, semaphore, &value));
  return value;
}

void Signal(Gpu& gpu, VkSemaphore semaphore, uint64_t value) {
  VkSemaphoreSignalInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = value};
  VK(vkSignalSemaphore(gpu.device, &info));
}

}  // namespace

VK_CASE(sync, fences) {
  Gpu& gpu = t.gpu();
  const VkFence fence = gpu.MakeFence(), signaled = gpu.MakeFence(true);
  t.Expect(vkGetFenceStatus(gpu.device, fence) == VK_NOT_READY, "a new fence is signaled");
  t.Expect(vkGetFenceStatus(gpu.device, signaled) == VK_SUCCESS, "a fence made signaled is not");
  t.Expect(vkWaitForFences(gpu.device, 1, &fence, VK_TRUE, 0) == VK_TIMEOUT, "a wait of 0 succeeds");
  t.Expect(vkWaitForFences(gpu.device, 1, &fence, VK_TRUE, 2'000'000) == VK_TIMEOUT, "a wait of 2 ms succeeds");
  const VkFence both[2] = {fence, signaled};
  t.Expect(vkWaitForFences(gpu.device, 2, both, VK_FALSE, 0) == VK_SUCCESS, "one of two is not enough for any");
  t.Expect(vkWaitForFences(gpu.device, 2, both, VK_TRUE, 1000) == VK_TIMEOUT, "one of two is enough for all");
  VK(vkQueueSubmit(gpu.queue, 0, nullptr, fence));
  VK(vkWaitForFences(gpu.device, 2, both, VK_TRUE, UINT64_MAX));
  t.Expect(vkGetFenceStatus(gpu.device, fence) == VK_SUCCESS, "not signaled after a wait");
  VK(vkResetFences(gpu.device, 2, both));
  t.Expect(
      vkGetFenceStatus(gpu.device, fence) == VK_NOT_READY && vkGetFenceStatus(gpu.device, signaled) == VK_NOT_READY,
      "a reset fence is signaled");
}

VK_CASE(sync, fence_polling) {
  // After one submission and no other call a fence's status changes by itself.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  const VkFence fence = gpu.MakeFence();
  for (uint32_t round = 0; round < 300; round++) {
    gpu.Submit(commands, fence);
    VkResult status = VK_NOT_READY;
    for (uint64_t polls = 0; status == VK_NOT_READY && polls < 2'000'000'000; polls++)
      status = vkGetFenceStatus(gpu.device, fence);
    t.Expect(status == VK_SUCCESS, "round %u: %d", round, status);
    t.Expect(data.as<uint32_t>()[0] == round + 1, "round %u: the fence is early, the word %u", round,
             data.as<uint32_t>()[0]);
    VK(vkResetFences(gpu.device, 1, &fence));
  }
}

VK_CASE(sync, many_submissions) {
  // 2,000 submissions with fences from a ring of 16, waited for out of order.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  std::vector<VkFence> fences;
  for (int i = 0; i < 16; i++) fences.push_back(gpu.MakeFence(true));
  Random random(1);
  for (uint32_t i = 0; i < 2000; i++) {
    const VkFence fence = fences[random.Next() % 16];
    gpu.Wait(fence);
    VK(vkResetFences(gpu.device, 1, &fence));
    gpu.Submit(commands, fence);
  }
  VK(vkWaitForFences(gpu.device, 16, fences.data(), VK_TRUE, kTimeoutNs));
  t.Value("sum", data.as<uint32_t>()[63]);
  t.Expect(data.as<uint32_t>()[63] == 2000, "the sum is %u", data.as<uint32_t>()[63]);
}

VK_CASE(sync, idle) {
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  for (uint32_t i = 0; i < 100; i++) {
    gpu.Submit(commands);
    if (i % 2 == 0) {
      VK(vkQueueWaitIdle(gpu.queue));
    } else {
      VK(vkDeviceWaitIdle(gpu.device));
    }
    t.Expect(data.as<uint32_t>()[5] == i + 1, "idle too early in round %u", i);
  }
}

VK_CASE(sync, binary_semaphores) {
  // A chain of submissions, each waiting for the one before, in one call and in many.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  VkSemaphore semaphores[5];
  for (VkSemaphore& semaphore : semaphores) semaphore = gpu.MakeSemaphore();
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  for (int round = 0; round < 20; round++) {
    VkSubmitInfo submits[5];
    for (int i = 0; i < 5; i++) {
      submits[i] = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
      submits[i].commandBufferCount = 1;
      submits[i].pCommandBuffers = &commands;
      submits[i].pWaitDstStageMask = &stage;
      if (i > 0) {
        submits[i].waitSemaphoreCount = 1;
        submits[i].pWaitSemaphores = &semaphores[i - 1];
      }
      if (i < 4) {
        submits[i].signalSemaphoreCount = 1;
        submits[i].pSignalSemaphores = &semaphores[i];
      }
    }
    if (round % 2 == 0) {
      VK(vkQueueSubmit(gpu.queue, 5, submits, VK_NULL_HANDLE));
    } else {
      for (const VkSubmitInfo& submit : submits) VK(vkQueueSubmit(gpu.queue, 1, &submit, VK_NULL_HANDLE));
    }
  }
  VK(vkQueueWaitIdle(gpu.queue));
  t.Value("sum", data.as<uint32_t>()[0]);
  t.Expect(data.as<uint32_t>()[0] == 100, "the sum is %u", data.as<uint32_t>()[0]);
}

VK_CASE(sync, timeline_basics) {
  Gpu& gpu = t.gpu();
  const VkSemaphore semaphore = gpu.MakeTimeline(7);
  t.Expect(Counter(gpu, semaphore) == 7, "the initial value");
  t.Expect(WaitTimeline(gpu, semaphore, 7, 0) == VK_SUCCESS, "the initial value is not reached");
  t.Expect(WaitTimeline(gpu, semaphore, 8, 0) == VK_TIMEOUT, "a value beyond is");
  t.Expect(WaitTimeline(gpu, semaphore, 8, 3'000'000) == VK_TIMEOUT, "a value beyond is after 3 ms");
  Signal(gpu, semaphore, 10);
  t.Expect(Counter(gpu, semaphore) == 10, "after a host signal");
  SubmitTimeline(gpu, VK_NULL_HANDLE, semaphore, 10, semaphore, 1000000000000ull);
  VK(WaitTimeline(gpu, semaphore, 1000000000000ull));
  t.Expect(Counter(gpu, semaphore) == 1000000000000ull, "after a queue's signal");
}

VK_CASE(sync, timeline_ping_pong) {
  // Host and device take turns, 500 times.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 3);
  const VkSemaphore semaphore = gpu.MakeTimeline();
  for (uint64_t round = 0; round < 500; round++) {
    SubmitTimeline(gpu, commands, semaphore, 2 * round + 1, semaphore, 2 * round + 2);
    data.as<uint32_t>()[0] = static_cast<uint32_t>(round);
    Signal(gpu, semaphore, 2 * round + 1);
    VK(WaitTimeline(gpu, semaphore, 2 * round + 2));
    t.Expect(data.as<uint32_t>()[0] == round + 3, "round %llu gives %u", static_cast<unsigned long long>(round),
             data.as<uint32_t>()[0]);
  }
  t.Bytes("result", data.data, data.size);
}

VK_CASE(sync, timeline_wait_before_signal) {
  // The wait is submitted before anybody signals; another thread does so later.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  const VkSemaphore go = gpu.MakeTimeline(), done = gpu.MakeTimeline();
  for (uint64_t round = 1; round <= 20; round++) {
    SubmitTimeline(gpu, commands, go, round, done, round);
    t.Expect(Counter(gpu, done) == round - 1, "executed before its signal");
    std::thread other([&] {
      usleep(3000);
      Signal(gpu, go, round);
    });
    VK(WaitTimeline(gpu, done, round));
    other.join();
  }
  t.Expect(data.as<uint32_t>()[9] == 20, "the sum is %u", data.as<uint32_t>()[9]);
}

VK_CASE(sync, timeline_host_waits) {
  // Threads wait for host signals of another thread, any and all.
  Gpu& gpu = t.gpu();
  const VkSemaphore semaphores[2] = {gpu.MakeTimeline(), gpu.MakeTimeline()};
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  for (uint64_t i = 1; i <= 4; i++) {
    waiters.emplace_back([&, i] {
      const uint64_t values[2] = {i, i};
      VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
      info.flags = i % 2 == 0 ? VK_SEMAPHORE_WAIT_ANY_BIT : 0;
      info.semaphoreCount = 2;
      info.pSemaphores = semaphores;
      info.pValues = values;
      VK(vkWaitSemaphores(gpu.device, &info, kTimeoutNs));
      woken++;
    });
  }
  usleep(5000);
  Signal(gpu, semaphores[0], 4);  // wakes the two that wait for any
  while (woken < 2) usleep(1000);
  usleep(5000);
  t.Expect(woken == 2, "%d woken, not 2", woken.load());
  Signal(gpu, semaphores[1], 4);
  for (std::thread& waiter : waiters) waiter.join();
  t.Expect(woken == 4, "%d woken, not 4", woken.load());
}

VK_CASE(sync, events_by_host) {
  Gpu& gpu = t.gpu();
  const VkEvent event = gpu.MakeEvent();
  t.Expect(vkGetEventStatus(gpu.device, event) == VK_EVENT_RESET, "a new event is set");
  VK(vkSetEvent(gpu.device, event));
  t.Expect(vkGetEventStatus(gpu.device, event) == VK_EVENT_SET, "a set event is not");
  VK(vkResetEvent(gpu.device, event));
  t.Expect(vkGetEventStatus(gpu.device, event) == VK_EVENT_RESET, "a reset event is set");
}

VK_CASE(sync, events_by_device) {
  Gpu& gpu = t.gpu();
  const VkEvent event = gpu.MakeEvent(), second = gpu.MakeEvent();
  const Buffer data = gpu.MakeBuffer(64, kStorage);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, data.buffer, 0, 4, 1);
    vkCmdSetEvent(commands, event, VK_PIPELINE_STAGE_TRANSFER_BIT);
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    vkCmdWaitEvents(commands, 1, &event, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 1, &barrier, 0,
                    nullptr, 0, nullptr);
    vkCmdFillBuffer(commands, data.buffer, 0, 4, 2);
    VkMemoryBarrier2 barrier2 = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
    barrier2.srcStageMask = barrier2.dstStageMask = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    barrier2.srcAccessMask = barrier2.dstAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT;
    VkDependencyInfo dependency = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
    dependency.memoryBarrierCount = 1;
    dependency.pMemoryBarriers = &barrier2;
    vkCmdSetEvent2(commands, second, &dependency);
    vkCmdWaitEvents2(commands, 1, &second, &dependency);
    vkCmdFillBuffer(commands, data.buffer, 4, 4, 3);
  });
  t.Expect(vkGetEventStatus(gpu.device, event) == VK_EVENT_SET && vkGetEventStatus(gpu.device, second) == VK_EVENT_SET,
           "not set by the device");
  t.Bytes("result", data.data, 8);
  gpu.Run([&](VkCommandBuffer commands) {
    vkCmdResetEvent(commands, event, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    vkCmdResetEvent2(commands, second, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
  });
  t.Expect(
      vkGetEventStatus(gpu.device, event) == VK_EVENT_RESET && vkGetEventStatus(gpu.device, second) == VK_EVENT_RESET,
      "not reset by the device");
}

VK_CASE(sync, events_polled) {
  // The host waits for the device by polling events.
  Gpu& gpu = t.gpu();
  const VkEvent event = gpu.MakeEvent();
  const VkCommandBuffer commands = gpu.MakeCommands();
  gpu.Begin(commands);
  vkCmdSetEvent(commands, event, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  VK(vkEndCommandBuffer(commands));
  for (int round = 0; round < 100; round++) {
    gpu.Submit(commands);
    VkResult status = VK_EVENT_RESET;
    for (uint64_t polls = 0; status == VK_EVENT_RESET && polls < 2'000'000'000; polls++)
      status = vkGetEventStatus(gpu.device, event);
    t.Expect(status == VK_EVENT_SET, "round %d: %d", round, status);
    VK(vkQueueWaitIdle(gpu.queue));
    VK(vkResetEvent(gpu.device, event));
  }
}

VK_CASE(sync, submit2_and_barrier2) {
  Gpu& gpu = t.gpu();
  const Buffer a = gpu.MakeBuffer(256, kStorage | VK_BUFFER_USAGE_TRANSFER_SRC_BIT), b = gpu.MakeBuffer(256, kStorage);
  const VkSemaphore binary = gpu.MakeSemaphore(), timeline = gpu.MakeTimeline();
  const VkFence fence = gpu.MakeFence();
  VkCommandBuffer buffers[2] = {gpu.MakeCommands(), gpu.MakeCommands()};
  ImageOptions options;
  const Image image = gpu.MakeImage(options);
  gpu.Begin(buffers[0]);
  vkCmdFillBuffer(buffers[0], a.buffer, 0, VK_WHOLE_SIZE, 0x31415926);
  VkImageMemoryBarrier2 image_barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2};
  image_barrier.dstStageMask = VK_PIPELINE_STAGE_2_CLEAR_BIT;
  image_barrier.dstAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT;
  image_barrier.newLayout = VK_IMAGE_LAYOUT_GENERAL;
  image_barrier.srcQueueFamilyIndex = image_barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  image_barrier.image = image.image;
  image_barrier.subresourceRange = image.whole();
  VkBufferMemoryBarrier2 buffer_barrier = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER_2};
  buffer_barrier.srcStageMask = VK_PIPELINE_STAGE_2_CLEAR_BIT;
  buffer_barrier.srcAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT;
  buffer_barrier.dstStageMask = VK_PIPELINE_STAGE_2_COPY_BIT;
  buffer_barrier.dstAccessMask = VK_ACCESS_2_TRANSFER_READ_BIT;
  buffer_barrier.srcQueueFamilyIndex = buffer_barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  buffer_barrier.buffer = a.buffer;
  buffer_barrier.size = VK_WHOLE_SIZE;
  VkDependencyInfo dependency = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  dependency.bufferMemoryBarrierCount = dependency.imageMemoryBarrierCount = 1;
  dependency.pBufferMemoryBarriers = &buffer_barrier;
  dependency.pImageMemoryBarriers = &image_barrier;
  vkCmdPipelineBarrier2(buffers[0], &dependency);
  const VkClearColorValue color = {.float32 = {0, 1, 0, 1}};
  const VkImageSubresourceRange range = image.whole();
  vkCmdClearColorImage(buffers[0], image.image, VK_IMAGE_LAYOUT_GENERAL, &color, 1, &range);
  VK(vkEndCommandBuffer(buffers[0]));
  gpu.Begin(buffers[1]);
  const VkBufferCopy region = {0, 0, 256};
  vkCmdCopyBuffer(buffers[1], a.buffer, b.buffer, 1, &region);
  FullBarrier(buffers[1]);
  VK(vkEndCommandBuffer(buffers[1]));
  VkCommandBufferSubmitInfo commands[2] = {
      {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = buffers[0]},
      {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = buffers[1]}};
  VkSemaphoreSubmitInfo link = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, .semaphore = binary};
  link.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  VkSemaphoreSubmitInfo end = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, .semaphore = timeline, .value = 42};
  end.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  VkSubmitInfo2 submits[2] = {{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2}, {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2}};
  submits[0].commandBufferInfoCount = submits[1].commandBufferInfoCount = 1;
  submits[0].pCommandBufferInfos = &commands[0];
  submits[0].signalSemaphoreInfoCount = 1;
  submits[0].pSignalSemaphoreInfos = &link;
  submits[1].pCommandBufferInfos = &commands[1];
  submits[1].waitSemaphoreInfoCount = 1;
  submits[1].pWaitSemaphoreInfos = &link;
  submits[1].signalSemaphoreInfoCount = 1;
  submits[1].pSignalSemaphoreInfos = &end;
  VK(vkQueueSubmit2(gpu.queue, 2, submits, fence));
  VK(WaitTimeline(gpu, timeline, 42));
  gpu.Wait(fence);
  t.Bytes("buffer", b.data, b.size);
  t.Bytes("image", gpu.Read(image));
  t.Expect(b.as<uint32_t>()[63] == 0x31415926, "the copy is %#x", b.as<uint32_t>()[63]);
}

VK_CASE(sync, waiters_on_threads) {
  // Eight threads wait for one fence each.
  Gpu& gpu = t.gpu();
  const Buffer data = gpu.MakeBuffer(256, kStorage);
  ComputeJob job(gpu, add_comp, sizeof add_comp, {&data}, 8);
  const VkCommandBuffer commands = Adder(gpu, job, 1);
  std::vector<VkFence> fences;
  for (int i = 0; i < 8; i++) fences.push_back(gpu.MakeFence());
  for (int round = 0; round < 20; round++) {
    for (const VkFence fence : fences) gpu.Submit(commands, fence);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 8; i++) waiters.emplace_back([&, i] { gpu.Wait(fences[static_cast<size_t>(i)]); });
    for (std::thread& waiter : waiters) waiter.join();
    VK(vkResetFences(gpu.device, 8, fences.data()));
  }
  t.Expect(data.as<uint32_t>()[0] == 160, "the sum is %u", data.as<uint32_t>()[0]);
}

}  // namespace sluice::vktest
