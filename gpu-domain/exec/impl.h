// File: impl.h
//
// What generated code sees of a context: its state, and the message at hand.
#ifndef SLUICE_GPU_DOMAIN_EXEC_IMPL_H_
#define SLUICE_GPU_DOMAIN_EXEC_IMPL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "flatbuf/vk/exec_dispatch.h"
#include "flatbuffers/flatbuffers.h"
#include "gpu-domain/exec/arena.h"
#include "gpu-domain/exec/context.h"
#include "gpu-domain/exec/objects.h"
#include "gpu-domain/exec/policy.h"

namespace sluice::exec {

class Context::Impl {
 public:
  Impl(Context* owner, const ContextOptions& options, Policy* policy)
      : context(owner),
        options(options),
        policy(policy),
        arena(options.max_arena_bytes),
        objects(options.max_objects),
        fbb(1024) {}

  VkDevice DeviceOf(const Object& object) const;
  // The tables and context of a command on `device` (index; 0: instance level).
  Call MakeCall(uint32_t device);
  // Destroys the object and, first, all below it. Devices are waited for. `explicitly`: the guest asked for this very
  // object.
  void DestroyTree(uint32_t index, bool explicitly);

  Context* const context;
  const ContextOptions options;
  Policy* const policy;
  Arena arena;
  ObjectTable objects;
  flatbuffers::FlatBufferBuilder fbb;
  uint32_t instance = 0;  // index of the one VkInstance, 0: none
  InstanceTable instance_table;
  std::vector<std::unique_ptr<DeviceTable>> devices;  // by Object::aux of the device
  uint64_t commands = 0;
  uint64_t work_left = 0;  // elements that the message at hand may still make the decoder look at
  absl::Status lost;       // sticky
};

// One message being executed.
struct Message {
  Context::Impl& c;
  const wire::FrameHeader& header;
  absl::Span<const uint8_t> payload;
  ReplySink* sink;

  // The payload as a verified FlatBuffer, or null. Depth and number of tables are bounded by what the bytes can
  // justify.
  template <typename Table>
  const Table* Root() const {
    flatbuffers::Verifier verifier(payload.data(), payload.size(), 16, static_cast<uint32_t>(16 + payload.size() / 8),
                                   true);
    if (payload.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
    return flatbuffers::GetRoot<Table>(payload.data());
  }
  bool WantsReply() const { return (header.flags & wire::kFrameReply) != 0; }
  absl::Status Bad(absl::string_view what) const { return absl::InvalidArgumentError(what); }
  // Sends what fbb holds; then `status`.
  absl::Status Reply(const absl::Status& status) const;
};

// Generated (flatbuf/vk/exec_commands.cc): decodes, checks and runs one message.
absl::Status RunCommand(Context::Impl& c, Message& m);
// Generated: the driver call that ends one object.
void DestroyDriverObject(Context::Impl& c, const Object& object, Call& call, bool explicitly);
// replay.cc: a CommandStream message.
absl::Status RunStream(Context::Impl& c, Message& m);

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_IMPL_H_
