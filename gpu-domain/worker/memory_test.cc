// Memory that guest and worker share, as a guest sees it: with a driver that imports it, and with one that cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "flatbuf/guest/manual.h"
#include "gpu-domain/worker/testing/copy_job.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/worker.h"
#include "vmm/base/seqpacket.h"

namespace sluice::worker {
namespace {

using testing::CopyJob;
using testing::FakeFrontend;
using testing::GuestPlatform;
using testing::HostBuffer;

const VulkanDriver* Driver(bool import) {
  static const auto importing = VulkanDriver::Create(DriverOptions());
  static const auto copying = VulkanDriver::Create({.import_host_memory = false});
  const auto& driver = import ? importing : copying;
  return driver.ok() ? driver->get() : nullptr;
}

std::vector<uint8_t> Pattern(uint32_t seed, size_t bytes) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  return out;
}

// The parameter: whether the driver may import host memory.
class MemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  void Start(uint64_t quota) {
    driver_ = Driver(GetParam());
    ASSERT_NE(driver_, nullptr) << "no Vulkan driver";
    options_.memory_bytes = quota;
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    frontend_ = std::make_unique<FakeFrontend>(std::move(pair->first));
    worker_ = std::make_unique<Worker>(options_, std::move(pair->second), driver_, &stats_, UniqueFd());
    thread_ = std::thread([this] { code_ = worker_->Run(); });
    ASSERT_TRUE(frontend_->Hello("linux").ok());
  }
  std::unique_ptr<GuestPlatform> Guest(uint32_t context) {
    frontend_->CreateContext(context);
    auto platform = GuestPlatform::Create(frontend_.get(), context);
    EXPECT_TRUE(platform.ok()) << platform.status();
    return platform.ok() ? *std::move(platform) : nullptr;
  }
  // Closes the channel and looks that nothing is left.
  void End() {
    frontend_->Close();
    thread_.join();
    worker_.reset();
    EXPECT_EQ(code_, kExitOk);
    EXPECT_EQ(stats_.objects, 0u);
    EXPECT_EQ(stats_.memory_bytes, 0u);
    EXPECT_EQ(stats_.contexts, 0u);
  }
  void TearDown() override {
    if (thread_.joinable()) End();
  }

  const VulkanDriver* driver_ = nullptr;
  WorkerOptions options_;
  wire::WorkerStats stats_{};
  std::unique_ptr<FakeFrontend> frontend_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
  int code_ = -1;
};

INSTANTIATE_TEST_SUITE_P(Driver, MemoryTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Imports" : "Copies"; });

TEST_P(MemoryTest, OddSizesComeBackToTheByteAndLeaveTheirNeighboursAlone) {
  Start(64 << 20);
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  const uint64_t sizes[] = {1, 2, 4097, 131'000, 16 * 1024 - 1, 4096, (2 << 20) + 1, 65535};
  std::vector<HostBuffer> from, to;
  for (const uint64_t size : sizes) {
    from.push_back(job->MakeBuffer(size));
    to.push_back(job->MakeBuffer(size));
    ASSERT_NE(from.back().data, nullptr) << size;
    ASSERT_NE(to.back().data, nullptr) << size;
    std::memset(to.back().data, 0xee, to.back().bytes);
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const std::vector<uint8_t> pattern = Pattern(static_cast<uint32_t>(i), sizes[i]);
    std::memcpy(from[i].data, pattern.data(), sizes[i]);
  }
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(job->Copy(from[i], 0, to[i], 0, sizes[i]), VK_SUCCESS);
    for (size_t k = 0; k < to.size(); ++k) {
      const std::vector<uint8_t> wanted =
          k <= i ? Pattern(static_cast<uint32_t>(k), sizes[k]) : std::vector<uint8_t>(sizes[k], 0xee);
      ASSERT_EQ(std::memcmp(to[k].data, wanted.data(), sizes[k]), 0) << "buffer " << k << " after copy " << i;
    }
  }
  for (HostBuffer& buffer : from) job->Free(&buffer);
  for (HostBuffer& buffer : to) job->Free(&buffer);
  job.reset();
}

TEST_P(MemoryTest, WhatOneSideWritesTheOtherSeesWithoutFlushes) {
  Start(64 << 20);
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  HostBuffer a = job->MakeBuffer(5000), b = job->MakeBuffer(5000);
  ASSERT_NE(a.data, nullptr);
  ASSERT_NE(b.data, nullptr);
  for (uint32_t round = 0; round < 300; ++round) {
    const std::vector<uint8_t> pattern = Pattern(round, 5000);
    std::memcpy(a.data, pattern.data(), 5000);
    ASSERT_EQ(job->Copy(a, 0, b, 0, 5000), VK_SUCCESS);
    ASSERT_EQ(std::memcmp(b.data, pattern.data(), 5000), 0) << "round " << round;
    std::swap(a, b);
  }
  job->Free(&a);
  job->Free(&b);
}

TEST_P(MemoryTest, TheHostWritesOnePartWhileTheGpuWritesAnother) {
  Start(64 << 20);
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  constexpr uint64_t kHalf = 200'000;
  HostBuffer from = job->MakeBuffer(kHalf), shared = job->MakeBuffer(2 * kHalf);
  ASSERT_NE(from.data, nullptr);
  ASSERT_NE(shared.data, nullptr);
  for (uint32_t round = 0; round < 10; ++round) {
    const std::vector<uint8_t> gpu = Pattern(2 * round, kHalf), host = Pattern(2 * round + 1, kHalf);
    std::memcpy(from.data, gpu.data(), kHalf);
    ASSERT_EQ(job->Submit(from, 0, shared, 0, kHalf), VK_SUCCESS);
    for (uint64_t at = 0; at < kHalf; at += 1000) {
      std::memcpy(shared.data + kHalf + at, host.data() + at, std::min<uint64_t>(1000, kHalf - at));
    }
    ASSERT_EQ(job->Wait(), VK_SUCCESS);
    ASSERT_EQ(std::memcmp(shared.data, gpu.data(), kHalf), 0) << round;
    ASSERT_EQ(std::memcmp(shared.data + kHalf, host.data(), kHalf), 0) << round;
  }
  // What the host wrote in between is what the GPU reads next.
  ASSERT_EQ(job->Copy(shared, kHalf, from, 0, kHalf), VK_SUCCESS);
  EXPECT_EQ(std::memcmp(from.data, Pattern(19, kHalf).data(), kHalf), 0);
  job->Free(&from);
  job->Free(&shared);
}

TEST_P(MemoryTest, OverTheQuotaTheAllocationItselfFailsAndFreeingHelps) {
  Start(6 << 20);
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  for (int round = 0; round < 2; ++round) {
    for (const uint64_t size : {uint64_t{64} << 10, uint64_t{700} << 10, uint64_t{4} << 20}) {
      std::vector<VkDeviceMemory> memories;
      VkResult result = VK_SUCCESS;
      while (memories.size() < 1000) {
        VkDeviceMemory memory = VK_NULL_HANDLE;
        result = job->Allocate(size, nullptr, &memory);
        if (result != VK_SUCCESS) break;
        memories.push_back(memory);
      }
      EXPECT_EQ(result, VK_ERROR_OUT_OF_DEVICE_MEMORY);
      // The ring takes 1 MiB of the quota; all the rest can be had, but for what does not divide.
      EXPECT_GE((memories.size() + 1) * size, uint64_t{5} << 20) << size;
      EXPECT_LE(memories.size() * size, uint64_t{5} << 20);
      for (const VkDeviceMemory memory : memories) {
        void* pointer = nullptr;
        ASSERT_EQ(vkMapMemory(job->device(), memory, 0, VK_WHOLE_SIZE, 0, &pointer), VK_SUCCESS);
        std::memset(pointer, 0x5a, 100);
      }
      for (const VkDeviceMemory memory : memories) vkFreeMemory(job->device(), memory, nullptr);
    }
  }
  // And nothing was lost over it.
  HostBuffer a = job->MakeBuffer(100), b = job->MakeBuffer(100);
  ASSERT_NE(b.data, nullptr);
  EXPECT_EQ(job->Copy(a, 0, b, 0, 100), VK_SUCCESS);
  job->Free(&a);
  job->Free(&b);
}

TEST_P(MemoryTest, MappingsStartWhereTheProgramSays) {
  Start(32 << 20);
  auto guest = Guest(1);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  ASSERT_EQ(job->Allocate(10'000, nullptr, &memory), VK_SUCCESS);
  void *whole = nullptr, *part = nullptr;
  ASSERT_EQ(vkMapMemory(job->device(), memory, 0, VK_WHOLE_SIZE, 0, &whole), VK_SUCCESS);
  vkUnmapMemory(job->device(), memory);
  ASSERT_EQ(vkMapMemory(job->device(), memory, 5001, 100, 0, &part), VK_SUCCESS);
  EXPECT_EQ(static_cast<uint8_t*>(part) - static_cast<uint8_t*>(whole), 5001);
  vkUnmapMemory(job->device(), memory);
  EXPECT_EQ(vkMapMemory(job->device(), memory, 10'000, 1, 0, &part), VK_ERROR_MEMORY_MAP_FAILED);
  vkFreeMemory(job->device(), memory, nullptr);
}

TEST_P(MemoryTest, FlagsPrioritiesAndDedicationAreWelcomeForeignMemoryIsNot) {
  Start(32 << 20);
  auto guest = Guest(1);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  HostBuffer buffer = job->MakeBuffer(9000);
  ASSERT_NE(buffer.data, nullptr);
  VkMemoryDedicatedAllocateInfo dedicated{};
  dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  ASSERT_EQ(job->Allocate(12'288, &dedicated, &memory), VK_SUCCESS);
  vkFreeMemory(job->device(), memory, nullptr);
  VkExportMemoryAllocateInfo exported{};
  exported.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  EXPECT_EQ(job->Allocate(4096, &exported, &memory), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  VkImportMemoryFdInfoKHR imported{};
  imported.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  EXPECT_EQ(job->Allocate(4096, &imported, &memory), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  EXPECT_EQ(vkDeviceWaitIdle(job->device()), VK_SUCCESS);
  job->Free(&buffer);
}

TEST_P(MemoryTest, TheBudgetIsWhatTheQuotaLeaves) {
  constexpr uint64_t kQuota = 32 << 20;
  Start(kQuota);
  auto guest = Guest(1);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  VkPhysicalDeviceMemoryProperties properties{};
  vkGetPhysicalDeviceMemoryProperties(job->physical(), &properties);
  const uint32_t heap = properties.memoryTypes[job->memory_type()].heapIndex;
  for (uint32_t i = 0; i < properties.memoryHeapCount; ++i) EXPECT_LE(properties.memoryHeaps[i].size, kQuota);
  VkPhysicalDeviceMemoryBudgetPropertiesEXT before{}, after{}, freed{};
  guest::FillMemoryBudget(job->physical(), &before);
  EXPECT_EQ(before.heapUsage[heap], 0u);
  EXPECT_GT(before.heapBudget[heap], kQuota / 2);
  EXPECT_LE(before.heapBudget[heap], kQuota);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  ASSERT_EQ(job->Allocate(8 << 20, nullptr, &memory), VK_SUCCESS);
  guest::FillMemoryBudget(job->physical(), &after);
  EXPECT_EQ(after.heapUsage[heap], uint64_t{8} << 20);
  EXPECT_EQ(after.heapBudget[heap], before.heapBudget[heap]) << "the program's own memory is in its budget";
  // What somebody else of the same front-end takes is not.
  const uint32_t resource = frontend_->NewResource();
  ASSERT_TRUE(frontend_->CreateBlob(1, resource, wire::MakeBlobId(wire::BlobKind::kMemory, 9), 4 << 20).ok());
  guest::FillMemoryBudget(job->physical(), &after);
  EXPECT_EQ(after.heapBudget[heap], before.heapBudget[heap] - (uint64_t{4} << 20));
  // A program that takes its whole budget gets it.
  const uint64_t rest = after.heapBudget[heap] - after.heapUsage[heap];
  VkDeviceMemory all = VK_NULL_HANDLE, more = VK_NULL_HANDLE;
  ASSERT_EQ(job->Allocate(rest, nullptr, &all), VK_SUCCESS);
  EXPECT_EQ(job->Allocate(1 << 20, nullptr, &more), VK_ERROR_OUT_OF_DEVICE_MEMORY);
  vkFreeMemory(job->device(), all, nullptr);
  vkFreeMemory(job->device(), memory, nullptr);
  guest::FillMemoryBudget(job->physical(), &freed);
  EXPECT_EQ(freed.heapUsage[heap], 0u);
}

// Half of the guests clean up; the others go with everything alive and mapped.
TEST_P(MemoryTest, NothingIsLeftOfFiftyContexts) {
  Start(64 << 20);
  uint32_t destroyed = frontend_->next_resource();
  for (uint32_t i = 1; i <= 50; ++i) {
    auto guest = Guest(i);
    ASSERT_NE(guest, nullptr) << i;
    auto job = CopyJob::Create();
    ASSERT_NE(job, nullptr) << i;
    HostBuffer small = job->MakeBuffer(1000), large = job->MakeBuffer(5 << 20), other = job->MakeBuffer(5 << 20);
    ASSERT_NE(small.data, nullptr) << i;
    ASSERT_NE(other.data, nullptr) << i << ": memory of contexts that have ended is back";
    ASSERT_EQ(job->Submit(large, 0, other, 0, 100'000), VK_SUCCESS);
    if (i % 2 == 0) {
      ASSERT_EQ(job->Wait(), VK_SUCCESS);
      job->Free(&small);
      job->Free(&large);
      job->Free(&other);
      job.reset();
    }
    frontend_->DestroyContext(i);
    const absl::Time deadline = absl::Now() + testing::kPatience;
    while (guest->header().status.load() == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    if (job != nullptr) job->Abandon();
    job.reset();
    guest.reset();
    for (; destroyed < frontend_->next_resource(); ++destroyed) frontend_->DestroyBlob(destroyed);
  }
  End();
}

TEST_P(MemoryTest, MemoryThatTheGpuStillReadsMayBeFreedWithoutWaiting) {
  Start(64 << 20);
  auto guest = Guest(1);
  auto job = CopyJob::Create();
  ASSERT_NE(job, nullptr);
  for (int i = 0; i < 5; ++i) {
    HostBuffer a = job->MakeBuffer(4 << 20), b = job->MakeBuffer(4 << 20), unused = job->MakeBuffer(4 << 20);
    ASSERT_NE(unused.data, nullptr) << i;
    ASSERT_EQ(job->Submit(a, 0, b, 0, 4 << 20), VK_SUCCESS);
    job->Free(&unused);  // while other work is in flight
    ASSERT_EQ(job->Wait(), VK_SUCCESS);
    job->Free(&a);
    job->Free(&b);
  }
}

}  // namespace
}  // namespace sluice::worker
