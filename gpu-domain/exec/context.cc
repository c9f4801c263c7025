#include "gpu-domain/exec/context.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/impl.h"

namespace sluice::exec {

VkDevice Context::Impl::DeviceOf(const Object& object) const {
  return vk::HandleCast<VkDevice>(objects[object.device].handle);
}

Call Context::Impl::MakeCall(uint32_t device) {
  return Call{.context = *context,
              .arena = arena,
              .instance_vk = instance == 0 ? nullptr : &instance_table,
              .device_vk = device == 0 ? nullptr : devices[objects[device].aux].get(),
              .lost = absl::OkStatus()};
}

void Context::Impl::DestroyTree(uint32_t index, bool explicitly) {
  const ObjectType type = objects[index].type;
  if (type == ObjectType::kDevice && objects[index].handle != 0) {
    Call call = MakeCall(index);
    policy->vkDeviceWaitIdle(call, vk::HandleCast<VkDevice>(objects[index].handle));  // lost or not: it ends here
  }
  // Depth is that of the object model: instance, physical device, device, pool, member.
  while (objects[index].first_child != 0) DestroyTree(objects[index].first_child, false);
  const Object object = objects[index];
  if (object.handle != 0) {
    Call call = MakeCall(object.device);
    call.object_id = uint64_t{object.generation} << 32 | index;
    if (object.device != 0 && type != ObjectType::kDevice) {
      call.dispatch_id = uint64_t{objects[object.device].generation} << 32 | object.device;
    }
    DestroyDriverObject(*this, object, call, explicitly);
  }
  objects.Remove(index);
  if (type == ObjectType::kDevice && object.handle != 0) devices[object.aux].reset();
  if (type == ObjectType::kInstance) instance = 0;
}

absl::Status Message::Reply(const absl::Status& status) const {
  const absl::Status sent =
      sink->Reply(header.opcode, header.sequence, absl::MakeConstSpan(c.fbb.GetBufferPointer(), c.fbb.GetSize()));
  return status.ok() ? sent : status;
}

Context::Context(const ContextOptions& options, Policy* policy)
    : impl_(std::make_unique<Impl>(this, options, policy)) {}

Context::~Context() {
  if (impl_->instance != 0) impl_->DestroyTree(impl_->instance, false);
}

absl::Status Context::Execute(const wire::FrameHeader& header, absl::Span<const uint8_t> payload, ReplySink* sink) {
  Impl& c = *impl_;
  if (!c.lost.ok()) return c.lost;
  if (payload.size() > wire::kMaxMessageBytes) {
    c.lost = absl::InvalidArgumentError("message too long");
    return c.lost;
  }
  c.arena.Reset();
  // Every element of an honest message takes at least one of its bytes.
  c.work_left = 2 * payload.size() + 4096;
  c.commands++;
  Message message{c, header, payload, sink};
  c.lost = RunCommand(c, message);
  return c.lost;
}

uint64_t Context::objects() const {
  return impl_->objects.live();
}
uint64_t Context::commands() const {
  return impl_->commands;
}

wire::LostReason LostReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return wire::LostReason::kNone;
    case absl::StatusCode::kResourceExhausted:
      return wire::LostReason::kLimit;
    case absl::StatusCode::kAborted:
      return wire::LostReason::kDeviceLost;
    default:
      return wire::LostReason::kBadFrame;
  }
}

}  // namespace sluice::exec
