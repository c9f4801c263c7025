// The wire, both ways, on the driver of this machine: plain Vulkan code through the guest's encoders, a ring, the
// executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"
#include "gpu-domain/exec/testing/scene.h"

namespace sluice::exec {
namespace {

using testing::DrawTriangle;
using testing::GuestBuffer;
using testing::GuestDevice;
using testing::Harness;
using testing::RunCompute;

class ExecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Harness::HaveDriver()) GTEST_SKIP() << "no Vulkan driver";
  }
};

TEST_F(ExecTest, ComputeResultsArriveInTheGuestsMemory) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const std::vector<uint32_t> out = RunCompute(d, 1000, 256);
  for (uint32_t i = 0; i < out.size(); i++) ASSERT_EQ(out[i], 1000 + 3 * i) << h.status();
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(h.context().objects(), 0u);
  EXPECT_EQ(h.channel().ids().live(), 0u);
  EXPECT_EQ(h.policy().memories, 0);
  EXPECT_EQ(h.policy().devices, 0);
}

TEST_F(ExecTest, ATriangleIsDrawn) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const std::vector<uint32_t> pixels = DrawTriangle(d);
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(pixels[0], 0xff330000u) << "the clear color, in a corner";
  const uint32_t middle = pixels[40 * 64 + 32];
  EXPECT_GT(middle & 0xff, 20u);
  EXPECT_GT(middle >> 8 & 0xff, 20u);
  EXPECT_GT(middle >> 16 & 0xff, 20u);
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.context().objects(), 0u);
  EXPECT_EQ(h.channel().ids().live(), 0u);
}

TEST_F(ExecTest, PropertiesAreTheDriversAndAreFetchedOnce) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  VkPhysicalDeviceProperties properties, again;
  vkGetPhysicalDeviceProperties(d.physical, &properties);
  EXPECT_GT(strlen(properties.deviceName), 3u);
  EXPECT_EQ(VK_API_VERSION_MINOR(properties.apiVersion), 3u) << "what the guest's entry points cover";
  EXPECT_GE(properties.limits.maxImageDimension2D, 4096u);
  const uint64_t position = h.channel().position();
  vkGetPhysicalDeviceProperties(d.physical, &again);
  EXPECT_EQ(h.channel().position(), position) << "the second call sends nothing";
  VkFormatProperties format;
  vkGetPhysicalDeviceFormatProperties(d.physical, VK_FORMAT_R8G8B8A8_UNORM, &format);
  EXPECT_NE(format.optimalTilingFeatures & VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BIT, 0u);
  uint32_t families = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(d.physical, &families, nullptr);
  ASSERT_GE(families, 1u);
  std::vector<VkQueueFamilyProperties> queues(families);
  vkGetPhysicalDeviceQueueFamilyProperties(d.physical, &families, queues.data());
  EXPECT_NE(queues[0].queueFlags & VK_QUEUE_GRAPHICS_BIT, 0u);
  EXPECT_EQ(queues[0].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT, 0u) << "sparse memory is not on the wire";
  d.Destroy();
}

TEST_F(ExecTest, FencesNeverCrossTheWire) {
  Harness h;
  h.keep = true;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  VkFence fence;
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, .flags = VK_FENCE_CREATE_SIGNALED_BIT};
  h.Pump();
  const size_t messages = h.messages.size();
  ASSERT_EQ(vkCreateFence(d.device, &info, nullptr, &fence), VK_SUCCESS);
  EXPECT_EQ(vkGetFenceStatus(d.device, fence), VK_SUCCESS);
  EXPECT_EQ(vkResetFences(d.device, 1, &fence), VK_SUCCESS);
  EXPECT_EQ(vkGetFenceStatus(d.device, fence), VK_NOT_READY);
  EXPECT_EQ(vkWaitForFences(d.device, 1, &fence, VK_TRUE, 0), VK_TIMEOUT);
  h.Pump();
  EXPECT_EQ(h.messages.size(), messages);
  // Submitted twice with a reset between: the slot counts.
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(vkQueueSubmit(d.queue, 0, nullptr, fence), VK_SUCCESS);
    EXPECT_EQ(vkWaitForFences(d.device, 1, &fence, VK_TRUE, UINT64_MAX), VK_SUCCESS);
    EXPECT_EQ(vkResetFences(d.device, 1, &fence), VK_SUCCESS);
  }
  EXPECT_EQ(vkGetFenceStatus(d.device, fence), VK_NOT_READY);
  vkDestroyFence(d.device, fence, nullptr);
  // A slot that comes back does not bring its old signal along.
  info.flags = 0;
  ASSERT_EQ(vkCreateFence(d.device, &info, nullptr, &fence), VK_SUCCESS);
  EXPECT_EQ(vkGetFenceStatus(d.device, fence), VK_NOT_READY);
  ASSERT_EQ(vkQueueSubmit(d.queue, 0, nullptr, fence), VK_SUCCESS);
  EXPECT_EQ(vkWaitForFences(d.device, 1, &fence, VK_TRUE, UINT64_MAX), VK_SUCCESS);
  vkDestroyFence(d.device, fence, nullptr);
  d.Destroy();
}

TEST_F(ExecTest, LongRecordingsAndLongPayloadsCrossInPieces) {
  Harness h({}, 64 * 1024);  // the smallest ring: frames of at most 8 KiB
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  GuestBuffer out(d, 256 * 1024, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  ASSERT_NE(out.mapped, nullptr);
  VkCommandBuffer cb = d.AllocateCommandBuffer();
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  vkBeginCommandBuffer(cb, &begin);
  for (uint32_t i = 0; i < 40'000; i++) vkCmdFillBuffer(cb, out.buffer, i % 1000 * 4, 4, i);
  std::vector<uint32_t> data(16'384);
  for (uint32_t i = 0; i < data.size(); i++) data[i] = i ^ 0x5a5a;
  vkCmdUpdateBuffer(cb, out.buffer, 64 * 1024, 65536, data.data());
  vkEndCommandBuffer(cb);
  ASSERT_EQ(d.SubmitAndWait(cb), VK_SUCCESS) << h.status();
  const auto* words = static_cast<const uint32_t*>(out.mapped);
  EXPECT_EQ(words[0], 39'000u);
  EXPECT_EQ(words[999], 39'999u);
  EXPECT_EQ(memcmp(words + 16'384, data.data(), 65536), 0);
  EXPECT_GT(h.context().commands(), 40'000u);
  out.Destroy(d);
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.context().objects(), 0u);
}

TEST_F(ExecTest, SecondaryCommandBuffersAndQueries) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  GuestBuffer out(d, 4096, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  VkCommandBuffer secondary = d.AllocateCommandBuffer(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  VkCommandBuffer primary = d.AllocateCommandBuffer();
  const VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .pInheritanceInfo = &inheritance};
  vkBeginCommandBuffer(secondary, &begin);
  vkCmdFillBuffer(secondary, out.buffer, 0, VK_WHOLE_SIZE, 0x1234);
  vkEndCommandBuffer(secondary);
  const VkQueryPoolCreateInfo pool_info = {
      .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2};
  VkQueryPool queries;
  vkCreateQueryPool(d.device, &pool_info, nullptr, &queries);
  begin.pInheritanceInfo = nullptr;
  vkBeginCommandBuffer(primary, &begin);
  vkCmdResetQueryPool(primary, queries, 0, 2);
  vkCmdWriteTimestamp(primary, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 0);
  vkCmdExecuteCommands(primary, 1, &secondary);
  vkCmdWriteTimestamp(primary, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 1);
  vkEndCommandBuffer(primary);
  ASSERT_EQ(d.SubmitAndWait(primary), VK_SUCCESS) << h.status();
  EXPECT_EQ(static_cast<const uint32_t*>(out.mapped)[1023], 0x1234u);
  uint64_t stamps[2] = {};
  EXPECT_EQ(vkGetQueryPoolResults(d.device, queries, 0, 2, sizeof(stamps), stamps, 8,
                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
            VK_SUCCESS);
  EXPECT_GE(stamps[1], stamps[0]);
  vkDestroyQueryPool(d.device, queries, nullptr);
  out.Destroy(d);
  d.Destroy();
}

TEST_F(ExecTest, FailuresThatProgramsMustSeeAreReplied) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = 1ull << 40};
  VkDeviceMemory memory = VK_NULL_HANDLE;
  h.policy().memory_limit = 1 << 20;
  EXPECT_LT(vkAllocateMemory(d.device, &allocate, nullptr, &memory), 0);
  EXPECT_EQ(h.status(), absl::OkStatus()) << "an answer, not a lost context";
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.channel().ids().live(), 0u);
}

TEST_F(ExecTest, WhatTheDriverRefusesToMakeMayBeDestroyedButNotUsed) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 64, .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkBuffer buffer = VK_NULL_HANDLE;
  h.policy().next_buffer = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  EXPECT_EQ(vkCreateBuffer(d.device, &info, nullptr, &buffer), VK_SUCCESS) << "nobody waits for the driver";
  h.Pump();
  const uint64_t objects = h.context().objects();
  vkDestroyBuffer(d.device, buffer, nullptr);
  h.Pump();
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(h.context().objects(), objects - 1);
  h.policy().next_buffer = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  ASSERT_EQ(vkCreateBuffer(d.device, &info, nullptr, &buffer), VK_SUCCESS);
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(d.device, buffer, &requirements);
  EXPECT_EQ(LostReasonOf(h.status()), wire::LostReason::kLimit) << "no protocol error, but the end";
  EXPECT_THAT(h.status().ToString(), ::testing::HasSubstr("refused to make"));
  d.Destroy();
}

TEST_F(ExecTest, ALostContextAnswersDeviceLostAndFreesEverything) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  GuestBuffer out(d, 4096, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  h.policy().next_submit = VK_ERROR_DEVICE_LOST;
  VkCommandBuffer cb = d.AllocateCommandBuffer();
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  vkBeginCommandBuffer(cb, &begin);
  vkEndCommandBuffer(cb);
  EXPECT_EQ(d.SubmitAndWait(cb), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(h.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(LostReasonOf(h.status()), wire::LostReason::kDeviceLost);
  EXPECT_EQ(vkDeviceWaitIdle(d.device), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(vkQueueSubmit(d.queue, 0, nullptr, VK_NULL_HANDLE), VK_ERROR_DEVICE_LOST);
  EXPECT_GT(h.context().objects(), 0u);
  h.DestroyContext();
  EXPECT_EQ(h.policy().devices, 0);
  EXPECT_EQ(h.policy().memories, 0);
  out.Destroy(d);
  d.Destroy();
}

TEST_F(ExecTest, WhatIsNotOnTheWireIsNotOffered) {
  Harness h;
  const char* layer = "VK_LAYER_KHRONOS_validation";
  const VkInstanceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .enabledLayerCount = 1, .ppEnabledLayerNames = &layer};
  VkInstance instance;
  EXPECT_EQ(vkCreateInstance(&info, nullptr, &instance), VK_ERROR_LAYER_NOT_PRESENT);
  EXPECT_NE(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkCmdDraw"), nullptr);
  EXPECT_NE(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkWaitForFences"), nullptr);
  EXPECT_NE(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkGetPhysicalDeviceProperties2KHR"), nullptr);
  EXPECT_EQ(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkGetPhysicalDeviceProperties2KHR"),
            vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkGetPhysicalDeviceProperties2"));
  EXPECT_EQ(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkGetMemoryFdKHR"), nullptr);
  EXPECT_EQ(vkGetInstanceProcAddr(VK_NULL_HANDLE, ""), nullptr);
}

TEST_F(ExecTest, ManyProgramsInTurnLeaveNothingBehind) {
  Harness h;
  for (int i = 0; i < 20; i++) {
    GuestDevice d;
    ASSERT_TRUE(d.ok) << h.status();
    EXPECT_EQ(RunCompute(d, i, 64)[63], i + 3u * 63);
    d.Destroy();
  }
  h.Pump();
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(h.context().objects(), 0u);
  EXPECT_EQ(h.channel().ids().live(), 0u);
  EXPECT_EQ(h.policy().memories, 0);
}

TEST_F(ExecTest, WhatRealProgramsSendSatisfiesTheDriverThatLooksAtEveryByte) {
  std::vector<Harness::Message> messages;
  {
    Harness h;
    h.keep = true;
    GuestDevice d;
    ASSERT_TRUE(d.ok) << h.status();
    RunCompute(d, 1, 64);
    DrawTriangle(d);
    d.Destroy();
    h.Pump();
    messages = h.messages;
  }
  testing::FakeReset();
  testing::FakePolicy policy;
  testing::Scene scene(&policy);
  for (const auto& m : messages) {
    std::vector<uint64_t> words(m.payload.size() / 8 + 2);
    memcpy(words.data(), m.payload.data(), m.payload.size());
    const void* bytes = words.data();
    ASSERT_EQ(scene.Raw(m.opcode, (m.flags & wire::kFrameReply) != 0,
                        absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), m.payload.size())),
              absl::OkStatus())
        << vk::OpcodeName(m.opcode);
  }
  EXPECT_EQ(scene.context.objects(), 0u);
  EXPECT_EQ(testing::FakeLive(), 0u);
}

}  // namespace
}  // namespace sluice::exec
