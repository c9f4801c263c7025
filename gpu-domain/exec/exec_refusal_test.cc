// What a hostile guest may say, and that it loses its context and nothing else: every message goes past the guest's
// encoders, to a driver that aborts on anything unsound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

class RefusalTest : public ::testing::Test {
 protected:
  RefusalTest() {
    FakeReset();
    scene = std::make_unique<Scene>(&policy);
    EXPECT_EQ(scene->Setup(), absl::OkStatus());
  }
  ~RefusalTest() override {
    scene.reset();
    EXPECT_EQ(FakeLive(), 0u) << "ending the context frees every driver object";
  }
  void Refused(const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(part));
    EXPECT_EQ(LostReasonOf(status), wire::LostReason::kBadFrame);
    EXPECT_EQ(scene->CreateBuffer(Scene::kFree + 7), status) << "the context stays lost";
  }
  // A command buffer that is being recorded, with `order`, `pool` and rows of vkCmdCopyBuffer.
  absl::Status Copy(uint64_t from, uint64_t to, uint32_t count, uint32_t at, std::vector<uint64_t> pool,
                    std::vector<uint16_t> order = {static_cast<uint16_t>(Opcode::kCmdCopyBuffer)}) {
    return scene->Stream(true, true, pool, [&](flatbuffers::FlatBufferBuilder& b) {
      const vk::Row_vkCmdCopyBuffer row(from, to, count, at);
      const auto rows = b.CreateVectorOfStructs(&row, 1);
      const auto ops = b.CreateVector(order);
      return [=](vk::CommandStreamBuilder& t) {
        t.add_cmd_copy_buffer(rows);
        t.add_order(ops);
      };
    });
  }
  void MakeBuffers() {
    ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
    ASSERT_EQ(scene->CreatePool(), absl::OkStatus());
    ASSERT_EQ(scene->AllocateCommandBuffers({Scene::kCommandBuffer}, 1), absl::OkStatus());
  }

  FakePolicy policy;
  std::unique_ptr<Scene> scene;
};

TEST_F(RefusalTest, NothingWrongIsAccepted) {
  MakeBuffers();
  EXPECT_EQ(Copy(Scene::kBuffer, Scene::kBuffer, 1, 1, {0, 0, 16}), absl::OkStatus());
  EXPECT_GT(scene->context.commands(), 5u);
}
TEST_F(RefusalTest, UnknownOpcodes) {
  Refused(scene->Raw(9999, false, {}), "unknown opcode");
}
TEST_F(RefusalTest, StreamOpcodesAsMessages) {
  Refused(scene->Raw(vk::kFirstStreamOpcode, false, {}), "unknown opcode");
}
TEST_F(RefusalTest, EmptyPayload) {
  Refused(scene->Raw(static_cast<uint16_t>(Opcode::kCreateBuffer), false, {}), "malformed");
}
TEST_F(RefusalTest, GarbagePayload) {
  alignas(16) const uint8_t garbage[64] = {0xff, 0xff, 0xff, 0x7f, 1, 2, 3};
  Refused(scene->Raw(static_cast<uint16_t>(Opcode::kCreateBuffer), false, garbage), "malformed");
}
TEST_F(RefusalTest, ReplyFlagWhereThereIsNoReply) {
  auto& b = scene->b;
  const auto info = vk::CreateSemaphoreCreateInfo(b);
  Refused(scene->Run(Opcode::kCreateSemaphore, vk::CreateCmd_vkCreateSemaphore(b, Scene::kDevice, info, Scene::kFree),
                     true),
          "reply flag");
}
TEST_F(RefusalTest, MissingReplyFlag) {
  Refused(scene->Run(Opcode::kGetBufferMemoryRequirements,
                     vk::CreateCmd_vkGetBufferMemoryRequirements(scene->b, Scene::kDevice, Scene::kBuffer)),
          "reply flag");
}

// ---- ids
TEST_F(RefusalTest, IdZeroForANewObject) {
  Refused(scene->CreateBuffer(0), "out of range or taken");
}
TEST_F(RefusalTest, IndexBeyondTheTable) {
  Refused(scene->CreateBuffer(wire::kMaxObjectIndex + 1), "out of range or taken");
}
TEST_F(RefusalTest, IdAlreadyTaken) {
  Refused(scene->CreateBuffer(Scene::kDevice), "out of range or taken");
}
TEST_F(RefusalTest, IdTakenUnderAnotherGeneration) {
  Refused(scene->CreateBuffer(uint64_t{5} << 32 | Scene::kDevice), "out of range or taken");
}
TEST_F(RefusalTest, TheSameIdTwiceInOneCommand) {
  ASSERT_EQ(scene->CreatePool(), absl::OkStatus());
  Refused(scene->AllocateCommandBuffers({50, 50}, 2), "out of range or taken");
}
TEST_F(RefusalTest, FewerIdsThanObjects) {
  ASSERT_EQ(scene->CreatePool(), absl::OkStatus());
  Refused(scene->AllocateCommandBuffers({50}, 2), "ids");
}
TEST_F(RefusalTest, DestroyedTwice) {
  ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
  auto destroy = [&] {
    return scene->Run(Opcode::kDestroyBuffer, vk::CreateCmd_vkDestroyBuffer(scene->b, Scene::kDevice, Scene::kBuffer));
  };
  EXPECT_EQ(destroy(), absl::OkStatus());
  Refused(destroy(), "to destroy");
}
TEST_F(RefusalTest, StaleGeneration) {
  ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
  const uint64_t stale = uint64_t{1} << 32 | Scene::kBuffer;
  Refused(scene->Run(Opcode::kDestroyBuffer, vk::CreateCmd_vkDestroyBuffer(scene->b, Scene::kDevice, stale)),
          "to destroy");
}
TEST_F(RefusalTest, WrongType) {
  ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
  Refused(scene->Run(Opcode::kDestroyImage, vk::CreateCmd_vkDestroyImage(scene->b, Scene::kDevice, Scene::kBuffer)),
          "to destroy");
}
TEST_F(RefusalTest, WrongDispatchType) {
  Refused(scene->Run(Opcode::kDestroyImage, vk::CreateCmd_vkDestroyImage(scene->b, Scene::kQueue, 0)),
          "first argument");
}
TEST_F(RefusalTest, ObjectsOfAnotherDevice) {
  ASSERT_EQ(scene->CreateDevice(Scene::kFree), absl::OkStatus());
  ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
  Refused(scene->Run(Opcode::kDestroyBuffer, vk::CreateCmd_vkDestroyBuffer(scene->b, Scene::kFree, Scene::kBuffer)),
          "to destroy");
}
TEST_F(RefusalTest, ASecondInstance) {
  auto& b = scene->b;
  Refused(scene->Run(Opcode::kCreateInstance,
                     vk::CreateCmd_vkCreateInstance(b, vk::CreateInstanceCreateInfo(b), Scene::kFree), true),
          "one instance");
}
TEST_F(RefusalTest, TooManyObjectsAreALimitNotAFault) {
  scene = std::make_unique<Scene>(&policy, ContextOptions{.max_objects = 6});
  ASSERT_EQ(scene->Setup(), absl::OkStatus());
  EXPECT_EQ(scene->CreateBuffer(50), absl::OkStatus());
  EXPECT_EQ(scene->CreateBuffer(51), absl::OkStatus());
  const absl::Status status = scene->CreateBuffer(52);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(LostReasonOf(status), wire::LostReason::kLimit);
}
TEST_F(RefusalTest, FreeingFromAnotherPool) {
  MakeBuffers();
  auto& b = scene->b;
  const auto info = vk::CreateCommandPoolCreateInfo(b, 0, 0);
  ASSERT_EQ(
      scene->Run(Opcode::kCreateCommandPool, vk::CreateCmd_vkCreateCommandPool(b, Scene::kDevice, info, Scene::kFree)),
      absl::OkStatus());
  const uint64_t ids[] = {Scene::kCommandBuffer};
  Refused(scene->Run(Opcode::kFreeCommandBuffers,
                     vk::CreateCmd_vkFreeCommandBuffers(b, Scene::kDevice, Scene::kFree, 1, b.CreateVector(ids, 1))),
          "to free");
}
TEST_F(RefusalTest, FreeingTwiceInOneCommand) {
  MakeBuffers();
  auto& b = scene->b;
  const uint64_t ids[] = {Scene::kCommandBuffer, Scene::kCommandBuffer};
  Refused(scene->Run(Opcode::kFreeCommandBuffers,
                     vk::CreateCmd_vkFreeCommandBuffers(b, Scene::kDevice, Scene::kPool, 2, b.CreateVector(ids, 2))),
          "to free");
}
TEST_F(RefusalTest, FreeingSetsFromAPoolThatDoesNotAllowIt) {
  auto& b = scene->b;
  ASSERT_EQ(scene->MakeDescriptorSet(50, 52), absl::OkStatus());
  const uint64_t sets[] = {52};
  Refused(scene->Run(Opcode::kFreeDescriptorSets,
                     vk::CreateCmd_vkFreeDescriptorSets(b, Scene::kDevice, 50, 1, b.CreateVector(sets, 1))),
          "to free");
}

// ---- values
TEST_F(RefusalTest, UnknownFlagBits) {
  Refused(scene->CreateBuffer(50, 256, 0x80000000), "VkBufferCreateInfo.usage");
}
TEST_F(RefusalTest, ZeroSize) {
  Refused(scene->CreateBuffer(50, 0), "v.size != 0");
}
TEST_F(RefusalTest, UnknownEnumValue) {
  auto& b = scene->b;
  const auto info = vk::CreateBufferCreateInfo(b, 0, 0, 256, 1, 77);
  Refused(scene->Run(Opcode::kCreateBuffer, vk::CreateCmd_vkCreateBuffer(b, Scene::kDevice, info, 50)), "sharingMode");
}
TEST_F(RefusalTest, CountWithoutArray) {
  auto& b = scene->b;
  const auto info = vk::CreateBufferCreateInfo(b, 0, 0, 256, 1, VK_SHARING_MODE_CONCURRENT, 2);
  Refused(scene->Run(Opcode::kCreateBuffer, vk::CreateCmd_vkCreateBuffer(b, Scene::kDevice, info, 50)),
          "pQueueFamilyIndices");
}
TEST_F(RefusalTest, CountUnlikeTheArray) {
  auto& b = scene->b;
  const uint32_t families[] = {0, 0, 0};
  const auto info =
      vk::CreateBufferCreateInfo(b, 0, 0, 256, 1, VK_SHARING_MODE_CONCURRENT, 2, b.CreateVector(families, 3));
  Refused(scene->Run(Opcode::kCreateBuffer, vk::CreateCmd_vkCreateBuffer(b, Scene::kDevice, info, 50)),
          "pQueueFamilyIndices");
}
TEST_F(RefusalTest, MissingStructure) {
  Refused(scene->Run(Opcode::kCreateBuffer, vk::CreateCmd_vkCreateBuffer(scene->b, Scene::kDevice, 0, 50)),
          "pCreateInfo");
}
TEST_F(RefusalTest, ALayerByName) {
  auto& b = scene->b;
  scene = std::make_unique<Scene>(&policy);
  const auto name = scene->b.CreateString("VK_LAYER_KHRONOS_validation");
  const auto names = scene->b.CreateVector(&name, 1);
  vk::InstanceCreateInfoBuilder info(scene->b);
  info.add_enabled_layer_count(1);
  info.add_enabled_layer_names(names);
  (void)b;
  EXPECT_THAT(
      scene->Run(Opcode::kCreateInstance, vk::CreateCmd_vkCreateInstance(scene->b, info.Finish(), 1), true).ToString(),
      HasSubstr("enabledLayerCount == 0"));
}
TEST_F(RefusalTest, AnUnknownStructureInAChain) {
  auto& b = scene->b;
  const auto link = vk::CreateChain_MemoryAllocateInfo(b);  // a union of type NONE
  const auto info = vk::CreateMemoryAllocateInfo(b, b.CreateVector(&link, 1), 4096, 0);
  Refused(scene->Run(Opcode::kAllocateMemory, vk::CreateCmd_vkAllocateMemory(b, Scene::kDevice, info, 50), true),
          "unknown structure");
}
TEST_F(RefusalTest, TheSameStructureTwiceInAChain) {
  auto& b = scene->b;
  const auto dedicated = vk::CreateMemoryDedicatedAllocateInfo(b);
  const auto link =
      vk::CreateChain_MemoryAllocateInfo(b, vk::Ext_MemoryAllocateInfo::MemoryDedicatedAllocateInfo, dedicated.Union());
  const flatbuffers::Offset<vk::Chain_MemoryAllocateInfo> links[] = {link, link};
  const auto info = vk::CreateMemoryAllocateInfo(b, b.CreateVector(links, 2), 4096, 0);
  Refused(scene->Run(Opcode::kAllocateMemory, vk::CreateCmd_vkAllocateMemory(b, Scene::kDevice, info, 50), true),
          "given twice");
}
TEST_F(RefusalTest, SpirvOfOddSize) {
  auto& b = scene->b;
  const uint32_t code[] = {1, 2};
  const auto info = vk::CreateShaderModuleCreateInfo(b, 0, 7, b.CreateVector(code, 1));
  Refused(scene->Run(Opcode::kCreateShaderModule, vk::CreateCmd_vkCreateShaderModule(b, Scene::kDevice, info, 50)),
          "codeSize");
}
TEST_F(RefusalTest, AttachmentNumbersBeyondTheRenderPass) {
  auto& b = scene->b;
  const vk::AttachmentReference reference(3, VK_IMAGE_LAYOUT_GENERAL);
  const auto references = b.CreateVectorOfStructs(&reference, 1);
  vk::SubpassDescriptionBuilder subpass(b);
  subpass.add_color_attachment_count(1);
  subpass.add_color_attachments(references);
  const auto subpass_offset = subpass.Finish();
  const auto subpasses = b.CreateVector(&subpass_offset, 1);
  vk::RenderPassCreateInfoBuilder info(b);
  info.add_subpass_count(1);
  info.add_subpasses(subpasses);
  const auto pass = info.Finish();
  Refused(scene->Run(Opcode::kCreateRenderPass, vk::CreateCmd_vkCreateRenderPass(b, Scene::kDevice, pass, 50)),
          "RenderPassIndicesFit");
}
TEST_F(RefusalTest, QueriesBeyondThePool) {
  auto& b = scene->b;
  const auto info = vk::CreateQueryPoolCreateInfo(b, 0, VK_QUERY_TYPE_OCCLUSION, 8);
  ASSERT_EQ(scene->Run(Opcode::kCreateQueryPool, vk::CreateCmd_vkCreateQueryPool(b, Scene::kDevice, info, 50)),
            absl::OkStatus());
  Refused(scene->Run(Opcode::kResetQueryPool, vk::CreateCmd_vkResetQueryPool(b, Scene::kDevice, 50, 7, 2)),
          "QueriesFit");
}
// ---- work out of proportion to bytes
TEST_F(RefusalTest, SharedSubTablesDoNotMultiplyWork) {
  auto& b = scene->b;
  std::vector<uint64_t> handles(20'000, 0);
  const auto shared = b.CreateVector(handles);
  vk::SubmitInfoBuilder submit(b);
  submit.add_signal_semaphore_count(20'000);
  submit.add_signal_semaphores(shared);
  const auto one = submit.Finish();
  const std::vector<flatbuffers::Offset<vk::SubmitInfo>> all(5'000, one);
  const auto submits = b.CreateVector(all);
  const absl::Status status =
      scene->Run(Opcode::kQueueSubmit, vk::CreateCmd_vkQueueSubmit(b, Scene::kQueue, 5'000, submits, kNoSlot, 0));
  EXPECT_FALSE(status.ok());
}

// ---- streams
TEST_F(RefusalTest, RowsBeyondThePool) {
  MakeBuffers();
  Refused(Copy(Scene::kBuffer, Scene::kBuffer, 1, 9, {0, 0, 16}), "pRegions");
}
TEST_F(RefusalTest, CountsThatWrap) {
  MakeBuffers();
  Refused(Copy(Scene::kBuffer, Scene::kBuffer, 0xffffffff, 1, {0, 0, 16}), "pRegions");
}
TEST_F(RefusalTest, RowsThatNoOrderNames) {
  MakeBuffers();
  Refused(Copy(Scene::kBuffer, Scene::kBuffer, 1, 1, {0, 0, 16}, {}), "no order names");
}
TEST_F(RefusalTest, OrderWithoutARow) {
  MakeBuffers();
  const auto op = static_cast<uint16_t>(Opcode::kCmdCopyBuffer);
  Refused(Copy(Scene::kBuffer, Scene::kBuffer, 1, 1, {0, 0, 16}, {op, op}), "no row");
}
TEST_F(RefusalTest, UnknownOrder) {
  MakeBuffers();
  Refused(Copy(Scene::kBuffer, Scene::kBuffer, 1, 1, {0, 0, 16}, {16}), "unknown command");
}
TEST_F(RefusalTest, HandlesOfTheWrongTypeInRows) {
  MakeBuffers();
  Refused(Copy(Scene::kPool, Scene::kBuffer, 1, 1, {0, 0, 16}), "srcBuffer");
}
TEST_F(RefusalTest, StreamsIntoABufferThatIsNotRecording) {
  MakeBuffers();
  Refused(scene->Stream(false, true, {}, [](auto&) { return [](vk::CommandStreamBuilder&) {}; }), "not recording");
}
TEST_F(RefusalTest, BeginningTwice) {
  MakeBuffers();
  auto nothing = [](auto&) { return [](vk::CommandStreamBuilder&) {}; };
  ASSERT_EQ(scene->Stream(true, false, {}, nothing), absl::OkStatus());
  Refused(scene->Stream(true, false, {}, nothing), "while recording");
}
TEST_F(RefusalTest, SubmittingWhatIsNotExecutable) {
  MakeBuffers();
  auto& b = scene->b;
  const uint64_t ids[] = {Scene::kCommandBuffer};
  vk::SubmitInfoBuilder submit(b);
  (void)submit.Finish();
  b.Clear();
  const auto buffers = b.CreateVector(ids, 1);
  vk::SubmitInfoBuilder real(b);
  real.add_command_buffer_count(1);
  real.add_command_buffers(buffers);
  const auto one = real.Finish();
  const auto submits = b.CreateVector(&one, 1);
  Refused(scene->Run(Opcode::kQueueSubmit, vk::CreateCmd_vkQueueSubmit(b, Scene::kQueue, 1, submits, kNoSlot, 0)),
          "pCommandBuffers");
}
TEST_F(RefusalTest, BarriersWithAChain) {
  MakeBuffers();
  Refused(scene->Stream(true, true, {VK_STRUCTURE_TYPE_MEMORY_BARRIER, 0x4141414141414141, 0},
                        [](flatbuffers::FlatBufferBuilder& b) {
                          const vk::Row_vkCmdPipelineBarrier row(1, 1, 0, 1, 1, 0, 0, 0, 0);
                          const auto rows = b.CreateVectorOfStructs(&row, 1);
                          const uint16_t op = static_cast<uint16_t>(Opcode::kCmdPipelineBarrier);
                          const auto ops = b.CreateVector(&op, 1);
                          return [=](vk::CommandStreamBuilder& t) {
                            t.add_cmd_pipeline_barrier(rows);
                            t.add_order(ops);
                          };
                        }),
          "pNext");
}

// ---- life and death
TEST_F(RefusalTest, DestroyingADeviceEndsItsChildrenFirst) {
  MakeBuffers();
  EXPECT_EQ(scene->Run(Opcode::kDestroyDevice, vk::CreateCmd_vkDestroyDevice(scene->b, Scene::kDevice)),
            absl::OkStatus());
  EXPECT_EQ(scene->context.objects(), 2u);  // instance and physical device
  EXPECT_EQ(FakeLive(), 1u);
  EXPECT_EQ(scene->CreateDevice(Scene::kDevice), absl::OkStatus()) << "the id is free again";
}
TEST_F(RefusalTest, DestroyingTheInstanceEndsEverything) {
  MakeBuffers();
  EXPECT_EQ(scene->Run(Opcode::kDestroyInstance, vk::CreateCmd_vkDestroyInstance(scene->b, Scene::kInstance)),
            absl::OkStatus());
  EXPECT_EQ(scene->context.objects(), 0u);
  EXPECT_EQ(scene->Setup(), absl::OkStatus()) << "a new instance works";
}
TEST_F(RefusalTest, NullIsDestroyedWithoutComplaint) {
  EXPECT_EQ(scene->Run(Opcode::kDestroyBuffer, vk::CreateCmd_vkDestroyBuffer(scene->b, Scene::kDevice, 0)),
            absl::OkStatus());
}

}  // namespace
}  // namespace sluice::exec
