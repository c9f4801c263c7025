#include "gpu-domain/exec/replay.h"

#include "flatbuf/vk/exec_decode.h"
#include "gpu-domain/exec/checks.h"

namespace sluice::exec {

absl::Status RunStream(Context::Impl& c, Message& m) {
  const auto* in = m.Root<vk::CommandStream>();
  if (in == nullptr || m.WantsReply()) return m.Bad("CommandStream: malformed");
  Decoder d(c, "CommandStream");
  VkCommandBuffer cb = VK_NULL_HANDLE;
  if (!d.Dispatch(in->command_buffer(), &cb)) return d.error();
  Object& object = c.objects[d.dispatch_index()];
  const bool recording = (object.aux & kStateMask) == kRecording;
  if (in->begin() != nullptr) {
    if (recording) return d.Error("vkBeginCommandBuffer while recording");
    VkCommandBufferBeginInfo info;
    if (!Decode(d, *in->begin(), &info)) return d.error();
    const VkResult result = d.device_vk()->BeginCommandBuffer(cb, &info);
    if (result < 0) return d.Done(result);
    object.aux = (object.aux & ~kStateMask) | kRecording;
  } else if (!recording) {
    return d.Error("not recording");
  }
  if (!ReplayCommands(d, *in, cb)) return d.error();
  if (!in->end()) return absl::OkStatus();
  c.commands++;
  object.aux = (object.aux & ~kStateMask) | kExecutable;
  return d.Done(d.device_vk()->EndCommandBuffer(cb));
}

}  // namespace sluice::exec
