#include "devices/gpu-front/channel.h"

#include <flatbuffers/flatbuffers.h>

#include <asio/post.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/wire.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {
namespace {

// Packets taken in one go before the loop serves others again.
constexpr int kPacketsPerWake = 64;
// Tight bounds for the verifier: our messages are a table in a table.
constexpr size_t kVerifierDepth = 8;
constexpr size_t kVerifierTables = 16;

template <typename Offset>
absl::Span<const uint8_t> Finish(flatbuffers::FlatBufferBuilder& builder, wire::ToDomain type, Offset body) {
  builder.Finish(wire::CreateDomainMessage(builder, type, body.Union()));
  return {builder.GetBufferPointer(), builder.GetSize()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> Channel::Create(asio::io_context& loop, UniqueFd socket,
                                                         const ChannelIdentity& identity, ChannelHandler* handler) {
  auto state = std::make_shared<State>(loop, handler);
  asio::error_code error;
  state->descriptor.assign(socket.get(), error);
  if (error) return absl::InternalError(absl::StrCat("service channel: ", error.message()));
  socket.Release();  // now the descriptor's
  auto channel = std::unique_ptr<Channel>(new Channel(state));
  flatbuffers::FlatBufferBuilder builder;
  const auto hello = wire::CreateHelloDirect(builder, wire::kProtocolVersion, wire::kSchemaHash,
                                             identity.frontend.c_str(), identity.os.c_str());
  SLUICE_RETURN_IF_ERROR(
      Annotate(channel->Send(Finish(builder, wire::ToDomain::Hello, hello), true), "service channel"));
  state->ArmRead();
  return channel;
}

Channel::~Channel() {
  state_->handler = nullptr;
  state_->Shutdown(absl::OkStatus());
}

void Channel::Close(const absl::Status& why) {
  state_->Shutdown(why);
}

absl::Status Channel::Send(absl::Span<const uint8_t> bytes, bool bounded) {
  State& s = *state_;
  if (!s.open) return absl::UnavailableError("the service channel is closed");
  if (bounded && s.OverBound(bytes.size())) return absl::ResourceExhaustedError("the service channel is full");
  if (s.queue.empty()) {
    absl::Status sent = SendPacket(s.descriptor.native_handle(), bytes, {}, /*nonblocking=*/true);
    if (sent.ok()) return sent;
    if (!absl::IsResourceExhausted(sent)) {
      s.Shutdown(sent);
      return absl::UnavailableError(sent.message());
    }
  }
  s.queue.emplace_back(bytes.begin(), bytes.end());
  s.queued_bytes += bytes.size();
  s.ArmWrite();
  return absl::OkStatus();
}

absl::Status Channel::SendContextCreate(uint32_t context, absl::string_view name) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(name.data(), name.size());
  return Send(Finish(builder, wire::ToDomain::ContextCreate, wire::CreateContextCreate(builder, context, text)), true);
}

absl::Status Channel::SendBlobCreate(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t size) {
  flatbuffers::FlatBufferBuilder builder;
  return Send(
      Finish(builder, wire::ToDomain::BlobCreate, wire::CreateBlobCreate(builder, context, resource, blob_id, size)),
      true);
}

absl::Status Channel::SendSubmit(uint32_t context, uint8_t ring_idx, bool fenced, uint64_t fence_id,
                                 absl::Span<const uint8_t> payload) {
  flatbuffers::FlatBufferBuilder builder(payload.size() + 256);
  const auto bytes = builder.CreateVector(payload.data(), payload.size());
  return Send(
      Finish(builder, wire::ToDomain::Submit, wire::CreateSubmit(builder, context, ring_idx, fenced, fence_id, bytes)),
      true);
}

void Channel::SendContextDestroy(uint32_t context) {
  flatbuffers::FlatBufferBuilder builder;
  const auto bytes = Finish(builder, wire::ToDomain::ContextDestroy, wire::CreateContextDestroy(builder, context));
  Send(bytes, false).IgnoreError();
}

void Channel::SendBlobDestroy(uint32_t resource) {
  flatbuffers::FlatBufferBuilder builder;
  const auto bytes = Finish(builder, wire::ToDomain::BlobDestroy, wire::CreateBlobDestroy(builder, resource));
  Send(bytes, false).IgnoreError();
}

bool Channel::State::OverBound(size_t bytes) const {
  return queue.size() >= kMaxQueuedMessages || bytes > kMaxQueuedBytes || queued_bytes > kMaxQueuedBytes - bytes;
}

void Channel::State::ArmRead() {
  descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!self->open) return;
    if (error) {
      self->Shutdown(absl::UnavailableError(error.message()));
      return;
    }
    self->ReadSome();
    if (self->open) self->ArmRead();
  });
}

void Channel::State::ArmWrite() {
  if (writing) return;
  writing = true;
  descriptor.async_wait(asio::posix::stream_descriptor::wait_write,
                        [self = shared_from_this()](asio::error_code error) {
                          self->writing = false;
                          if (!self->open) return;
                          if (error) {
                            self->Shutdown(absl::UnavailableError(error.message()));
                            return;
                          }
                          self->Flush();
                        });
}

void Channel::State::Flush() {
  while (!queue.empty()) {
    const absl::Status sent = SendPacket(descriptor.native_handle(), queue.front(), {}, /*nonblocking=*/true);
    if (absl::IsResourceExhausted(sent)) {
      ArmWrite();
      return;
    }
    if (!sent.ok()) {
      Shutdown(sent);
      return;
    }
    queued_bytes -= queue.front().size();
    queue.pop_front();
  }
}

void Channel::State::ReadSome() {
  for (int i = 0; i < kPacketsPerWake && open; ++i) {
    absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(descriptor.native_handle(), /*nonblocking=*/true);
    if (!packet.ok()) {
      if (absl::IsResourceExhausted(packet.status())) return;
      Shutdown(packet.status());
      return;
    }
    if (!packet->has_value()) {
      Shutdown(absl::UnavailableError("the GPU Domain's worker is gone"));
      return;
    }
    const absl::Status handled = Dispatch(*std::move(*packet));
    if (!handled.ok()) {
      Shutdown(handled);
      return;
    }
  }
}

absl::Status Channel::State::Dispatch(Packet packet) {
  flatbuffers::Verifier verifier(packet.bytes.data(), packet.bytes.size(), kVerifierDepth, kVerifierTables);
  if (packet.bytes.size() < 8 || !verifier.VerifyBuffer<wire::FrontendMessage>(nullptr)) {
    return absl::InvalidArgumentError("the worker sent a message that does not verify");
  }
  const auto* message = flatbuffers::GetRoot<wire::FrontendMessage>(packet.bytes.data());
  if (const wire::HelloReply* reply = message->body_as_HelloReply()) {
    if (hello) return absl::InvalidArgumentError("the worker said hello twice");
    if (reply->protocol_version() != wire::kProtocolVersion || reply->schema_hash() != wire::kSchemaHash) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "the worker speaks protocol %d, schema %016x; this VM process speaks protocol %d, schema %016x: "
          "use sluice and sluice-domain of one build",
          reply->protocol_version(), reply->schema_hash(), wire::kProtocolVersion, wire::kSchemaHash));
    }
    hello = true;
    absl::Span<const uint8_t> capset;
    if (reply->capset() != nullptr) capset = {reply->capset()->data(), reply->capset()->size()};
    handler->OnHello(capset);
    return absl::OkStatus();
  }
  if (!hello) return absl::InvalidArgumentError("the worker spoke before its hello");
  if (const wire::BlobCreated* created = message->body_as_BlobCreated()) {
    handler->OnBlobCreated(*created, std::move(packet.fds));
  } else if (const wire::FenceSignaled* signaled = message->body_as_FenceSignaled()) {
    handler->OnFenceSignaled(signaled->context(), signaled->ring_idx(), signaled->fence_id());
  } else if (const wire::ContextLost* lost = message->body_as_ContextLost()) {
    const absl::string_view text = lost->message() == nullptr ? "" : absl::string_view(lost->message()->c_str());
    handler->OnContextLost(lost->context(), lost->reason(), text);
  } else {
    return absl::InvalidArgumentError("the worker sent an unknown message");
  }
  return absl::OkStatus();
}

void Channel::State::Shutdown(const absl::Status& why) {
  if (!open) return;
  open = false;
  queue.clear();
  queued_bytes = 0;
  asio::error_code ignored;
  descriptor.close(ignored);
  // Later, from the loop: whoever called may be in the middle of something.
  asio::post(*loop, [self = shared_from_this(), why] {
    if (self->handler != nullptr) self->handler->OnClosed(why);
  });
}

}  // namespace sluice::gpu_front
