// What the wire costs per command, without a driver's own time: the guest's encoders, and the executor on the driver
// that only looks. items_per_second is commands per second.
#include <benchmark/benchmark.h>

#include "flatbuf/guest/recorder.h"
#include "flatbuf/vk/guest_send.h"
#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/scene.h"

namespace sluice::exec {
namespace {

using testing::FakePolicy;
using testing::FakeReset;
using testing::Scene;

// A typical inner loop: bind a set, push constants, draw.
constexpr int kDraws = 1000;

struct RecordingGuest {
  RecordingGuest() {
    buffer.id = Scene::kCommandBuffer;
    buffer.recorder = &recorder;
  }
  void Record() {
    const VkCommandBuffer cb = guest::FromState<VkCommandBuffer>(&buffer);
    const uint32_t constants[4] = {1, 2, 3, 4};
    const VkViewport viewport = {0, 0, 64, 64, 0, 1};
    for (int i = 0; i < kDraws; i++) {
      vkCmdSetViewport(cb, 0, 1, &viewport);
      vkCmdPushConstants(cb, vk::HandleCast<VkPipelineLayout>(Scene::kFree), VK_SHADER_STAGE_VERTEX_BIT, 0, 16,
                         constants);
      vkCmdDraw(cb, 3, 1, 0, 0);
    }
  }
  guest::Recorder recorder;
  guest::GuestCommandBuffer buffer;
};

void BM_Record(benchmark::State& state) {
  RecordingGuest guest;
  for (auto _ : state) {
    guest.recorder.Clear();
    guest.Record();
  }
  state.SetItemsProcessed(state.iterations() * kDraws * 3);
}
BENCHMARK(BM_Record);

void BM_RecordAndEncode(benchmark::State& state) {
  RecordingGuest guest;
  flatbuffers::FlatBufferBuilder b;
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  size_t bytes = 0;
  for (auto _ : state) {
    guest.recorder.Clear();
    guest.Record();
    b.Clear();
    b.Finish(guest::BuildStream(b, guest.recorder, Scene::kCommandBuffer, &begin, true));
    bytes = b.GetSize();
  }
  state.SetItemsProcessed(state.iterations() * kDraws * 3);
  state.counters["bytes/command"] = static_cast<double>(bytes) / (kDraws * 3);
}
BENCHMARK(BM_RecordAndEncode);

void BM_ExecuteStream(benchmark::State& state) {
  FakeReset();
  FakePolicy policy;
  Scene scene(&policy);
  bool ready =
      scene.Setup().ok() && scene.CreatePool().ok() && scene.AllocateCommandBuffers({Scene::kCommandBuffer}, 1).ok();
  ready = ready && scene
                       .Run(vk::Opcode::kCreatePipelineLayout,
                            vk::CreateCmd_vkCreatePipelineLayout(
                                scene.b, Scene::kDevice, vk::CreatePipelineLayoutCreateInfo(scene.b), Scene::kFree))
                       .ok();
  RecordingGuest guest;
  guest.Record();
  flatbuffers::FlatBufferBuilder b;
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  b.Finish(guest::BuildStream(b, guest.recorder, Scene::kCommandBuffer, &begin, true));
  std::vector<uint64_t> words(b.GetSize() / 8 + 2);
  memcpy(words.data(), b.GetBufferPointer(), b.GetSize());
  const void* bytes = words.data();
  const auto payload = absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), b.GetSize());
  for (auto _ : state) {
    if (!ready || !scene.Raw(static_cast<uint16_t>(vk::Opcode::kCommandStream), false, payload).ok()) {
      state.SkipWithError("refused");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * kDraws * 3);
  state.SetBytesProcessed(state.iterations() * b.GetSize());
}
BENCHMARK(BM_ExecuteStream);

// One small message there and gone: vkCreateBuffer and vkDestroyBuffer, verified, decoded, executed.
void BM_CreateDestroyBuffer(benchmark::State& state) {
  FakeReset();
  FakePolicy policy;
  Scene scene(&policy);
  if (!scene.Setup().ok()) state.SkipWithError("setup");
  for (auto _ : state) {
    const bool ok =
        scene.CreateBuffer(Scene::kBuffer).ok() &&
        scene.Run(vk::Opcode::kDestroyBuffer, vk::CreateCmd_vkDestroyBuffer(scene.b, Scene::kDevice, Scene::kBuffer))
            .ok();
    if (!ok) {
      state.SkipWithError("refused");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * 2);
}
BENCHMARK(BM_CreateDestroyBuffer);

}  // namespace
}  // namespace sluice::exec
