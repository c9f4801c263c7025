// Command streams from a hostile guest: structures in the pool that lie about what they point to, and messages with
// every byte changed. On the driver that aborts on anything unsound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/stream_view.h"
#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/scene.h"

namespace sluice::exec {
namespace {

using testing::FakeLive;
using testing::FakePolicy;
using testing::FakeReset;
using ::testing::HasSubstr;
using testing::Scene;
using vk::Opcode;

// A pool under construction. Put gives the place.
struct Words {
  std::vector<uint64_t> words;
  template <typename T>
  uint32_t Put(const T& value) {
    static_assert(sizeof(T) % 8 == 0);
    const size_t at = words.size();
    words.resize(at + sizeof(T) / 8);
    memcpy(words.data() + at, &value, sizeof(T));
    return static_cast<uint32_t>(at + 1);
  }
};
// A place where a pointer was.
template <typename T>
const T* At(uint64_t place) {
  return vk::HandleCast<const T*>(place);
}

class StreamRefusalTest : public ::testing::Test {
 protected:
  StreamRefusalTest() { Restart(); }
  ~StreamRefusalTest() override {
    scene.reset();
    EXPECT_EQ(FakeLive(), 0u);
  }
  void Restart() {
    scene.reset();
    FakeReset();
    scene = std::make_unique<Scene>(&policy);
    ASSERT_EQ(scene->Setup(), absl::OkStatus());
    ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
    ASSERT_EQ(scene->CreatePool(), absl::OkStatus());
    ASSERT_EQ(scene->AllocateCommandBuffers({Scene::kCommandBuffer}, 1), absl::OkStatus());
  }
  // `count` commands vkCmdPipelineBarrier2 with the VkDependencyInfo at `place`.
  absl::Status Barriers(const Words& pool, uint32_t place, uint32_t count = 1) {
    return scene->Stream(true, true, pool.words, [&](flatbuffers::FlatBufferBuilder& b) {
      const std::vector<vk::Row_vkCmdPipelineBarrier2> rows(count, vk::Row_vkCmdPipelineBarrier2(place));
      const std::vector<uint16_t> order(count, static_cast<uint16_t>(Opcode::kCmdPipelineBarrier2));
      const auto column = b.CreateVectorOfStructs(rows);
      const auto orders = b.CreateVector(order);
      return [=](vk::CommandStreamBuilder& t) {
        t.add_cmd_pipeline_barrier2(column);
        t.add_order(orders);
      };
    });
  }
  void Refused(const absl::Status& status, const std::string& part) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.ToString(), HasSubstr(part));
    EXPECT_EQ(scene->CreateBuffer(Scene::kFree + 7), status) << "the context stays lost";
  }

  FakePolicy policy;
  std::unique_ptr<Scene> scene;
  VkDependencyInfo info = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  VkBufferMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER_2,
                                    .buffer = vk::HandleCast<VkBuffer>(Scene::kBuffer),
                                    .size = 16};
  Words pool;
};

TEST_F(StreamRefusalTest, NothingWrongIsAccepted) {
  info.bufferMemoryBarrierCount = 1;
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(pool.Put(barrier));
  EXPECT_EQ(Barriers(pool, pool.Put(info)), absl::OkStatus());
}
TEST_F(StreamRefusalTest, PlacesBeyondThePool) {
  pool.Put(info);
  Refused(Barriers(pool, 400), "pDependencyInfo");
}
TEST_F(StreamRefusalTest, PlacesWhoseEndIsBeyondThePool) {
  info.bufferMemoryBarrierCount = 2;
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(100);
  const uint32_t place = pool.Put(info);
  pool.words.resize(110);
  Refused(Barriers(pool, place), "pBufferMemoryBarriers");
}
TEST_F(StreamRefusalTest, PlacesOf64Bits) {
  info.bufferMemoryBarrierCount = 1;
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(uint64_t{1} << 61);
  Refused(Barriers(pool, pool.Put(info)), "pBufferMemoryBarriers");
}
TEST_F(StreamRefusalTest, NullWhereSomethingIsCounted) {
  info.memoryBarrierCount = 1;
  Refused(Barriers(pool, pool.Put(info)), "pMemoryBarriers");
}
TEST_F(StreamRefusalTest, NullWhereAStructureMustBe) {
  Refused(Barriers(pool, 0), "pDependencyInfo");
}
TEST_F(StreamRefusalTest, AbsurdCounts) {
  info.memoryBarrierCount = 0xffffffff;
  info.pMemoryBarriers = At<VkMemoryBarrier2>(1);
  Refused(Barriers(pool, pool.Put(info)), "pMemoryBarriers");
}
TEST_F(StreamRefusalTest, WrongTypes) {
  info.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
  Refused(Barriers(pool, pool.Put(info)), "VkDependencyInfo.sType");
}
TEST_F(StreamRefusalTest, UnknownStructuresInChains) {
  info.pNext = At<void>(1);
  Refused(Barriers(pool, pool.Put(info)), "pNext");
}
TEST_F(StreamRefusalTest, HandlesThatAreNotAlive) {
  barrier.buffer = vk::HandleCast<VkBuffer>(uint64_t{1} << 32 | Scene::kBuffer);
  info.bufferMemoryBarrierCount = 1;
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(pool.Put(barrier));
  Refused(Barriers(pool, pool.Put(info)), "VkBufferMemoryBarrier2.buffer");
}
TEST_F(StreamRefusalTest, UnknownBitsOfWideMasks) {
  barrier.srcStageMask = uint64_t{1} << 63;
  info.bufferMemoryBarrierCount = 1;
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(pool.Put(barrier));
  Refused(Barriers(pool, pool.Put(info)), "srcStageMask");
}
TEST_F(StreamRefusalTest, SharedArraysDoNotMultiplyWork) {
  info.bufferMemoryBarrierCount = 1000;
  const uint32_t first = pool.Put(barrier);
  for (int i = 1; i < 1000; i++) pool.Put(barrier);
  info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(first);
  Refused(Barriers(pool, pool.Put(info), 10'000), "more work");
}

// ---- vkBeginCommandBuffer
TEST_F(StreamRefusalTest, PrimaryBuffersThatInherit) {
  const VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.pInheritanceInfo = At<VkCommandBufferInheritanceInfo>(pool.Put(inheritance));
  const uint32_t place = pool.Put(begin);
  auto& b = scene->b;
  const auto words = b.CreateVector(pool.words);
  vk::CommandStreamBuilder t(b);
  t.add_command_buffer(Scene::kCommandBuffer);
  t.add_begin_at(place);
  t.add_pool(words);
  Refused(scene->Run(Opcode::kCommandStream, t.Finish()), "pInheritanceInfo");
}
TEST_F(StreamRefusalTest, ChainsThatEndNowhere) {
  VkDeviceGroupCommandBufferBeginInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_COMMAND_BUFFER_BEGIN_INFO};
  group.pNext = At<void>(1);
  pool.Put(group);
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.pNext = At<void>(1);
  const uint32_t place = pool.Put(begin);
  auto& b = scene->b;
  const auto words = b.CreateVector(pool.words);
  vk::CommandStreamBuilder t(b);
  t.add_command_buffer(Scene::kCommandBuffer);
  t.add_begin_at(place);
  t.add_pool(words);
  Refused(scene->Run(Opcode::kCommandStream, t.Finish()), "VkCommandBufferBeginInfo.pNext");
}

// ---- every byte
class StreamBytesTest : public StreamRefusalTest {
 protected:
  // An honest message: a copy, a barrier with arrays, draws.
  std::vector<uint8_t> Honest() {
    info.bufferMemoryBarrierCount = 2;
    info.pBufferMemoryBarriers = At<VkBufferMemoryBarrier2>(pool.Put(barrier));
    pool.Put(barrier);
    const uint32_t place = pool.Put(info);
    const uint32_t regions = pool.Put(VkBufferCopy{0, 0, 16});
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const uint32_t begin_at = pool.Put(begin);
    flatbuffers::FlatBufferBuilder b;
    const vk::Row_vkCmdPipelineBarrier2 barriers(place);
    const vk::Row_vkCmdCopyBuffer copies(Scene::kBuffer, Scene::kBuffer, 1, regions);
    const vk::Row_vkCmdDraw draws[2] = {{3, 1, 0, 0}, {3, 1, 0, 1}};
    const uint16_t order[] = {static_cast<uint16_t>(Opcode::kCmdDraw),
                              static_cast<uint16_t>(Opcode::kCmdPipelineBarrier2),
                              static_cast<uint16_t>(Opcode::kCmdCopyBuffer), static_cast<uint16_t>(Opcode::kCmdDraw)};
    const auto orders = b.CreateVector(order, 4);
    const auto words = b.CreateVector(pool.words);
    const auto c1 = b.CreateVectorOfStructs(&barriers, 1);
    const auto c2 = b.CreateVectorOfStructs(&copies, 1);
    const auto c3 = b.CreateVectorOfStructs(draws, 2);
    vk::CommandStreamBuilder t(b);
    t.add_command_buffer(Scene::kCommandBuffer);
    t.add_begin_at(begin_at);
    t.add_end(true);
    t.add_order(orders);
    t.add_pool(words);
    t.add_cmd_pipeline_barrier2(c1);
    t.add_cmd_copy_buffer(c2);
    t.add_cmd_draw(c3);
    b.Finish(t.Finish());
    return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
  }
  absl::Status Run(const std::vector<uint8_t>& message, size_t size) {
    std::vector<uint64_t> words(message.size() / 8 + 2);
    memcpy(words.data(), message.data(), size);
    const void* bytes = words.data();
    return scene->Raw(static_cast<uint16_t>(Opcode::kCommandStream), false,
                      absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), size));
  }
};

TEST_F(StreamBytesTest, TheHonestMessageIsAccepted) {
  const std::vector<uint8_t> message = Honest();
  EXPECT_EQ(Run(message, message.size()), absl::OkStatus());
}
TEST_F(StreamBytesTest, NoLengthAndNoByteBreaksTheWorker) {
  const std::vector<uint8_t> message = Honest();
  int refused = 0;
  for (size_t size = 0; size < message.size(); size++) {
    if (!Run(message, size).ok()) refused++;
    Restart();
  }
  EXPECT_GT(refused, static_cast<int>(message.size()) * 9 / 10);
  for (size_t i = 0; i < message.size(); i++) {
    for (const uint8_t value : {0x00, 0x01, 0x80, 0xff}) {
      std::vector<uint8_t> wrong = message;
      wrong[i] ^= value == 0 ? wrong[i] : value;
      (void)Run(wrong, wrong.size());  // either way; the driver judges
      Restart();
    }
  }
}
// What the guest's own layout of the message is to everybody else: a FlatBuffer.
TEST_F(StreamBytesTest, TheViewAgreesWithTheGeneratedVerifier) {
  const std::vector<uint8_t> message = Honest();
  std::vector<uint64_t> words(message.size() / 8 + 2);
  void* bytes = words.data();
  int accepted = 0;
  for (size_t i = 0; i < message.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      memcpy(bytes, message.data(), message.size());
      static_cast<uint8_t*>(bytes)[i] ^= static_cast<uint8_t>(1 << bit);
      StreamView view;
      const auto span = absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), message.size());
      if (!ReadStream(span, &view)) continue;
      accepted++;
      flatbuffers::Verifier verifier(span.data(), span.size(), 16, 1000, true);
      EXPECT_TRUE(verifier.VerifyBuffer<vk::CommandStream>(nullptr)) << "byte " << i << " bit " << bit;
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace sluice::exec
