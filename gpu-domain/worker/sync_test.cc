// Synchronisation as a guest's program sees it, through the whole worker on a real driver: fences, timeline semaphores,
// events, queries, and what becomes of waiters when there is nothing left to wait for.
#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/worker.h"
#include "vmm/base/seqpacket.h"

namespace sluice::worker {
namespace {

using testing::FakeFrontend;
using testing::GuestPlatform;

constexpr uint64_t kLongNs = uint64_t{60} * 1'000'000'000;  // patience, where something must come

const VulkanDriver* Driver() {
  static const absl::StatusOr<std::unique_ptr<VulkanDriver>> driver = VulkanDriver::Create({});
  return driver.ok() ? driver->get() : nullptr;
}

class SyncTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Driver() == nullptr) GTEST_SKIP() << "no Vulkan driver";
    options_.memory_bytes = 64 << 20;
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    frontend_ = std::make_unique<FakeFrontend>(std::move(pair->first));
    worker_ = std::make_unique<Worker>(options_, std::move(pair->second), Driver(), &stats_, UniqueFd());
    worker_->SetOnHung([this](absl::string_view) { hung_ = true; });
    thread_ = std::thread([this] { worker_->Run(); });
    ASSERT_TRUE(frontend_->Hello("linux").ok());
    frontend_->CreateContext(1);
    auto guest = GuestPlatform::Create(frontend_.get(), 1);
    ASSERT_TRUE(guest.ok()) << guest.status();
    guest_ = *std::move(guest);
    MakeDevice();
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    frontend_->Close();
    thread_.join();
    worker_.reset();
    EXPECT_FALSE(hung_);
    EXPECT_EQ(stats_.objects.load(), 0u);
  }

  void MakeDevice() {
    VkApplicationInfo app{};
    app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    app.apiVersion = VK_API_VERSION_1_3;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &app;
    ASSERT_EQ(vkCreateInstance(&info, nullptr, &instance_), VK_SUCCESS);
    uint32_t count = 1;
    ASSERT_GE(vkEnumeratePhysicalDevices(instance_, &count, &physical_), VK_SUCCESS);
    VkPhysicalDeviceVulkan13Features features13{};
    features13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    features13.synchronization2 = VK_TRUE;
    VkPhysicalDeviceVulkan12Features features12{};
    features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    features12.pNext = &features13;
    features12.timelineSemaphore = VK_TRUE;
    features12.hostQueryReset = VK_TRUE;
    const float priority = 1;
    VkDeviceQueueCreateInfo queues{};
    queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkDeviceCreateInfo device{};
    device.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device.pNext = &features12;
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queues;
    ASSERT_EQ(vkCreateDevice(physical_, &device, nullptr, &device_), VK_SUCCESS);
    vkGetDeviceQueue(device_, 0, 0, &queue_);
    ASSERT_NE(queue_, nullptr);
    VkCommandPoolCreateInfo pool{};
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    ASSERT_EQ(vkCreateCommandPool(device_, &pool, nullptr, &pool_), VK_SUCCESS);
  }
  void DestroyDevice() {
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
    vkDestroyInstance(instance_, nullptr);
  }

  VkFence Fence(VkFenceCreateFlags flags = 0) {
    VkFenceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    info.flags = flags;
    VkFence fence = VK_NULL_HANDLE;
    EXPECT_EQ(vkCreateFence(device_, &info, nullptr, &fence), VK_SUCCESS);
    return fence;
  }
  VkSemaphore Timeline(uint64_t value) {
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    type.initialValue = value;
    VkSemaphoreCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    EXPECT_EQ(vkCreateSemaphore(device_, &info, nullptr, &semaphore), VK_SUCCESS);
    return semaphore;
  }
  uint64_t Counter(VkSemaphore semaphore) {
    uint64_t value = ~uint64_t{0};
    EXPECT_EQ(vkGetSemaphoreCounterValue(device_, semaphore, &value), VK_SUCCESS);
    return value;
  }
  VkResult Wait(const std::vector<VkSemaphore>& semaphores, const std::vector<uint64_t>& values, uint64_t timeout,
                VkSemaphoreWaitFlags flags = 0) {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.flags = flags;
    info.semaphoreCount = static_cast<uint32_t>(semaphores.size());
    info.pSemaphores = semaphores.data();
    info.pValues = values.data();
    return vkWaitSemaphores(device_, &info, timeout);
  }
  VkResult Signal(VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreSignalInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = semaphore;
    info.value = value;
    return vkSignalSemaphore(device_, &info);
  }
  // A batch that waits for a value and then signals one (null: neither).
  struct Batch {
    VkSemaphore wait = VK_NULL_HANDLE;
    uint64_t wait_value = 0;
    VkSemaphore signal = VK_NULL_HANDLE;
    uint64_t signal_value = 0;
  };
  VkResult Submit(const std::vector<Batch>& batches, VkFence fence) {
    std::vector<VkSubmitInfo> infos(batches.size());
    std::vector<VkTimelineSemaphoreSubmitInfo> values(batches.size());
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    for (size_t i = 0; i < batches.size(); i++) {
      values[i].sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
      infos[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      infos[i].pNext = &values[i];
      if (batches[i].wait != VK_NULL_HANDLE) {
        values[i].waitSemaphoreValueCount = infos[i].waitSemaphoreCount = 1;
        values[i].pWaitSemaphoreValues = &batches[i].wait_value;
        infos[i].pWaitSemaphores = &batches[i].wait;
        infos[i].pWaitDstStageMask = &stage;
      }
      if (batches[i].signal != VK_NULL_HANDLE) {
        values[i].signalSemaphoreValueCount = infos[i].signalSemaphoreCount = 1;
        values[i].pSignalSemaphoreValues = &batches[i].signal_value;
        infos[i].pSignalSemaphores = &batches[i].signal;
      }
    }
    return vkQueueSubmit(queue_, static_cast<uint32_t>(infos.size()), infos.data(), fence);
  }
  VkResult Submit2(const std::vector<Batch>& batches, VkFence fence) {
    std::vector<VkSubmitInfo2> infos(batches.size());
    std::vector<VkSemaphoreSubmitInfo> waits(batches.size()), signals(batches.size());
    for (size_t i = 0; i < batches.size(); i++) {
      infos[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
      waits[i].sType = signals[i].sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO;
      waits[i].stageMask = signals[i].stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
      waits[i].semaphore = batches[i].wait;
      waits[i].value = batches[i].wait_value;
      signals[i].semaphore = batches[i].signal;
      signals[i].value = batches[i].signal_value;
      infos[i].waitSemaphoreInfoCount = batches[i].wait != VK_NULL_HANDLE ? 1 : 0;
      infos[i].pWaitSemaphoreInfos = &waits[i];
      infos[i].signalSemaphoreInfoCount = batches[i].signal != VK_NULL_HANDLE ? 1 : 0;
      infos[i].pSignalSemaphoreInfos = &signals[i];
    }
    return vkQueueSubmit2(queue_, static_cast<uint32_t>(infos.size()), infos.data(), fence);
  }
  VkCommandBuffer Begin() {
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    EXPECT_EQ(vkAllocateCommandBuffers(device_, &allocate, &commands), VK_SUCCESS);
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    EXPECT_EQ(vkBeginCommandBuffer(commands, &begin), VK_SUCCESS);
    return commands;
  }
  void EndAndRun(VkCommandBuffer commands) {
    EXPECT_EQ(vkEndCommandBuffer(commands), VK_SUCCESS);
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    EXPECT_EQ(vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
    EXPECT_EQ(vkQueueWaitIdle(queue_), VK_SUCCESS);
  }
  // Something that the worker refuses: the context is lost.
  void BreakTheContext() {
    guest_->Lock();
    const uint8_t garbage[16] = {};
    guest_->channel().Send(0xfff0, garbage, sizeof(garbage), true);
    guest_->Unlock();
  }

  WorkerOptions options_;
  wire::WorkerStats stats_{};
  std::unique_ptr<FakeFrontend> frontend_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<GuestPlatform> guest_;
  std::thread thread_;
  std::atomic<bool> hung_{false};
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
};

TEST_F(SyncTest, FencesAreSignaledResetAndReused) {
  const VkFence fence = Fence(), other = Fence(), made_signaled = Fence(VK_FENCE_CREATE_SIGNALED_BIT);
  EXPECT_EQ(vkGetFenceStatus(device_, fence), VK_NOT_READY);
  EXPECT_EQ(vkGetFenceStatus(device_, made_signaled), VK_SUCCESS);
  EXPECT_EQ(vkWaitForFences(device_, 1, &fence, VK_TRUE, 0), VK_TIMEOUT);
  EXPECT_EQ(vkWaitForFences(device_, 1, &fence, VK_TRUE, 2'000'000), VK_TIMEOUT);
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(vkQueueSubmit(queue_, 0, nullptr, fence), VK_SUCCESS);
    const VkFence fences[] = {other, fence};
    ASSERT_EQ(vkWaitForFences(device_, 2, fences, VK_FALSE, kLongNs), VK_SUCCESS);
    ASSERT_EQ(vkGetFenceStatus(device_, fence), VK_SUCCESS);
    ASSERT_EQ(vkWaitForFences(device_, 2, fences, VK_TRUE, 0), VK_TIMEOUT);
    ASSERT_EQ(vkResetFences(device_, 1, &fence), VK_SUCCESS);
    ASSERT_EQ(vkGetFenceStatus(device_, fence), VK_NOT_READY);
  }
  EXPECT_EQ(vkQueueWaitIdle(queue_), VK_SUCCESS);
  EXPECT_EQ(vkDeviceWaitIdle(device_), VK_SUCCESS);
  for (const VkFence each : {fence, other, made_signaled}) vkDestroyFence(device_, each, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, ANewFenceKnowsNothingOfAnOldOne) {
  const VkSemaphore gate = Timeline(0);
  const VkFence first = Fence();
  ASSERT_EQ(Submit({{gate, 1}}, first), VK_SUCCESS);
  const VkFence second = Fence();
  ASSERT_EQ(Submit({{gate, 2}}, second), VK_SUCCESS);
  ASSERT_EQ(Signal(gate, 1), VK_SUCCESS);
  EXPECT_EQ(vkWaitForFences(device_, 1, &first, VK_TRUE, kLongNs), VK_SUCCESS);
  vkDestroyFence(device_, first, nullptr);
  const VkFence third = Fence();
  EXPECT_EQ(vkGetFenceStatus(device_, third), VK_NOT_READY);
  EXPECT_EQ(vkGetFenceStatus(device_, second), VK_NOT_READY);
  ASSERT_EQ(Signal(gate, 2), VK_SUCCESS);
  EXPECT_EQ(vkWaitForFences(device_, 1, &second, VK_TRUE, kLongNs), VK_SUCCESS);
  EXPECT_EQ(vkGetFenceStatus(device_, third), VK_NOT_READY);
  vkDestroyFence(device_, second, nullptr);
  vkDestroyFence(device_, third, nullptr);
  vkDestroySemaphore(device_, gate, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, AHundredThousandFencesAreNoBurden) {
  std::vector<VkFence> fences(100'000);
  for (VkFence& fence : fences) fence = Fence();
  ASSERT_EQ(vkQueueSubmit(queue_, 0, nullptr, fences.back()), VK_SUCCESS);
  EXPECT_EQ(vkWaitForFences(device_, 1, &fences.back(), VK_TRUE, kLongNs), VK_SUCCESS);
  EXPECT_EQ(vkGetFenceStatus(device_, fences.front()), VK_NOT_READY);
  for (const VkFence fence : fences) vkDestroyFence(device_, fence, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, PayloadsOfFencesAndSemaphoresAreNotExported) {
  VkExportFenceCreateInfo fence_export{};
  fence_export.sType = VK_STRUCTURE_TYPE_EXPORT_FENCE_CREATE_INFO;
  fence_export.handleTypes = VK_EXTERNAL_FENCE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkFenceCreateInfo fence_info{};
  fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  fence_info.pNext = &fence_export;
  VkFence fence = VK_NULL_HANDLE;
  EXPECT_LT(vkCreateFence(device_, &fence_info, nullptr, &fence), VK_SUCCESS);
  VkExportSemaphoreCreateInfo semaphore_export{};
  semaphore_export.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO;
  semaphore_export.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkSemaphoreCreateInfo semaphore_info{};
  semaphore_info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  semaphore_info.pNext = &semaphore_export;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  EXPECT_LT(vkCreateSemaphore(device_, &semaphore_info, nullptr, &semaphore), VK_SUCCESS);
  DestroyDevice();
}

TEST_F(SyncTest, TimelinesCountAndTimeOut) {
  const VkSemaphore a = Timeline(7), b = Timeline(0);
  EXPECT_EQ(Counter(a), 7u);
  EXPECT_EQ(Wait({a}, {7}, 0), VK_SUCCESS);
  EXPECT_EQ(Wait({a}, {8}, 0), VK_TIMEOUT);
  EXPECT_EQ(Wait({a}, {8}, 2'000'000), VK_TIMEOUT);
  ASSERT_EQ(Signal(a, 9), VK_SUCCESS);
  EXPECT_EQ(Counter(a), 9u);
  EXPECT_EQ(Wait({a, b}, {9, 1}, 0, VK_SEMAPHORE_WAIT_ANY_BIT), VK_SUCCESS);
  EXPECT_EQ(Wait({a, b}, {9, 1}, 2'000'000), VK_TIMEOUT);
  ASSERT_EQ(Submit({{a, 9, b, 5}}, VK_NULL_HANDLE), VK_SUCCESS);
  EXPECT_EQ(Wait({a, b}, {9, 5}, ~uint64_t{0}), VK_SUCCESS);
  EXPECT_EQ(Counter(b), 5u);
  vkDestroySemaphore(device_, a, nullptr);
  vkDestroySemaphore(device_, b, nullptr);
  // Its successor starts where it was told to.
  const VkSemaphore c = Timeline(3);
  EXPECT_EQ(Counter(c), 3u);
  vkDestroySemaphore(device_, c, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, BatchesOfOneCallAreSeenOneByOne) {
  for (const bool newer : {false, true}) {
    const VkSemaphore queue_says = Timeline(0), host_says = Timeline(0);
    const VkFence fence = Fence();
    std::vector<Batch> batches;
    for (uint64_t i = 1; i <= 5; i++) batches.push_back({host_says, i, queue_says, i});
    ASSERT_EQ(newer ? Submit2(batches, fence) : Submit(batches, fence), VK_SUCCESS);
    for (uint64_t i = 1; i <= 5; i++) {
      EXPECT_EQ(vkGetFenceStatus(device_, fence), VK_NOT_READY);
      EXPECT_EQ(Counter(queue_says), i - 1);
      ASSERT_EQ(Signal(host_says, i), VK_SUCCESS);
      ASSERT_EQ(Wait({queue_says}, {i}, kLongNs), VK_SUCCESS) << i;
    }
    EXPECT_EQ(vkWaitForFences(device_, 1, &fence, VK_TRUE, kLongNs), VK_SUCCESS);
    vkDestroyFence(device_, fence, nullptr);
    vkDestroySemaphore(device_, queue_says, nullptr);
    vkDestroySemaphore(device_, host_says, nullptr);
  }
  DestroyDevice();
}

TEST_F(SyncTest, ASignalOfTheHostReachesQueuesWhileOtherThreadsWait) {
  const VkSemaphore gate = Timeline(0), done = Timeline(0);
  const VkFence fence = Fence();
  std::vector<std::thread> waiters;
  std::atomic<int> right{0};
  for (int i = 0; i < 3; i++) waiters.emplace_back([&] { right += Wait({done}, {1}, kLongNs) == VK_SUCCESS; });
  // Nobody has submitted yet what they wait for.
  absl::SleepFor(absl::Milliseconds(10));
  ASSERT_EQ(Submit({{gate, 1, done, 1}}, fence), VK_SUCCESS);
  waiters.emplace_back([&] { right += vkWaitForFences(device_, 1, &fence, VK_TRUE, kLongNs) == VK_SUCCESS; });
  waiters.emplace_back([&] { right += vkQueueWaitIdle(queue_) == VK_SUCCESS; });
  waiters.emplace_back([&] { right += Wait({gate}, {1}, kLongNs) == VK_SUCCESS; });
  absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(Counter(done), 0u);
  ASSERT_EQ(Signal(gate, 1), VK_SUCCESS);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(right, 6);
  vkDestroyFence(device_, fence, nullptr);
  vkDestroySemaphore(device_, gate, nullptr);
  vkDestroySemaphore(device_, done, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, ThreadsPassATokenThroughTheQueue) {
  const VkSemaphore token = Timeline(0);
  constexpr uint64_t kRounds = 200;
  const auto play = [&](uint64_t first) {
    for (uint64_t i = first; i <= kRounds; i += 2) {
      ASSERT_EQ(Wait({token}, {i - 1}, kLongNs), VK_SUCCESS);
      if (i % 3 == 0) {
        ASSERT_EQ(Signal(token, i), VK_SUCCESS);
      } else {
        const Batch batch{VK_NULL_HANDLE, 0, token, i};
        ASSERT_EQ(Submit2({batch}, VK_NULL_HANDLE), VK_SUCCESS);
      }
    }
  };
  // vkQueueSubmit2 wants the queue for itself: the token sees to that.
  std::thread other([&] { play(2); });
  play(1);
  other.join();
  EXPECT_EQ(Wait({token}, {kRounds}, kLongNs), VK_SUCCESS);
  EXPECT_EQ(vkDeviceWaitIdle(device_), VK_SUCCESS);
  vkDestroySemaphore(device_, token, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, LostContextsReachEveryWaiter) {
  const VkSemaphore gate = Timeline(0), never = Timeline(0);
  const VkFence fence = Fence();
  for (uint64_t i = 1; i <= 3; i++) ASSERT_EQ(Submit({{gate, i}}, i == 3 ? fence : VK_NULL_HANDLE), VK_SUCCESS);
  VkQueryPoolCreateInfo queries{};
  queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  queries.queryType = VK_QUERY_TYPE_OCCLUSION;
  queries.queryCount = 1;
  VkQueryPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateQueryPool(device_, &queries, nullptr, &pool), VK_SUCCESS);
  std::vector<std::thread> waiters;
  std::atomic<int> lost{0};
  const auto start = [&](auto wait) {
    waiters.emplace_back([&lost, wait] { lost += wait() == VK_ERROR_DEVICE_LOST; });
  };
  start([&] { return vkWaitForFences(device_, 1, &fence, VK_TRUE, ~uint64_t{0}); });
  start([&] { return Wait({never}, {1}, ~uint64_t{0}); });
  start([&] { return vkQueueWaitIdle(queue_); });
  start([&] { return vkDeviceWaitIdle(device_); });
  start([&] {
    uint64_t result = 0;
    return vkGetQueryPoolResults(device_, pool, 0, 1, sizeof(result), &result, sizeof(result),
                                 VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  });
  absl::SleepFor(absl::Milliseconds(20));
  BreakTheContext();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(lost, 5);
  EXPECT_EQ(vkGetFenceStatus(device_, fence), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(vkQueueSubmit(queue_, 0, nullptr, fence), VK_ERROR_DEVICE_LOST);
  uint64_t value = 0;
  EXPECT_EQ(vkGetSemaphoreCounterValue(device_, gate, &value), VK_ERROR_DEVICE_LOST);
  // What the queue waited for never came: the worker ends all the same (TearDown).
}

TEST_F(SyncTest, EventsAreSeenFromBothSides) {
  VkEventCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO;
  VkEvent event = VK_NULL_HANDLE, second = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateEvent(device_, &info, nullptr, &event), VK_SUCCESS);
  ASSERT_EQ(vkCreateEvent(device_, &info, nullptr, &second), VK_SUCCESS);
  EXPECT_EQ(vkGetEventStatus(device_, event), VK_EVENT_RESET);
  ASSERT_EQ(vkSetEvent(device_, event), VK_SUCCESS);
  EXPECT_EQ(vkGetEventStatus(device_, event), VK_EVENT_SET);
  EXPECT_EQ(vkGetEventStatus(device_, second), VK_EVENT_RESET);

  VkCommandBuffer commands = Begin();
  vkCmdResetEvent(commands, event, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  vkCmdSetEvent(commands, second, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  EndAndRun(commands);
  EXPECT_EQ(vkGetEventStatus(device_, event), VK_EVENT_RESET);
  EXPECT_EQ(vkGetEventStatus(device_, second), VK_EVENT_SET);

  VkMemoryBarrier2 barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
  barrier.srcStageMask = barrier.dstStageMask = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
  VkDependencyInfo dependency{};
  dependency.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  commands = Begin();
  vkCmdSetEvent2(commands, event, &dependency);
  vkCmdResetEvent2(commands, second, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
  EndAndRun(commands);
  EXPECT_EQ(vkGetEventStatus(device_, event), VK_EVENT_SET);
  EXPECT_EQ(vkGetEventStatus(device_, second), VK_EVENT_RESET);
  ASSERT_EQ(vkResetEvent(device_, event), VK_SUCCESS);
  EXPECT_EQ(vkGetEventStatus(device_, event), VK_EVENT_RESET);
  vkDestroyEvent(device_, event, nullptr);
  vkDestroyEvent(device_, second, nullptr);
  DestroyDevice();
}

TEST_F(SyncTest, QueryResultsComeWithTheirAvailability) {
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 5;
  VkQueryPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateQueryPool(device_, &info, nullptr, &pool), VK_SUCCESS);
  vkResetQueryPool(device_, pool, 0, 5);
  VkCommandBuffer commands = Begin();
  for (uint32_t i = 0; i < 3; i++) vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, i);
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, pool, 4);
  EndAndRun(commands);

  constexpr VkQueryResultFlags kWide = VK_QUERY_RESULT_64_BIT, kWith = VK_QUERY_RESULT_WITH_AVAILABILITY_BIT;
  struct Result {
    uint64_t value, available;
  };
  Result results[5];
  std::memset(results, 0xee, sizeof(results));
  const uint64_t untouched = results[3].value;
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 0, 5, sizeof(results), results, sizeof(Result), kWide | kWith),
            VK_NOT_READY);
  for (const int i : {0, 1, 2, 4}) {
    EXPECT_EQ(results[i].available, 1u) << i;
    EXPECT_NE(results[i].value, 0u) << i;
  }
  EXPECT_LE(results[0].value, results[1].value);
  EXPECT_LE(results[1].value, results[2].value);
  EXPECT_EQ(results[3].available, 0u);
  EXPECT_EQ(results[3].value, untouched);
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 3, 1, sizeof(Result), &results[3], sizeof(Result),
                                  kWide | kWith | VK_QUERY_RESULT_PARTIAL_BIT),
            VK_SUCCESS);
  EXPECT_EQ(results[3].value, 0u);
  uint64_t again[3] = {};
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 0, 3, sizeof(again), again, 8, kWide | VK_QUERY_RESULT_WAIT_BIT),
            VK_SUCCESS);
  for (int i = 0; i < 3; i++) EXPECT_EQ(again[i], results[i].value);

  // Reset by a queue, and by the host.
  commands = Begin();
  vkCmdResetQueryPool(commands, pool, 1, 1);
  EndAndRun(commands);
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 0, 1, 8, again, 8, kWide), VK_SUCCESS);
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 1, 1, 8, again, 8, kWide), VK_NOT_READY);
  vkResetQueryPool(device_, pool, 0, 1);
  EXPECT_EQ(vkGetQueryPoolResults(device_, pool, 0, 1, 8, again, 8, kWide), VK_NOT_READY);
  vkDestroyQueryPool(device_, pool, nullptr);
  DestroyDevice();
}

}  // namespace
}  // namespace sluice::worker
