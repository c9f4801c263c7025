// Hostile uses of what came with Vulkan 1.1 to 1.3 and extensions: chains both ways, names of extensions, pipelines
// whose state is not there, data behind descriptors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

class RefusalApiTest : public ::testing::Test {
 protected:
  RefusalApiTest() {
    FakeReset();
    scene = std::make_unique<Scene>(&policy);
    EXPECT_EQ(scene->Setup(), absl::OkStatus());
  }
  ~RefusalApiTest() override {
    scene.reset();
    EXPECT_EQ(FakeLive(), 0u) << "ending the context frees every driver object";
  }
  void Refused(const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(part));
    EXPECT_EQ(scene->CreateBuffer(Scene::kFree + 7), status) << "the context stays lost";
  }
  absl::Status AskProperties(const std::vector<int32_t>& types) {
    auto& b = scene->b;
    const auto chain = b.CreateVector(types);
    return scene->Run(Opcode::kGetPhysicalDeviceProperties2,
                      vk::CreateCmd_vkGetPhysicalDeviceProperties2(b, Scene::kPhysical, chain), true);
  }
  absl::Status Device(const char* extension) {
    auto& b = scene->b;
    const auto name = b.CreateString(extension);
    const auto names = b.CreateVector(&name, 1);
    const float priority = 1;
    const auto priorities = b.CreateVector(&priority, 1);
    vk::DeviceQueueCreateInfoBuilder queue(b);
    queue.add_queue_count(1);
    queue.add_queue_priorities(priorities);
    const auto one = queue.Finish();
    const auto queues = b.CreateVector(&one, 1);
    vk::DeviceCreateInfoBuilder info(b);
    info.add_queue_create_info_count(1);
    info.add_queue_create_infos(queues);
    info.add_enabled_extension_count(1);
    info.add_enabled_extension_names(names);
    return scene->Run(Opcode::kCreateDevice,
                      vk::CreateCmd_vkCreateDevice(b, Scene::kPhysical, info.Finish(), Scene::kFree), true);
  }
  // A graphics pipeline of which only the chain is given.
  absl::Status Pipeline(
      flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<vk::Chain_GraphicsPipelineCreateInfo>>> next) {
    auto& b = scene->b;
    vk::GraphicsPipelineCreateInfoBuilder info(b);
    info.add_next(next);
    const auto one = info.Finish();
    const auto infos = b.CreateVector(&one, 1);
    const uint64_t ids[] = {Scene::kFree};
    const auto made = b.CreateVector(ids, 1);
    vk::Cmd_vkCreateGraphicsPipelinesBuilder command(b);
    command.add_device(Scene::kDevice);
    command.add_create_info_count(1);
    command.add_create_infos(infos);
    command.add_ids(made);
    return scene->Run(Opcode::kCreateGraphicsPipelines, command.Finish(), true);
  }
  template <typename T>
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<vk::Chain_GraphicsPipelineCreateInfo>>> Link(
      vk::Ext_GraphicsPipelineCreateInfo type, flatbuffers::Offset<T> ext) {
    const auto link = vk::CreateChain_GraphicsPipelineCreateInfo(scene->b, type, ext.Union());
    return scene->b.CreateVector(&link, 1);
  }

  FakePolicy policy;
  std::unique_ptr<Scene> scene;
};

TEST_F(RefusalApiTest, ChainsToBeFilledInAreAccepted) {
  EXPECT_EQ(AskProperties({}), absl::OkStatus());
  EXPECT_EQ(AskProperties({VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES}),
            absl::OkStatus());
  EXPECT_EQ(scene->sink.replies, 5);
}
TEST_F(RefusalApiTest, AnUnknownTypeToFillIn) {
  Refused(AskProperties({12345}), "unknown structure to fill in");
}
TEST_F(RefusalApiTest, ATypeThatDoesNotExtendTheQuestion) {
  Refused(AskProperties({VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS}), "unknown structure to fill in");
}
TEST_F(RefusalApiTest, TheQuestionItselfAsALink) {
  Refused(AskProperties({VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2}), "unknown structure to fill in");
}
TEST_F(RefusalApiTest, ATypeToFillInTwice) {
  Refused(AskProperties({VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES}),
          "named twice");
}
TEST_F(RefusalApiTest, ExtensionsThatCross) {
  EXPECT_EQ(Device(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME), absl::OkStatus());
}
TEST_F(RefusalApiTest, ExtensionsThatDoNotCross) {
  Refused(Device("VK_KHR_external_memory_fd"), "ExtensionsCross");
}
TEST_F(RefusalApiTest, ExtensionsThatTheGuestServesAlone) {
  Refused(Device(VK_KHR_SWAPCHAIN_EXTENSION_NAME), "ExtensionsCross");
}
TEST_F(RefusalApiTest, InstanceExtensionsOfADevice) {
  Refused(Device(VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME), "ExtensionsCross");
}
TEST_F(RefusalApiTest, APipelineOfNothing) {
  Refused(Pipeline(0), "GraphicsStatePresent");
}
TEST_F(RefusalApiTest, ALibraryWithoutItsState) {
  Refused(Pipeline(Link(vk::Ext_GraphicsPipelineCreateInfo::GraphicsPipelineLibraryCreateInfoEXT,
                        vk::CreateGraphicsPipelineLibraryCreateInfoEXT(
                            scene->b, VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT))),
          "GraphicsStatePresent");
}
TEST_F(RefusalApiTest, ALibraryThatIsNoPipeline) {
  ASSERT_EQ(scene->CreateBuffer(Scene::kBuffer), absl::OkStatus());
  const uint64_t libraries[] = {Scene::kBuffer};
  Refused(Pipeline(Link(vk::Ext_GraphicsPipelineCreateInfo::PipelineLibraryCreateInfoKHR,
                        vk::CreatePipelineLibraryCreateInfoKHR(scene->b, 1, scene->b.CreateVector(libraries, 1)))),
          "VkPipelineLibraryCreateInfoKHR.pLibraries");
}
TEST_F(RefusalApiTest, InlineDataOfAnotherSize) {
  ASSERT_EQ(scene->MakeDescriptorSet(50, 52), absl::OkStatus());
  auto& b = scene->b;
  const uint8_t data[8] = {};
  const auto block = vk::CreateWriteDescriptorSetInlineUniformBlock(b, 8, b.CreateVector(data, 8));
  const auto link = vk::CreateChain_WriteDescriptorSet(
      b, vk::Ext_WriteDescriptorSet::WriteDescriptorSetInlineUniformBlock, block.Union());
  const auto next = b.CreateVector(&link, 1);
  vk::WriteDescriptorSetBuilder write(b);
  write.add_next(next);
  write.add_dst_set(52);
  write.add_descriptor_count(16);
  write.add_descriptor_type(VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK);
  const auto one = write.Finish();
  const auto writes = b.CreateVector(&one, 1);
  vk::Cmd_vkUpdateDescriptorSetsBuilder command(b);
  command.add_device(Scene::kDevice);
  command.add_descriptor_write_count(1);
  command.add_descriptor_writes(writes);
  Refused(scene->Run(Opcode::kUpdateDescriptorSets, command.Finish()), "InlineDataFits");
}
TEST_F(RefusalApiTest, MoreTimestampsThanThereAreDomains) {
  auto& b = scene->b;
  std::vector<flatbuffers::Offset<vk::CalibratedTimestampInfoEXT>> infos;
  for (int i = 0; i < 1000; i++) infos.push_back(vk::CreateCalibratedTimestampInfoEXT(b, VK_TIME_DOMAIN_DEVICE_EXT));
  const auto all = b.CreateVector(infos);
  Refused(scene->Run(Opcode::kGetCalibratedTimestampsEXT,
                     vk::CreateCmd_vkGetCalibratedTimestampsEXT(b, Scene::kDevice, 1000, all), true),
          "timestampCount");
}
TEST_F(RefusalApiTest, ResettingQueriesBeyondThePool) {
  auto& b = scene->b;
  const auto info = vk::CreateQueryPoolCreateInfo(b, 0, VK_QUERY_TYPE_OCCLUSION, 8);
  ASSERT_EQ(scene->Run(Opcode::kCreateQueryPool, vk::CreateCmd_vkCreateQueryPool(b, Scene::kDevice, info, 50)),
            absl::OkStatus());
  Refused(scene->Run(Opcode::kResetQueryPool, vk::CreateCmd_vkResetQueryPool(b, Scene::kDevice, 50, 4, 5)),
          "QueriesFit");
}

}  // namespace
}  // namespace sluice::exec
