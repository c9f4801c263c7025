#include "gpu-domain/worker/outbox.h"

#include <cstring>

#include "absl/types/span.h"
#include "flatbuf/channel_generated.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"

namespace sluice::worker {
namespace {

template <typename T>
void Finish(flatbuffers::FlatBufferBuilder& fbb, flatbuffers::Offset<T> body) {
  fbb.Finish(wire::CreateFrontendMessage(fbb, wire::ToFrontendTraits<T>::enum_value, body.Union()));
}

wire::BlobStatus Status(BlobAnswer answer) {
  switch (answer) {
    case BlobAnswer::kOk:
      return wire::BlobStatus::Ok;
    case BlobAnswer::kBadRequest:
      return wire::BlobStatus::BadRequest;
    case BlobAnswer::kOutOfMemory:
      return wire::BlobStatus::OutOfMemory;
    case BlobAnswer::kNoContext:
      return wire::BlobStatus::NoContext;
  }
  return wire::BlobStatus::BadRequest;
}

wire::BlobBacking Backing(wire::BlobKind kind) {
  switch (kind) {
    case wire::BlobKind::kRing:
      return wire::BlobBacking::Ring;
    case wire::BlobKind::kDoorbell:
      return wire::BlobBacking::Doorbell;
    case wire::BlobKind::kMemory:
      return wire::BlobBacking::Memory;
  }
  return wire::BlobBacking::Memory;
}

}  // namespace

void Outbox::HelloReply(const wire::Capset& capset) {
  flatbuffers::FlatBufferBuilder fbb(512);
  std::vector<uint8_t> bytes(sizeof(capset));
  std::memcpy(bytes.data(), &capset, sizeof(capset));
  const auto payload = fbb.CreateVector(bytes);
  Finish(fbb, wire::CreateHelloReply(fbb, capset.protocol_version, capset.schema_hash, payload));
  Send(fbb.GetBufferPointer(), fbb.GetSize(), UniqueFd());
}

void Outbox::BlobCreated(uint32_t resource, BlobAnswer answer, wire::BlobKind kind, uint64_t size, UniqueFd fd) {
  flatbuffers::FlatBufferBuilder fbb(128);
  Finish(fbb, wire::CreateBlobCreated(fbb, resource, Status(answer), Backing(kind), size));
  Send(fbb.GetBufferPointer(), fbb.GetSize(), std::move(fd));
}

void Outbox::FenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id) {
  flatbuffers::FlatBufferBuilder fbb(128);
  Finish(fbb, wire::CreateFenceSignaled(fbb, context, ring_idx, fence_id));
  Send(fbb.GetBufferPointer(), fbb.GetSize(), UniqueFd());
}

void Outbox::ContextLost(uint32_t context, wire::LostReason reason, absl::string_view message) {
  flatbuffers::FlatBufferBuilder fbb(512);
  const absl::string_view part = message.substr(0, 1024);
  const auto text = fbb.CreateString(part.data(), part.size());
  Finish(fbb, wire::CreateContextLost(fbb, context, static_cast<uint32_t>(reason), text));
  Send(fbb.GetBufferPointer(), fbb.GetSize(), UniqueFd());
}

absl::Status Outbox::SendNow(const uint8_t* bytes, size_t size, const UniqueFd& fd) {
  std::vector<int> fds;
  if (fd.valid()) fds.push_back(fd.get());
  return SendPacket(socket_, absl::MakeConstSpan(bytes, size), fds, /*nonblocking=*/true);
}

void Outbox::Send(const uint8_t* bytes, size_t size, UniqueFd fd) {
  MutexLock lock(&mu_);
  if (broken_) return;
  if (waiting_.empty()) {
    const absl::Status status = SendNow(bytes, size, fd);
    if (status.ok()) return;
    if (!absl::IsResourceExhausted(status)) {
      if (!absl::IsUnavailable(status)) SLUICE_LOG(warn, "channel: {}", std::string(status.message()));
      broken_ = true;
      return;
    }
  }
  waiting_.push_back(Waiting{std::vector<uint8_t>(bytes, bytes + size), std::move(fd)});
  if (waiting_.size() == 1) want_write_();
}

bool Outbox::Flush() {
  MutexLock lock(&mu_);
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    const absl::Status status = SendNow(next.bytes.data(), next.bytes.size(), next.fd);
    if (absl::IsResourceExhausted(status)) return false;
    if (!status.ok()) {
      broken_ = true;
      waiting_.clear();
      return true;
    }
    waiting_.pop_front();
  }
  return true;
}

bool Outbox::Full() const {
  MutexLock lock(&mu_);
  return waiting_.size() >= kHighWater;
}

bool Outbox::broken() const {
  MutexLock lock(&mu_);
  return broken_;
}

}  // namespace sluice::worker
