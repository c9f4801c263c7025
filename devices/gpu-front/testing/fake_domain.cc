#include "devices/gpu-front/testing/fake_domain.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "flatbuf/schema_hash.h"
#include "vmm/base/checked.h"
#include "vmm/base/seqpacket.h"

namespace sluice::gpu_front::testing {

wire::Capset MakeCapset() {
  wire::Capset capset{};
  capset.magic = wire::kCapsetMagic;
  capset.protocol_version = wire::kProtocolVersion;
  capset.schema_hash = wire::kSchemaHash;
  capset.memory_quota_bytes = 256 << 20;
  capset.max_contexts = 16;
  capset.max_rings = wire::kMaxRings;
  capset.min_ring_bytes = wire::kMinRingBytes;
  capset.max_ring_bytes = wire::kMaxRingBytes;
  std::strncpy(capset.os_type, "linux", sizeof(capset.os_type) - 1);
  return capset;
}

std::optional<wire::DomainMessageT> FakeDomain::Receive() {
  auto packet = ReceivePacket(socket_.get(), /*nonblocking=*/true);
  if (!packet.ok() || !packet->has_value()) return std::nullopt;
  const std::vector<uint8_t>& bytes = (*packet)->bytes;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!verifier.VerifyBuffer<wire::DomainMessage>(nullptr)) return std::nullopt;
  wire::DomainMessageT message;
  flatbuffers::GetRoot<wire::DomainMessage>(bytes.data())->UnPackTo(&message);
  return message;
}

bool FakeDomain::Say(const wire::FrontendMessageT& message, absl::Span<const int> fds) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::FrontendMessage::Pack(builder, &message));
  return SayBytes({builder.GetBufferPointer(), builder.GetSize()}, fds);
}

bool FakeDomain::SayBytes(absl::Span<const uint8_t> bytes, absl::Span<const int> fds) {
  return SendPacket(socket_.get(), bytes, fds, /*nonblocking=*/true).ok();
}

bool FakeDomain::SayHello() {
  const wire::Capset capset = MakeCapset();
  std::vector<uint8_t> bytes(sizeof(capset));
  std::memcpy(bytes.data(), &capset, sizeof(capset));
  return SayHello(wire::kProtocolVersion, wire::kSchemaHash, bytes);
}

bool FakeDomain::SayHello(uint32_t protocol_version, uint64_t schema_hash, absl::Span<const uint8_t> capset) {
  wire::HelloReplyT reply;
  reply.protocol_version = protocol_version;
  reply.schema_hash = schema_hash;
  reply.capset.assign(capset.begin(), capset.end());
  wire::FrontendMessageT message;
  message.body.Set(std::move(reply));
  return Say(message);
}

bool FakeDomain::SayBlobCreated(uint32_t resource, wire::BlobBacking backing, uint64_t size,
                                absl::Span<const int> fds) {
  wire::BlobCreatedT created;
  created.resource = resource;
  created.status = wire::BlobStatus::Ok;
  created.backing = backing;
  created.size = size;
  wire::FrontendMessageT message;
  message.body.Set(std::move(created));
  return Say(message, fds);
}

bool FakeDomain::SayBlobFailed(uint32_t resource, wire::BlobStatus status) {
  wire::BlobCreatedT created;
  created.resource = resource;
  created.status = status;
  wire::FrontendMessageT message;
  message.body.Set(std::move(created));
  return Say(message);
}

bool FakeDomain::SayFenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id) {
  wire::FenceSignaledT signaled;
  signaled.context = context;
  signaled.ring_idx = ring_idx;
  signaled.fence_id = fence_id;
  wire::FrontendMessageT message;
  message.body.Set(std::move(signaled));
  return Say(message);
}

bool FakeDomain::SayContextLost(uint32_t context, wire::LostReason reason) {
  wire::ContextLostT lost;
  lost.context = context;
  lost.reason = static_cast<uint32_t>(reason);
  lost.message = "because the test says so";
  wire::FrontendMessageT message;
  message.body.Set(std::move(lost));
  return Say(message);
}

void FakeWindow::Check(uint64_t offset, uint64_t bytes) {
  if (offset % kPageSize != 0 || bytes % kPageSize != 0 || bytes == 0 || !RangeFits(offset, bytes, size_)) {
    violation_ = absl::StrCat("bad range ", offset, "+", bytes);
  }
  for (const auto& [start, mapping] : mappings_) {
    if (offset < start + mapping->size() && start < offset + bytes) violation_ = absl::StrCat("overlap at ", offset);
  }
  for (const auto& [start, fd] : doorbells_) {
    if (offset < start + kPageSize && start < offset + bytes) violation_ = absl::StrCat("overlap at ", offset);
  }
}

absl::Status FakeWindow::Map(uint64_t offset, std::shared_ptr<const Mapping> mapping) {
  if (!refusal_.ok()) return refusal_;
  Check(offset, mapping->size());
  mappings_[offset] = std::move(mapping);
  return absl::OkStatus();
}

absl::Status FakeWindow::MapDoorbell(uint64_t offset, int event_fd) {
  if (!refusal_.ok()) return refusal_;
  Check(offset, kPageSize);
  doorbells_[offset] = event_fd;
  return absl::OkStatus();
}

void FakeWindow::Unmap(uint64_t offset) {
  if (mappings_.erase(offset) + doorbells_.erase(offset) != 1)
    violation_ = absl::StrCat("nothing to unmap at ", offset);
}

const Mapping* FakeWindow::at(uint64_t offset) const {
  const auto it = mappings_.find(offset);
  return it == mappings_.end() ? nullptr : it->second.get();
}

int FakeWindow::doorbell(uint64_t offset) const {
  const auto it = doorbells_.find(offset);
  return it == doorbells_.end() ? -1 : it->second;
}

}  // namespace sluice::gpu_front::testing
