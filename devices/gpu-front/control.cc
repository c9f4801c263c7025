#include "devices/gpu-front/control.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flatbuf/wire.h"
#include "vmm/base/log.h"

namespace sluice::gpu_front {

Control::Control(ControlOptions options, Responder* responder)
    : options_(std::move(options)),
      responder_(responder),
      width_(options_.width),
      height_(options_.height),
      resources_(options_.limits),
      contexts_(options_.limits.max_contexts),
      scanouts_(options_.scanouts),
      window_(options_.window == nullptr ? 0 : options_.window->size()),
      watch_(*options_.loop),
      self_(std::make_shared<Control*>(this)) {}

Control::~Control() {
  resources_.ForEach([this](Resource& resource) { Unmap(&resource); });
}

void Control::Activate(memory::GuestMemory ram, uint64_t features) {
  ram_ = std::move(ram);
  features_ = features;
}

void Control::Reset() {
  KeepPicture();
  resources_.ForEach([this](Resource& resource) {
    Unmap(&resource);
    if (resource.kind == ResourceKind::kHostBlob && resource.channel == channel_generation_ && ChannelOpen()) {
      channel_->SendBlobDestroy(resource.id);
    }
  });
  contexts_.ForEach([this](Context& context) {
    if (context.in_domain && context.channel == channel_generation_ && ChannelOpen()) {
      channel_->SendContextDestroy(context.id);
    }
  });
  for (OutstandingBlob& blob : outstanding_blobs_) blob.request = 0;
  resources_.Clear();
  contexts_.Clear();
  scanouts_.Reset();
  timelines_.Clear();
  pending_.clear();
  doorbells_ = 0;
  features_ = 0;
  ram_ = {};
}

void Control::SetDisplaySize(uint32_t width, uint32_t height) {
  width_ = width;
  height_ = height;
}

void Control::Handle(uint16_t queue, uint64_t request, absl::Span<const uint8_t> bytes, uint64_t writable) {
  Decoded decoded = Decode(queue, bytes);
  const CtrlHdr& header = decoded.header;
  if (options_.stats != nullptr) options_.stats->gpu_commands.fetch_add(1, std::memory_order_relaxed);

  current_ = {};
  current_.request = request;
  current_.header = header;
  current_.fenced = queue == kControlQueue && (header.flags & kFlagFence) != 0;
  current_.entry.request = request;
  TimelineKey timeline = TimelineKey::Global();
  if ((header.flags & kFlagInfoRingIdx) != 0 && queue == kControlQueue) {
    timeline = TimelineKey::Ring(header.ctx_id, header.ring_idx);
    if (header.ring_idx >= wire::kMaxTimelines && !std::holds_alternative<Malformed>(decoded.command)) {
      decoded.command = Malformed{ResponseType::kErrInvalidParameter, "ring index over 63"};
    }
  }
  // A request whose answer has no room is not carried out: its guest would never learn what became of it.
  const size_t body_bytes = ResponseBodyBytes(decoded.command, sizeof(wire::Capset));
  if (body_bytes > 0 && writable < sizeof(CtrlHdr) + body_bytes) {
    decoded.command = Malformed{ResponseType::kErrInvalidParameter, "no room for the response"};
  }

  Outcome outcome = Execute(decoded.command);
  if (outcome.has_value() && !current_.fenced) {
    Answer(request, header, false, *outcome);
    return;
  }
  Pending pending;
  pending.header = header;
  pending.fenced = current_.fenced;
  pending.timeline = timeline;
  pending.waits_for_capset = current_.waits_for_capset;
  current_.entry.ready = outcome.has_value();
  if (outcome.has_value()) pending.response = *std::move(outcome);
  pending_.emplace(request, std::move(pending));
  if (current_.fenced) {
    std::vector<uint64_t> done;
    timelines_.Add(timeline, current_.entry, &done);
    Complete(done);
  }
}

Control::Outcome Control::Execute(const Command& command) {
  return std::visit([this](const auto& c) { return On(c); }, command);
}

void Control::Answer(uint64_t request, const CtrlHdr& header, bool fenced, const Response& response) {
  CtrlHdr out{};
  out.type = static_cast<uint32_t>(response.type);
  if (fenced) {
    out.flags = header.flags & (kFlagFence | kFlagInfoRingIdx);
    out.fence_id = header.fence_id;
    out.ctx_id = header.ctx_id;
    out.ring_idx = (header.flags & kFlagInfoRingIdx) != 0 ? header.ring_idx : 0;
  }
  if (options_.stats != nullptr) {
    if (IsError(response.type)) options_.stats->gpu_errors.fetch_add(1, std::memory_order_relaxed);
    if (fenced) options_.stats->fences.fetch_add(1, std::memory_order_relaxed);
  }
  std::vector<uint8_t> bytes(sizeof(out) + response.body.size());
  std::memcpy(bytes.data(), &out, sizeof(out));
  if (!response.body.empty()) std::memcpy(bytes.data() + sizeof(out), response.body.data(), response.body.size());
  responder_->Respond(request, bytes);
}

void Control::Finish(uint64_t request, Response response) {
  const auto it = pending_.find(request);
  if (it == pending_.end()) return;
  if (!it->second.fenced) {
    const CtrlHdr header = it->second.header;
    pending_.erase(it);
    Answer(request, header, false, response);
    return;
  }
  it->second.response = std::move(response);
  std::vector<uint64_t> done;
  timelines_.MarkReady(TimelineKey(it->second.timeline), request, &done);
  Complete(done);
}

void Control::Complete(const std::vector<uint64_t>& done) {
  for (const uint64_t request : done) {
    auto node = pending_.extract(request);
    if (node.empty()) continue;
    Answer(request, node.mapped().header, true, node.mapped().response);
  }
}

ResponseType Control::ToResponse(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ResponseType::kOkNodata;
    case absl::StatusCode::kResourceExhausted:
      return ResponseType::kErrOutOfMemory;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
      return ResponseType::kErrInvalidResourceId;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ResponseType::kErrInvalidParameter;
    default:
      return ResponseType::kErrUnspec;
  }
}

void Control::RemoveResource(uint32_t id) {
  Resource* resource = resources_.Find(id);
  if (resource == nullptr) return;
  const auto& shown = scanouts_.binding(0);
  if (shown.has_value() && shown->resource_id == id) KeepPicture();
  if (resource->kind == ResourceKind::kHostBlob) {
    Unmap(resource);
    if (resource->doorbell.valid()) --doorbells_;
    if (resource->channel == channel_generation_ && ChannelOpen()) channel_->SendBlobDestroy(id);
  }
  scanouts_.Forget(id);
  contexts_.DetachEverywhere(id);
  resources_.Remove(id);
}

}  // namespace sluice::gpu_front
