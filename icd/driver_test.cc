// The driver behind the real Vulkan loader, over a socket to a real GPU Domain.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vk_icd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "icd/testing/domain.h"
#include "icd/testing/program.h"

namespace sluice::icd::testing {
namespace {

class Driver : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(domain_.Start());
    domain_.UseHere();
  }
  Domain domain_;
};

size_t OpenFiles() {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) n += entry.exists() ? 1 : 1;
  return n;
}

size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t n = 0;
  for (std::string line; std::getline(maps, line);) n++;
  return n;
}

TEST_F(Driver, AProgramRuns) {
  Program program;
  ASSERT_EQ(program.Open(), VK_SUCCESS);
  for (uint32_t value = 1; value < 20; value++) EXPECT_EQ(program.Fill(value * 0x01010101), VK_SUCCESS);
}

TEST_F(Driver, InstancesDoNotKnowOfEachOther) {
  Program a, b, c;
  ASSERT_EQ(a.Open(), VK_SUCCESS);
  ASSERT_EQ(b.Open(), VK_SUCCESS);
  EXPECT_EQ(a.Fill(1), VK_SUCCESS);
  b.Close();
  EXPECT_EQ(a.Fill(2), VK_SUCCESS);
  ASSERT_EQ(c.Open(), VK_SUCCESS);
  a.Close();
  EXPECT_EQ(c.Fill(3), VK_SUCCESS);
}

TEST_F(Driver, ManyInstancesAtOnceTakeAnotherConnection) {
  std::vector<std::unique_ptr<Program>> programs;
  for (int i = 0; i < 20; i++) {  // a connection has 16 contexts
    programs.push_back(std::make_unique<Program>());
    ASSERT_EQ(programs.back()->Open(), VK_SUCCESS) << i;
  }
  for (auto& program : programs) EXPECT_EQ(program->Fill(7), VK_SUCCESS);
}

TEST_F(Driver, ThreadsWithInstancesOfTheirOwn) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 5; i++) {
        Program program;
        if (program.Open() == VK_SUCCESS && program.Fill(t * 100 + i) == VK_SUCCESS) good++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 30);
}

TEST_F(Driver, AForkedChildHasNoPartInItsParentsInstances) {
  Program program;
  ASSERT_EQ(program.Open(), VK_SUCCESS);
  ASSERT_EQ(program.Fill(1), VK_SUCCESS);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int failures = 0;
    if (program.Fill(2) != VK_ERROR_DEVICE_LOST) failures |= 1;
    program.Close();
    Program own;
    if (own.Open() != VK_SUCCESS || own.Fill(3) != VK_SUCCESS) failures |= 2;
    own.Close();
    _exit(failures);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(program.Fill(4), VK_SUCCESS);
  EXPECT_EQ(domain_.Workers().empty(), false);
}

TEST_F(Driver, ForksAmongThreadsThatWork) {
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; t++) {
    threads.emplace_back([&, t] {
      Program program;
      if (program.Open() != VK_SUCCESS) bad++;
      while (!stop) {
        if (program.Fill(t) != VK_SUCCESS) bad++;
      }
    });
  }
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

TEST_F(Driver, LoadsAndUnloadsAHundredTimesWithoutALeak) {
  size_t files = 0, mappings = 0;
  for (int i = 0; i < 100; i++) {
    if (i == 20) {
      files = OpenFiles();
      mappings = Mappings();
    }
    void* library = dlopen(DriverPath().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    void* symbol = dlsym(library, "vk_icdGetInstanceProcAddr");
    ASSERT_NE(symbol, nullptr);
    const auto get = reinterpret_cast<PFN_vk_icdGetInstanceProcAddr>(symbol);
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
    ASSERT_NE(create, nullptr);
    if (i % 10 == 0) {  // a connection starts a worker, which takes its time
      VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
      VkInstance instance = VK_NULL_HANDLE;
      ASSERT_EQ(create(&info, nullptr, &instance), VK_SUCCESS);
      const auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(get(instance, "vkDestroyInstance"));
      destroy(instance, nullptr);
    }
    ASSERT_EQ(dlclose(library), 0);
  }
  EXPECT_LE(OpenFiles(), files);
  EXPECT_LE(Mappings(), mappings + 4);  // the heap may grow
}

TEST_F(Driver, NoSocketMeansNoDevices) {
  setenv("SLUICE_SOCKET", "/nonexistent/socket", 1);
  Program program;
  EXPECT_EQ(program.Open(), VK_ERROR_INCOMPATIBLE_DRIVER) << "what the loader says when no driver makes an instance";
  unsetenv("SLUICE_SOCKET");
  EXPECT_EQ(program.Open(), VK_ERROR_INCOMPATIBLE_DRIVER);
  domain_.UseHere();
  EXPECT_EQ(program.Open(), VK_SUCCESS);
}

TEST_F(Driver, ADomainThatIsKilledIsALostDeviceAndANewOneServes) {
  Program program;
  ASSERT_EQ(program.Open(), VK_SUCCESS);
  ASSERT_EQ(program.Fill(1), VK_SUCCESS);
  VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateFence(program.device(), &info, nullptr, &fence), VK_SUCCESS);
  ASSERT_EQ(program.Submit(2, 100'000, fence), VK_SUCCESS);
  std::thread killer([&] { domain_.Kill(); });
  VkResult result;
  do {
    result = vkWaitForFences(program.device(), 1, &fence, VK_TRUE, UINT64_MAX);
    if (result == VK_SUCCESS) {  // it was faster than the signal
      vkResetFences(program.device(), 1, &fence);
      result = program.Submit(2, 1000, fence);
    }
  } while (result == VK_SUCCESS);
  EXPECT_EQ(result, VK_ERROR_DEVICE_LOST);
  killer.join();
  EXPECT_EQ(vkDeviceWaitIdle(program.device()), VK_ERROR_DEVICE_LOST);
  vkDestroyFence(program.device(), fence, nullptr);
  Program too_early;
  EXPECT_NE(too_early.Open(), VK_SUCCESS);
  too_early.Close();

  ASSERT_TRUE(domain_.Start());
  Program next;
  ASSERT_EQ(next.Open(), VK_SUCCESS);
  EXPECT_EQ(next.Fill(3), VK_SUCCESS);
  program.Close();
  EXPECT_EQ(next.Fill(4), VK_SUCCESS);
}

TEST_F(Driver, AWorkerThatIsKilledIsALostDeviceToAllWhoWait) {
  Program program;
  ASSERT_EQ(program.Open(), VK_SUCCESS);
  VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence never = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateFence(program.device(), &info, nullptr, &never), VK_SUCCESS);
  std::vector<std::thread> waiters;
  std::atomic<int> lost{0};
  ASSERT_EQ(program.Submit(1, 10, VK_NULL_HANDLE), VK_SUCCESS);
  for (int i = 0; i < 3; i++) {
    waiters.emplace_back([&] {
      VkFence fence = VK_NULL_HANDLE;
      vkCreateFence(program.device(), &info, nullptr, &fence);
      if (vkWaitForFences(program.device(), 1, &fence, VK_TRUE, UINT64_MAX) == VK_ERROR_DEVICE_LOST) lost++;
      vkDestroyFence(program.device(), fence, nullptr);
    });
  }
  waiters.emplace_back([&] {  // one who only looks
    while (vkGetFenceStatus(program.device(), never) == VK_NOT_READY) {
    }
    lost++;
  });
  usleep(100'000);
  domain_.KillWorker();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(lost, 4);
  vkDestroyFence(program.device(), never, nullptr);
  program.Close();
  Program next;
  ASSERT_EQ(next.Open(), VK_SUCCESS) << "another worker";
  EXPECT_EQ(next.Fill(3), VK_SUCCESS);
}

}  // namespace
}  // namespace sluice::icd::testing
