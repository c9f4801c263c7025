// What the wire costs per command, without a driver's own time: recording into a ring that nobody reads for long, and
// the executor on the driver that only looks. items_per_second is commands per second.
#include <benchmark/benchmark.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/recorder.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/vk/guest_send.h"
#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/scene.h"

namespace sluice::exec {
namespace {

using testing::FakePolicy;
using testing::FakeReset;
using testing::Scene;

enum Kind { kDraw, kPush, kBind };

// A guest that records into a ring; what comes out is thrown away, or kept as messages.
class RecordingGuest final : public guest::Platform {
 public:
  static constexpr uint64_t kRingBytes = 8 << 20;

  RecordingGuest() : ring_(kRingBytes / 8) {
    void* blob = ring_.data();
    auto* bytes = static_cast<uint8_t*>(blob);
    header_ = static_cast<wire::RingHeader*>(blob);
    header_->magic = wire::kCapsetMagic;
    header_->protocol_version = wire::kProtocolVersion;
    header_->schema_hash = wire::kSchemaHash;
    const wire::RingLayout layout{kRingBytes};
    consumer_ = wire::RingConsumer(bytes + layout.command_offset(), layout.command_bytes(), &header_->command_head,
                                   &header_->command_tail);
    channel_.Init(blob, kRingBytes, this);
    buffer_.id = Scene::kCommandBuffer;
    buffer_.channel = &channel_;
    buffer_.pool = &pool_;
    buffer_.recorder = &guest::Recorder::Idle();
  }
  void RingDoorbell() override { Drain(); }
  void WaitForPosition(uint64_t) override { Drain(); }
  void WaitTimeline(uint32_t, uint64_t, uint64_t) override {}
  bool AllocateSharedMemory(uint64_t, guest::SharedMemory*) override { return false; }
  void FreeSharedMemory(const guest::SharedMemory&) override {}
  void Yield() override { Drain(); }

  // vkBeginCommandBuffer to vkEndCommandBuffer with `draws` draws.
  void Record(Kind kind, int draws) {
    const VkCommandBuffer cb = guest::FromState<VkCommandBuffer>(&buffer_);
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    vkBeginCommandBuffer(cb, &begin);
    const auto layout = vk::HandleCast<VkPipelineLayout>(Scene::kFree);
    const auto set = vk::HandleCast<VkDescriptorSet>(Scene::kFree + 1);
    const float value = 1;
    for (int i = 0; i < draws; i++) {
      if (kind == kBind) {
        vkCmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_GRAPHICS, layout, 0, 1, &set, 0, nullptr);
      }
      if (kind != kDraw) vkCmdPushConstants(cb, layout, VK_SHADER_STAGE_VERTEX_BIT, 0, 4, &value);
      vkCmdDraw(cb, 3, 1, 0, 0);
    }
    vkEndCommandBuffer(cb);
  }
  // Takes all that lies in the ring.
  void Drain() {
    wire::FrameHeader header;
    const uint8_t* payload = nullptr;
    while (consumer_.Peek(&header, &payload) == wire::RingConsumer::Result::kFrame) {
      bytes += header.size;
      if (keep) {
        const size_t old = joined_.size();
        joined_.resize(old + header.size);
        memcpy(joined_.data() + old, payload, header.size);
        if ((header.flags & wire::kFrameMore) == 0) messages.push_back(std::move(joined_));
        if ((header.flags & wire::kFrameMore) == 0) joined_.clear();
      }
      consumer_.Pop();
    }
  }
  bool keep = false;
  uint64_t bytes = 0;
  std::vector<std::vector<uint8_t>> messages;

 private:
  std::vector<uint64_t> ring_;
  wire::RingHeader* header_;
  wire::RingConsumer consumer_;
  guest::GuestChannel channel_;
  guest::GuestCommandPool pool_;
  guest::GuestCommandBuffer buffer_;
  std::vector<uint8_t> joined_;
};

constexpr int CommandsPerDraw(Kind kind) {
  return kind == kBind ? 3 : kind == kPush ? 2 : 1;
}

// Begin to end, the copy into the ring included. One item is one command.
void BM_Record(benchmark::State& state) {
  const auto kind = static_cast<Kind>(state.range(0));
  const auto draws = static_cast<int>(state.range(1));
  RecordingGuest guest;
  for (auto _ : state) {
    guest.Record(kind, draws);
    state.PauseTiming();
    guest.Drain();
    state.ResumeTiming();
  }
  const auto commands = static_cast<double>(state.iterations()) * draws * CommandsPerDraw(kind);
  state.SetItemsProcessed(static_cast<int64_t>(commands));
  state.counters["bytes/command"] = static_cast<double>(guest.bytes) / commands;
}
BENCHMARK(BM_Record)->ArgsProduct({{kDraw, kPush, kBind}, {10, 10'000, 100'000}});

void BM_ExecuteStream(benchmark::State& state) {
  const auto kind = static_cast<Kind>(state.range(0));
  const auto draws = static_cast<int>(state.range(1));
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
  if (kind == kBind) ready = ready && scene.MakeDescriptorSet(Scene::kFree + 2, Scene::kFree + 1).ok();
  RecordingGuest guest;
  guest.keep = true;
  guest.Record(kind, draws);
  guest.Drain();
  std::vector<std::vector<uint64_t>> messages;
  for (const auto& m : guest.messages) {
    messages.emplace_back(m.size() / 8 + 2);
    memcpy(messages.back().data(), m.data(), m.size());
  }
  for (auto _ : state) {
    for (size_t i = 0; i < messages.size(); i++) {
      const void* bytes = messages[i].data();
      const auto payload = absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), guest.messages[i].size());
      if (!ready || !scene.Raw(static_cast<uint16_t>(vk::Opcode::kCommandStream), false, payload).ok()) {
        state.SkipWithError("refused");
        return;
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * draws * CommandsPerDraw(kind));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(guest.bytes));
}
BENCHMARK(BM_ExecuteStream)->ArgsProduct({{kDraw, kPush, kBind}, {10, 10'000}});

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
