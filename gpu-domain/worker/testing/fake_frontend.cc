#include "gpu-domain/worker/testing/fake_frontend.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "flatbuf/schema_hash.h"
#include "vmm/base/checked.h"
#include "vmm/base/futex.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker::testing {

void FakeFrontend::Send(flatbuffers::FlatBufferBuilder& fbb) {
  (void)SendRaw(absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize()));
}

absl::Status FakeFrontend::SendRaw(absl::Span<const uint8_t> bytes) {
  return SendPacket(socket_.get(), bytes, {});
}

absl::Status FakeFrontend::Receive(absl::Duration timeout) {
  pollfd poll_fd{socket_.get(), POLLIN, 0};
  const int ready = poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  if (ready <= 0) return absl::DeadlineExceededError("no message from the worker");
  SLUICE_ASSIGN_OR_RETURN(std::optional<Packet> packet, ReceivePacket(socket_.get()));
  if (!packet.has_value()) return absl::UnavailableError("the worker closed the channel");
  flatbuffers::Verifier verifier(packet->bytes.data(), packet->bytes.size());
  if (!verifier.VerifyBuffer<wire::FrontendMessage>(nullptr)) return absl::InternalError("bad message");
  const auto* message = flatbuffers::GetRoot<wire::FrontendMessage>(packet->bytes.data());
  if (const auto* hello = message->body_as_HelloReply(); hello != nullptr) {
    wire::Capset capset{};
    if (hello->capset() == nullptr || hello->capset()->size() != sizeof(capset)) return absl::InternalError("capset");
    std::memcpy(&capset, hello->capset()->data(), sizeof(capset));
    capset_ = capset;
  } else if (const auto* blob = message->body_as_BlobCreated(); blob != nullptr) {
    FrontendBlob answer;
    answer.status = blob->status();
    answer.backing = blob->backing();
    answer.size = blob->size();
    if (packet->fds.size() == 1) answer.fd = std::move(packet->fds[0]);
    answers_[blob->resource()] = std::move(answer);
  } else if (const auto* fence = message->body_as_FenceSignaled(); fence != nullptr) {
    fences_.insert({fence->context(), fence->fence_id()});
  } else if (const auto* lost = message->body_as_ContextLost(); lost != nullptr) {
    lost_.emplace(lost->context(), static_cast<wire::LostReason>(lost->reason()));
  }
  return absl::OkStatus();
}

absl::StatusOr<wire::Capset> FakeFrontend::Hello(const std::string& os, uint32_t version, uint64_t schema_hash) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto hello = wire::CreateHelloDirect(fbb, version, schema_hash, "test", os.c_str());
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::Hello, hello.Union()));
  Send(fbb);
  while (!capset_.has_value()) SLUICE_RETURN_IF_ERROR(Receive(kPatience));
  return *capset_;
}

absl::StatusOr<wire::Capset> FakeFrontend::Hello(const std::string& os) {
  return Hello(os, wire::kProtocolVersion, wire::kSchemaHash);
}

void FakeFrontend::CreateContext(uint32_t context) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto body = wire::CreateContextCreateDirect(fbb, context, "test");
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::ContextCreate, body.Union()));
  Send(fbb);
}

void FakeFrontend::DestroyContext(uint32_t context) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto body = wire::CreateContextDestroy(fbb, context);
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::ContextDestroy, body.Union()));
  Send(fbb);
  lost_.erase(context);
}

absl::StatusOr<FrontendBlob> FakeFrontend::CreateBlob(uint32_t context, uint32_t resource, uint64_t blob_id,
                                                      uint64_t size) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto body = wire::CreateBlobCreate(fbb, context, resource, blob_id, size);
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::BlobCreate, body.Union()));
  Send(fbb);
  while (answers_.count(resource) == 0) SLUICE_RETURN_IF_ERROR(Receive(kPatience));
  FrontendBlob blob = std::move(answers_[resource]);
  answers_.erase(resource);
  if (blob.status == wire::BlobStatus::Ok && blob.backing != wire::BlobBacking::Doorbell) {
    SLUICE_ASSIGN_OR_RETURN(blob.mapping, Mapping::MapShared(blob.fd.get(), 0, blob.size, Mapping::kReadWrite));
  }
  return blob;
}

void FakeFrontend::DestroyBlob(uint32_t resource) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto body = wire::CreateBlobDestroy(fbb, resource);
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::BlobDestroy, body.Union()));
  Send(fbb);
}

void FakeFrontend::Submit(uint32_t context, absl::Span<const uint8_t> payload, std::optional<uint64_t> fence_id,
                          uint8_t ring_idx) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto bytes = fbb.CreateVector(payload.data(), payload.size());
  const auto body = wire::CreateSubmit(fbb, context, ring_idx, fence_id.has_value(), fence_id.value_or(0), bytes);
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomain::Submit, body.Union()));
  Send(fbb);
}

uint64_t FakeFrontend::Fence(uint32_t context, uint32_t ring, uint64_t position, uint8_t ring_idx) {
  const wire::SubmitCommand command{wire::kSubmitKick, ring, position};
  std::vector<uint8_t> payload(sizeof(command));
  std::memcpy(payload.data(), &command, sizeof(command));
  const uint64_t id = next_fence_++;
  Submit(context, payload, id, ring_idx);
  return id;
}

absl::Status FakeFrontend::WaitFence(uint32_t context, uint64_t fence_id, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!Signaled(context, fence_id)) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("fence");
    SLUICE_RETURN_IF_ERROR(Receive(left));
  }
  return absl::OkStatus();
}

std::optional<wire::LostReason> FakeFrontend::Lost(uint32_t context) const {
  const auto it = lost_.find(context);
  if (it == lost_.end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<wire::LostReason> FakeFrontend::WaitLost(uint32_t context, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!Lost(context).has_value()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("ContextLost");
    SLUICE_RETURN_IF_ERROR(Receive(left));
  }
  return *Lost(context);
}

bool FakeFrontend::Closed() const {
  pollfd poll_fd{socket_.get(), POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP)) != 0;
}

bool FakeFrontend::WaitClosed(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    const absl::Status status = Receive(left);
    if (absl::IsUnavailable(status)) return true;
    if (!status.ok()) return false;
  }
}

absl::StatusOr<std::unique_ptr<GuestPlatform>> GuestPlatform::Create(FakeFrontend* frontend, uint32_t context,
                                                                     uint64_t ring_bytes) {
  std::unique_ptr<GuestPlatform> platform(new GuestPlatform(frontend, context));
  SLUICE_ASSIGN_OR_RETURN(FrontendBlob doorbell,
                          frontend->CreateBlob(context, frontend->NewResource(),
                                               wire::MakeBlobId(wire::BlobKind::kDoorbell, 0), kPageSize));
  SLUICE_ASSIGN_OR_RETURN(
      platform->ring_,
      frontend->CreateBlob(context, frontend->NewResource(), wire::MakeBlobId(wire::BlobKind::kRing, 0), ring_bytes));
  if (!doorbell.fd.valid() || !platform->ring_.mapping.valid()) return absl::InternalError("no ring or doorbell");
  platform->doorbell_ = std::move(doorbell.fd);
  if (!platform->channel_.Init(platform->ring_.mapping.data(), platform->ring_.size, platform.get())) {
    return absl::InternalError("the ring is of another protocol");
  }
  guest::SetChannel(&platform->channel_);
  return platform;
}

GuestPlatform::~GuestPlatform() {
  if (guest::CurrentChannel() == &channel_) guest::SetChannel(nullptr);
}

wire::RingHeader& GuestPlatform::header() {
  return *reinterpret_cast<wire::RingHeader*>(ring_.mapping.data());
}

void GuestPlatform::RingDoorbell() {
  doorbells_++;
  SignalEventFd(doorbell_.get());
}

void GuestPlatform::Await(uint64_t fence_id, absl::Duration timeout) {
  const absl::Status status = frontend_->WaitFence(context_, fence_id, timeout);
  // As the device does when its worker is gone.
  if (absl::IsUnavailable(status)) header().status.store(static_cast<uint32_t>(wire::LostReason::kWorkerGone));
}

void GuestPlatform::WaitForPosition(uint64_t position) {
  Await(frontend_->Fence(context_, 0, position, 0), absl::Seconds(1));
}

void GuestPlatform::WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) {
  const absl::Duration most = std::min(absl::Nanoseconds(static_cast<int64_t>(timeout_ns >> 1)), absl::Seconds(1));
  Await(frontend_->Fence(context_, 0, position, static_cast<uint8_t>(timeline)), most);
}

void GuestPlatform::SleepOn(std::atomic<uint32_t>* word, uint32_t seen, const guest::Awaited& awaited) {
  const auto most = static_cast<int64_t>(std::min<uint64_t>(awaited.timeout_ns, uint64_t{50'000'000}));
  FutexWait(word, seen, absl::Nanoseconds(most));
  // As the device does when its worker is gone.
  if (frontend_->Closed()) header().status.store(static_cast<uint32_t>(wire::LostReason::kWorkerGone));
}

void GuestPlatform::WakeSleepers(std::atomic<uint32_t>* word) {
  FutexWakeAll(word);
}

void GuestPlatform::Lock() {
  mu_.lock();
}

void GuestPlatform::Unlock() {
  mu_.unlock();
}

bool GuestPlatform::AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) {
  const uint32_t resource = frontend_->NewResource();
  absl::StatusOr<FrontendBlob> blob =
      frontend_->CreateBlob(context_, resource, wire::MakeBlobId(wire::BlobKind::kMemory, resource), size);
  if (!blob.ok() || blob->status != wire::BlobStatus::Ok) return false;
  *out = guest::SharedMemory{resource, blob->mapping.data(), blob->size};
  memory_[resource] = *std::move(blob);
  return true;
}

void GuestPlatform::FreeSharedMemory(const guest::SharedMemory& memory) {
  frontend_->DestroyBlob(memory.resource_id);
  memory_.erase(memory.resource_id);
}

void GuestPlatform::Yield() {
  sched_yield();
}

uint64_t GuestPlatform::NowNs() {
  return static_cast<uint64_t>(absl::GetCurrentTimeNanos());
}

}  // namespace sluice::worker::testing
