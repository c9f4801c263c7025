// Capability sets, contexts and submits. What the device knows of 3D ends here: payloads go to the worker unread.
#include <cstring>
#include <utility>

#include "devices/gpu-front/control.h"
#include "vmm/base/log.h"

namespace sluice::gpu_front {

Control::Outcome Control::On(const GetCapsetInfo& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  if (c.capset_index != 0) return Error(ResponseType::kErrInvalidParameter);
  if (domain_state_ == DomainState::kWaiting) {
    current_.waits_for_capset = c;
    return std::nullopt;
  }
  return CapsetInfo(c);
}

Control::Outcome Control::On(const GetCapset& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  if (c.capset_id != wire::kCapsetId || c.capset_version > wire::kCapsetVersion) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  if (domain_state_ == DomainState::kWaiting) {
    current_.waits_for_capset = c;
    return std::nullopt;
  }
  return CapsetPayload();
}

Control::Response Control::CapsetInfo(const GetCapsetInfo& c) const {
  if (domain_state_ != DomainState::kReady) return Error(ResponseType::kErrInvalidParameter);
  const RespCapsetInfo info = {wire::kCapsetId, wire::kCapsetVersion, static_cast<uint32_t>(capset_.size()), 0};
  Response response{ResponseType::kOkCapsetInfo, std::vector<uint8_t>(sizeof(info))};
  std::memcpy(response.body.data(), &info, sizeof(info));
  return response;
}

Control::Response Control::CapsetPayload() const {
  if (domain_state_ != DomainState::kReady) return Error(ResponseType::kErrInvalidParameter);
  return {ResponseType::kOkCapset, capset_};
}

Control::Outcome Control::On(const CtxCreateCmd& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  const uint32_t id = current_.header.ctx_id;
  if (id == 0 || contexts_.Find(id) != nullptr) return Error(ResponseType::kErrInvalidContextId);
  const uint32_t capset = Negotiated(kFeatureContextInit) ? c.context_init & kContextInitCapsetIdMask : 0;
  if (capset != 0 && capset != wire::kCapsetId) return Error(ResponseType::kErrInvalidParameter);
  if (contexts_.full()) return Error(ResponseType::kErrOutOfMemory);
  Context context;
  context.id = id;
  context.name = c.name;
  if (capset != 0) {
    // Sent even before the worker's hello came: the socket keeps the order.
    if (!ChannelOpen()) return Error(ResponseType::kErrUnspec);
    const absl::Status sent = channel_->SendContextCreate(id, c.name);
    if (!sent.ok()) return Error(ToResponse(sent));
    context.in_domain = true;
    context.channel = channel_generation_;
  }
  contexts_.Add(std::move(context));
  return Response{};
}

Control::Outcome Control::On(const CtxDestroyCmd&) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  const uint32_t id = current_.header.ctx_id;
  Context* context = contexts_.Find(id);
  if (context == nullptr) return Error(ResponseType::kErrInvalidContextId);
  const bool tell = context->in_domain && context->channel == channel_generation_ && ChannelOpen();
  // The guest gave the work up itself: its fences complete without an error.
  if (context->in_domain) LoseContext(context, wire::LostReason::kDestroyed, ResponseType::kOkNodata);
  if (tell) channel_->SendContextDestroy(id);
  contexts_.Remove(id);
  return Response{};
}

Control::Outcome Control::On(const CtxAttachCmd& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  Context* context = contexts_.Find(current_.header.ctx_id);
  if (context == nullptr) return Error(ResponseType::kErrInvalidContextId);
  if (resources_.Find(c.resource_id) == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  context->attached.insert(c.resource_id);
  return Response{};
}

Control::Outcome Control::On(const CtxDetachCmd& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  Context* context = contexts_.Find(current_.header.ctx_id);
  if (context == nullptr) return Error(ResponseType::kErrInvalidContextId);
  if (context->attached.erase(c.resource_id) == 0) return Error(ResponseType::kErrInvalidResourceId);
  return Response{};
}

Control::Outcome Control::On(const Submit3dCmd& c) {
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  Context* context = contexts_.Find(current_.header.ctx_id);
  if (context == nullptr) return Error(ResponseType::kErrInvalidContextId);
  if (!context->in_domain) return Error(ResponseType::kErrInvalidParameter);
  if (context->lost || !ChannelOpen()) return Error(ResponseType::kErrUnspec);
  const uint8_t ring = (current_.header.flags & kFlagInfoRingIdx) != 0 ? current_.header.ring_idx : 0;
  // The worker sees the device's request number, not the guest's fence id: unique and rising whatever the guest does.
  const absl::Status sent =
      channel_->SendSubmit(context->id, ring, current_.fenced, current_.fenced ? current_.request : 0, c.payload);
  if (!sent.ok()) {
    if (absl::IsResourceExhausted(sent)) {
      SLUICE_LOG_GUEST(warn, "context {} submits faster than its worker reads: lost", context->id);
      LoseContext(context, wire::LostReason::kLimit, ResponseType::kErrUnspec);
    }
    return Error(ToResponse(sent));
  }
  if (!current_.fenced) return Response{};
  current_.entry.from_domain = true;
  current_.entry.context = context->id;
  current_.entry.ring = ring;
  return std::nullopt;
}

// Resources of classic 3D, and transfers to them, belong to protocols that render on the host. Blobs replace them here.
Control::Outcome Control::On(const ResourceCreate3d& c) {
  if (c.resource_id == 0 || resources_.Find(c.resource_id) != nullptr)
    return Error(ResponseType::kErrInvalidResourceId);
  return Error(ResponseType::kErrUnspec);
}

Control::Outcome Control::On(const TransferToHost3dCmd& c) {
  if (resources_.Find(c.body.resource_id) == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  return Error(ResponseType::kErrUnspec);
}

Control::Outcome Control::On(const TransferFromHost3dCmd& c) {
  if (resources_.Find(c.body.resource_id) == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  return Error(ResponseType::kErrUnspec);
}

void Control::LoseContext(Context* context, wire::LostReason reason, ResponseType fences) {
  if (context->lost) return;
  context->lost = true;
  const uint32_t id = context->id;  // `context` may move when tables change below
  SetStatusOfRings(id, reason);
  std::vector<uint32_t> unborn;
  resources_.ForEach([&](const Resource& resource) {
    if (resource.kind == ResourceKind::kHostBlob && resource.state == HostBlobState::kPending &&
        resource.context == id) {
      unborn.push_back(resource.id);
    }
  });
  for (const uint32_t resource : unborn) AbandonBlob(resource, ResponseType::kErrInvalidContextId);
  std::vector<uint64_t> affected;
  std::vector<uint64_t> done;
  timelines_.ReleaseContext(id, &affected, &done);
  for (const uint64_t request : affected) {
    const auto it = pending_.find(request);
    if (it != pending_.end()) it->second.response = Error(fences);
  }
  Complete(done);
}

}  // namespace sluice::gpu_front
