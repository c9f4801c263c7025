// Blob resources: guest memory, memory of the GPU Domain, doorbells; and their places in the host-visible window.
#include <cstring>
#include <utility>

#include "devices/gpu-front/control.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {
namespace {

// BlobCreates that the worker has not answered; a guest that makes and drops blobs faster than it answers waits here.
constexpr size_t kMaxOutstandingBlobs = 4096;

std::optional<HostBlobState> StateFor(wire::BlobBacking backing) {
  switch (backing) {
    case wire::BlobBacking::Memory:
      return HostBlobState::kMemory;
    case wire::BlobBacking::Ring:
      return HostBlobState::kRing;
    case wire::BlobBacking::Doorbell:
      return HostBlobState::kDoorbell;
  }
  return std::nullopt;
}

// What stands behind a blob is what its blob_id asked for.
bool Matches(HostBlobState state, uint64_t blob_id) {
  switch (static_cast<wire::BlobKind>(wire::BlobIdKind(blob_id))) {
    case wire::BlobKind::kRing:
      return state == HostBlobState::kRing;
    case wire::BlobKind::kDoorbell:
      return state == HostBlobState::kDoorbell;
    case wire::BlobKind::kMemory:
      return state == HostBlobState::kMemory;
  }
  return false;
}

}  // namespace

Control::Outcome Control::On(const CreateBlobCmd& c) {
  if (!Negotiated(kFeatureResourceBlob)) return Error(ResponseType::kErrUnspec);
  const ResourceCreateBlob& body = c.body;
  if (body.resource_id == 0 || resources_.Find(body.resource_id) != nullptr) {
    return Error(ResponseType::kErrInvalidResourceId);
  }
  if (body.size == 0 || (body.blob_flags & ~kBlobFlagsKnown) != 0) return Error(ResponseType::kErrInvalidParameter);
  switch (static_cast<BlobMem>(body.blob_mem)) {
    case BlobMem::kHost3d:
      return CreateHostBlob(c);
    case BlobMem::kHost3dGuest:
      // Guest pages are never shown to a GPU Domain.
      return Error(ResponseType::kErrUnspec);
    case BlobMem::kGuest:
      break;
    default:
      return Error(ResponseType::kErrInvalidParameter);
  }
  // There is nothing that the host could map for the guest: it has the pages.
  if ((body.blob_flags & kBlobFlagMappable) != 0 && c.entries.empty()) return Error(ResponseType::kErrInvalidParameter);
  absl::StatusOr<Backing> backing = Backing::Create(ram_, c.entries);
  if (!backing.ok()) return Error(ToResponse(backing.status()));
  // Without entries its memory comes later, by ATTACH_BACKING.
  if (!c.entries.empty() && backing->size() < body.size) return Error(ResponseType::kErrInvalidParameter);
  absl::StatusOr<Resource*> resource =
      resources_.CreateBlob(body.resource_id, ResourceKind::kGuestBlob, body.size, body.blob_flags);
  if (!resource.ok()) return Error(ToResponse(resource.status()));
  if (!c.entries.empty()) {
    const absl::Status attached = resources_.Attach(*resource, *std::move(backing));
    if (!attached.ok()) {
      resources_.Remove(body.resource_id);
      return Error(ToResponse(attached));
    }
  }
  return Response{};
}

Control::Outcome Control::CreateHostBlob(const CreateBlobCmd& c) {
  const ResourceCreateBlob& body = c.body;
  if (!Negotiated(kFeatureVirgl)) return Error(ResponseType::kErrUnspec);
  Context* context = contexts_.Find(current_.header.ctx_id);
  if (context == nullptr) return Error(ResponseType::kErrInvalidContextId);
  if (!context->in_domain || !c.entries.empty()) return Error(ResponseType::kErrInvalidParameter);
  const auto rounded = CheckedAlignUp(body.size, kPageSize);
  if (!rounded.has_value() || *rounded > options_.limits.max_blob_bytes) return Error(ResponseType::kErrOutOfMemory);
  if (context->lost || !ChannelOpen()) return Error(ResponseType::kErrUnspec);
  if (outstanding_blobs_.size() >= kMaxOutstandingBlobs) return Error(ResponseType::kErrOutOfMemory);
  absl::StatusOr<Resource*> made =
      resources_.CreateBlob(body.resource_id, ResourceKind::kHostBlob, body.size, body.blob_flags);
  if (!made.ok()) return Error(ToResponse(made.status()));
  const absl::Status sent = channel_->SendBlobCreate(context->id, body.resource_id, body.blob_id, body.size);
  if (!sent.ok()) {
    resources_.Remove(body.resource_id);
    if (absl::IsResourceExhausted(sent)) {
      SLUICE_LOG_GUEST(warn, "context {} makes blobs faster than its worker: lost", context->id);
      LoseContext(context, wire::LostReason::kLimit, ResponseType::kErrUnspec);
    }
    return Error(ToResponse(sent));
  }
  Resource* resource = *made;
  resource->context = context->id;
  resource->blob_id = body.blob_id;
  resource->channel = channel_generation_;
  resource->mapped_bytes = *rounded;
  resource->create_request = current_.request;
  outstanding_blobs_.push_back({body.resource_id, current_.request, Clock::now()});
  WatchDomain();
  return std::nullopt;
}

Control::Outcome Control::On(const ResourceMapBlob& c) {
  if (!Negotiated(kFeatureResourceBlob)) return Error(ResponseType::kErrUnspec);
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind != ResourceKind::kHostBlob || (resource->blob_flags & kBlobFlagMappable) == 0 ||
      resource->window_offset.has_value()) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  const absl::Status reserved = window_.Reserve(c.offset, resource->mapped_bytes);
  if (!reserved.ok()) return Error(ToResponse(reserved));
  resource->window_offset = c.offset;
  if (resource->state == HostBlobState::kPending) {
    resource->map_request = current_.request;
    return std::nullopt;
  }
  return MapNow(resource);
}

Control::Response Control::MapNow(Resource* resource) {
  const uint64_t offset = *resource->window_offset;
  const absl::Status mapped = resource->state == HostBlobState::kDoorbell
                                  ? options_.window->MapDoorbell(offset, resource->doorbell.get())
                                  : options_.window->Map(offset, resource->memory);
  if (!mapped.ok()) {
    SLUICE_LOG_GUEST(warn, "blob {} cannot be mapped at {:#x}: {}", resource->id, offset,
                     std::string(mapped.message()));
    window_.Release(offset);
    resource->window_offset.reset();
    return Error(ToResponse(mapped));
  }
  const RespMapInfo info = {kMapCacheCached, 0};
  Response response{ResponseType::kOkMapInfo, std::vector<uint8_t>(sizeof(info))};
  std::memcpy(response.body.data(), &info, sizeof(info));
  return response;
}

Control::Outcome Control::On(const UnmapBlobCmd& c) {
  if (!Negotiated(kFeatureResourceBlob)) return Error(ResponseType::kErrUnspec);
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (!resource->window_offset.has_value() || resource->state == HostBlobState::kPending) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  Unmap(resource);
  return Response{};
}

void Control::Unmap(Resource* resource) {
  if (!resource->window_offset.has_value()) return;
  if (resource->state != HostBlobState::kPending) options_.window->Unmap(*resource->window_offset);
  window_.Release(*resource->window_offset);
  resource->window_offset.reset();
}

absl::Status Control::AdoptBlob(Resource* resource, const wire::BlobCreated& message, std::vector<UniqueFd> fds) {
  const std::optional<HostBlobState> state = StateFor(message.backing());
  if (!state.has_value() || !Matches(*state, resource->blob_id)) {
    return absl::FailedPreconditionError("the worker made another kind of blob");
  }
  if (fds.size() != 1) return absl::FailedPreconditionError("a blob comes with one descriptor");
  if (message.size() != resource->mapped_bytes) return absl::FailedPreconditionError("the worker made another size");
  if (*state == HostBlobState::kDoorbell) {
    if (doorbells_ >= options_.limits.max_doorbells) return absl::ResourceExhaustedError("too many doorbells");
    resource->doorbell = std::move(fds[0]);
    ++doorbells_;
  } else {
    // The mapping stays, the descriptor does not: a guest may hold thousands of blobs.
    SLUICE_ASSIGN_OR_RETURN(Mapping memory, MapBlobMemory(fds[0], resource->mapped_bytes));
    resource->memory = std::make_shared<const Mapping>(std::move(memory));
  }
  resource->state = *state;
  return absl::OkStatus();
}

void Control::AbandonBlob(uint32_t resource_id, ResponseType type) {
  Resource* resource = resources_.Find(resource_id);
  if (resource == nullptr) return;
  const uint64_t create = resource->create_request;
  const std::optional<uint64_t> map = resource->map_request;
  for (OutstandingBlob& blob : outstanding_blobs_) {
    if (blob.request == create) blob.request = 0;
  }
  RemoveResource(resource_id);
  Finish(create, Error(type));
  if (map.has_value()) Finish(*map, Error(type));
}

void Control::SetStatusOfRings(uint32_t context, wire::LostReason reason) {
  resources_.ForEach([&](const Resource& resource) {
    if (resource.kind == ResourceKind::kHostBlob && resource.state == HostBlobState::kRing &&
        resource.context == context) {
      SetRingStatus(*resource.memory, reason);
    }
  });
}

}  // namespace sluice::gpu_front
