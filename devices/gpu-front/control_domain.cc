// The domain's side of the device: its worker's messages, its death, and the watch over its answers. The worker is not
// trusted: what it says is matched against what was asked; what matches nothing is dropped.
#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/gpu-front/control.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {
namespace {

ResponseType FailureFor(wire::BlobStatus status) {
  switch (status) {
    case wire::BlobStatus::BadRequest:
      return ResponseType::kErrInvalidParameter;
    case wire::BlobStatus::OutOfMemory:
      return ResponseType::kErrOutOfMemory;
    case wire::BlobStatus::NoContext:
      return ResponseType::kErrInvalidContextId;
    case wire::BlobStatus::Ok:
      break;
  }
  return ResponseType::kErrUnspec;
}

// A reason that a guest may read is one that exists.
wire::LostReason KnownReason(uint32_t reason) {
  if (reason == 0 || reason > static_cast<uint32_t>(wire::LostReason::kDestroyed)) return wire::LostReason::kDeviceLost;
  return static_cast<wire::LostReason>(reason);
}

}  // namespace

absl::Status Control::ConnectDomain(UniqueFd socket) {
  if (domain_state_ == DomainState::kWaiting || domain_state_ == DomainState::kReady) {
    return absl::FailedPreconditionError("the device has a GPU Domain");
  }
  SLUICE_ASSIGN_OR_RETURN(channel_, Channel::Create(*options_.loop, std::move(socket), options_.identity, this));
  ++channel_generation_;
  hello_sent_ = Clock::now();
  SetDomainState(DomainState::kWaiting);
  WatchDomain();
  return absl::OkStatus();
}

void Control::SetDomainState(DomainState state) {
  domain_state_ = state;
  const bool usable = state == DomainState::kWaiting || state == DomainState::kReady;
  num_capsets_.store(usable ? 1 : 0, std::memory_order_relaxed);
}

void Control::OnHello(absl::Span<const uint8_t> capset) {
  wire::Capset parsed{};
  if (capset.size() == sizeof(parsed)) std::memcpy(&parsed, capset.data(), sizeof(parsed));
  if (parsed.magic != wire::kCapsetMagic) {
    // Better no capability set than one full of zeros, which guests take for a working GPU.
    channel_->Close(absl::FailedPreconditionError("the worker has no usable capability set"));
    return;
  }
  capset_.assign(capset.begin(), capset.end());
  SetDomainState(DomainState::kReady);
  AnswerCapsetRequests();
  if (options_.on_domain_state) options_.on_domain_state(DomainState::kReady, absl::OkStatus());
}

void Control::AnswerCapsetRequests() {
  std::vector<uint64_t> waiting;
  for (const auto& [request, pending] : pending_) {
    if (!std::holds_alternative<std::monostate>(pending.waits_for_capset)) waiting.push_back(request);
  }
  std::sort(waiting.begin(), waiting.end());
  for (const uint64_t request : waiting) {
    const auto it = pending_.find(request);
    if (it == pending_.end()) continue;
    const auto command = std::exchange(it->second.waits_for_capset, std::monostate());
    if (const auto* info = std::get_if<GetCapsetInfo>(&command)) {
      Finish(request, CapsetInfo(*info));
    } else {
      Finish(request, CapsetPayload());
    }
  }
}

void Control::OnBlobCreated(const wire::BlobCreated& message, std::vector<UniqueFd> fds) {
  const uint32_t id = message.resource();
  // The oldest question about this id: an id that the guest gave up and took again has several.
  const auto asked = std::find_if(outstanding_blobs_.begin(), outstanding_blobs_.end(),
                                  [id](const OutstandingBlob& blob) { return blob.resource == id; });
  if (asked == outstanding_blobs_.end()) {
    SLUICE_LOG_GUEST(warn, "the worker made a blob {} that nobody asked for", id);
    return;
  }
  const uint64_t request = asked->request;
  outstanding_blobs_.erase(asked);
  if (request == 0) return;  // abandoned; the worker was told to destroy it
  Resource* resource = resources_.Find(id);
  if (resource == nullptr || resource->create_request != request || resource->state != HostBlobState::kPending) return;

  if (message.status() != wire::BlobStatus::Ok) {
    resource->channel = 0;  // the worker has nothing to destroy
    AbandonBlob(id, FailureFor(message.status()));
    return;
  }
  const absl::Status adopted = AdoptBlob(resource, message, std::move(fds));
  if (!adopted.ok()) {
    SLUICE_LOG_GUEST(warn, "blob {} refused: {}", id, std::string(adopted.message()));
    AbandonBlob(id, absl::IsResourceExhausted(adopted) ? ResponseType::kErrOutOfMemory : ResponseType::kErrUnspec);
    return;
  }
  const std::optional<uint64_t> map = std::exchange(resource->map_request, std::nullopt);
  std::optional<Response> mapped;
  if (map.has_value()) mapped = MapNow(resource);
  Finish(request, Response{});
  if (map.has_value()) Finish(*map, *std::move(mapped));
}

void Control::OnFenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id) {
  std::vector<uint64_t> done;
  if (!timelines_.Signal(context, ring_idx, fence_id, &done)) {
    // Also what a fence looks like whose context was destroyed meanwhile: nothing to warn of.
    SLUICE_LOG_GUEST(debug, "no fence {} waits on ring {} of context {}", fence_id, ring_idx, context);
  }
  Complete(done);
}

void Control::OnContextLost(uint32_t context, uint32_t reason, absl::string_view message) {
  Context* lost = contexts_.Find(context);
  if (lost == nullptr || !lost->in_domain || lost->channel != channel_generation_) return;
  SLUICE_LOG_GUEST(warn, "context {} ({}) is lost, reason {}: {}", context, lost->name, reason,
                   std::string(message.substr(0, 200)));
  LoseContext(lost, KnownReason(reason), ResponseType::kErrUnspec);
}

void Control::OnClosed(const absl::Status& why) {
  SLUICE_LOG(warn, "GPU Domain gone: {}", std::string(why.message()));
  channel_.reset();
  capset_.clear();
  for (OutstandingBlob& blob : outstanding_blobs_) blob.request = 0;
  outstanding_blobs_.clear();
  SetDomainState(DomainState::kGone);
  std::vector<uint32_t> ids;
  contexts_.ForEach([&](const Context& context) {
    if (context.in_domain) ids.push_back(context.id);
  });
  for (const uint32_t id : ids) {
    if (Context* context = contexts_.Find(id)) {
      LoseContext(context, wire::LostReason::kWorkerGone, ResponseType::kErrUnspec);
    }
  }
  // Rings of contexts that the guest has destroyed, or that were lost before, keep their first reason.
  resources_.ForEach([](const Resource& resource) {
    if (resource.kind == ResourceKind::kHostBlob && resource.state == HostBlobState::kRing) {
      SetRingStatus(*resource.memory, wire::LostReason::kWorkerGone);
    }
  });
  AnswerCapsetRequests();
  // Last: it may connect the next domain.
  if (options_.on_domain_state) options_.on_domain_state(DomainState::kGone, why);
}

// One timer watches the hello and the oldest blob that somebody waits for. It runs only while there is something to
// watch.
void Control::WatchDomain() {
  if (watching_ || !ChannelOpen()) return;
  std::optional<Clock::time_point> first;
  if (domain_state_ == DomainState::kWaiting) first = hello_sent_ + HelloTimeout();
  for (const OutstandingBlob& blob : outstanding_blobs_) {
    if (blob.request == 0) continue;
    if (!first.has_value() || blob.since + Timeout() < *first) first = blob.since + Timeout();
    break;  // they are in the order of asking
  }
  if (!first.has_value()) return;
  watching_ = true;
  watch_.expires_at(*first);
  watch_.async_wait([self = std::weak_ptr<Control*>(self_)](asio::error_code error) {
    const std::shared_ptr<Control*> control = self.lock();
    if (control == nullptr || error) return;
    (*control)->OnWatch();
  });
}

void Control::OnWatch() {
  watching_ = false;
  if (!ChannelOpen()) return;
  const Clock::time_point now = Clock::now(), limit = now - Timeout();
  if (domain_state_ == DomainState::kWaiting && hello_sent_ + HelloTimeout() <= now) {
    channel_->Close(absl::DeadlineExceededError("the worker does not say hello"));
    return;
  }
  for (const OutstandingBlob& blob : outstanding_blobs_) {
    if (blob.request != 0 && blob.since <= limit) {
      channel_->Close(absl::DeadlineExceededError("the worker does not answer for a blob"));
      return;
    }
  }
  WatchDomain();
}

}  // namespace sluice::gpu_front
