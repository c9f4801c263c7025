#include "gpu-domain/exec/replay.h"

#include "gpu-domain/exec/checks.h"

namespace sluice::exec {

absl::Status RunStream(Context::Impl& c, Message& m) {
  StreamView in;
  if (m.WantsReply() || !ReadStream(m.payload, &in)) return m.Bad("CommandStream: malformed");
  Decoder d(c, "CommandStream");
  VkCommandBuffer cb = VK_NULL_HANDLE;
  if (!d.Dispatch(in.command_buffer, &cb)) return d.error();
  Object& object = c.objects[d.dispatch_index()];
  const Pool pool(d, in.pool);
  const bool recording = (object.aux & kStateMask) == kRecording;
  if (in.begin_at != 0) {
    if (recording) return d.Error("vkBeginCommandBuffer while recording");
    const VkCommandBufferBeginInfo* info = nullptr;
    if (!TakeBegin(d, pool, in.begin_at, &info)) return d.error();
    const bool secondary = (object.aux & ~kStateMask) == LevelAux(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
    if (secondary != (info->pInheritanceInfo != nullptr)) return d.Error("VkCommandBufferBeginInfo.pInheritanceInfo");
    const VkResult result = d.device_vk()->BeginCommandBuffer(cb, info);
    if (result < 0) return d.Done(result);
    object.aux = (object.aux & ~kStateMask) | kRecording;
  } else if (!recording) {
    return d.Error("not recording");
  }
  if (!ReplayCommands(d, in, pool, cb)) return d.error();
  if (!in.end) return absl::OkStatus();
  c.commands++;
  object.aux = (object.aux & ~kStateMask) | kExecutable;
  return d.Done(d.device_vk()->EndCommandBuffer(cb));
}

}  // namespace sluice::exec
