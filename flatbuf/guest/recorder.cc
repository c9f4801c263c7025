#include "flatbuf/guest/recorder.h"

#include "flatbuf/guest/encode_support.h"
#include "flatbuf/guest/entry.h"
#include "flatbuf/vk/guest_send.h"

namespace sluice::guest {

bool FlushRecorder(VkCommandBuffer command_buffer, bool end) {
  GuestCommandBuffer* state = State(command_buffer);
  Recorder& r = *state->recorder;
  ChannelLock lock(command_buffer);
  Builder& b = lock.channel().fbb();
  b.Clear();
  r.begin.pInheritanceInfo = state->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY ? &r.inheritance : nullptr;
  b.Finish(BuildStream(b, r, state->id, r.begin_pending ? &r.begin : nullptr, end));
  // A long stream is worth waking the worker for: it replays while the guest goes on. A short one travels with its
  // submit.
  const bool wake = r.Long();
  r.begin_pending = false;
  r.Clear();
  return SendFinished(lock.channel(), vk::Opcode::kCommandStream, wake);
}

}  // namespace sluice::guest
