#include "icd/transport/connection.h"

#include <errno.h>

#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "flatbuf/schema_hash.h"
#include "icd/transport/log.h"

namespace sluice::icd {
namespace {

// A domain starts a worker and opens the GPU's driver before it answers; a machine may be busy.
constexpr uint64_t kHelloNs = 60'000'000'000;
// How long a blob may take: the worker may wait for memory of contexts that are just ending.
constexpr uint64_t kBlobNs = 60'000'000'000;
// A context's farewell, shown to people.
constexpr size_t kMaxLostMessage = 400;

uint64_t FenceKey(uint32_t context, uint32_t timeline) {
  return uint64_t{context} << 8 | timeline;
}

template <typename T>
void FinishMessage(flatbuffers::FlatBufferBuilder& fbb, flatbuffers::Offset<T> body) {
  fbb.Finish(wire::CreateDomainMessage(fbb, wire::ToDomainTraits<T>::enum_value, body.Union()));
}

}  // namespace

std::shared_ptr<Connection> Connection::Open(const char* path, std::string* why) {
  Fd socket;
  if (const int error = ConnectUnix(path, &socket); error != 0) {
    *why = std::string("cannot connect to ") + path + ": " + strerror(error);
    return nullptr;
  }
  return Greet(std::move(socket), why);
}

std::shared_ptr<Connection> Connection::Greet(Fd socket, std::string* why) {
  std::shared_ptr<Connection> connection(new Connection(std::move(socket)));
  connection->buffer_ = std::make_unique<uint8_t[]>(kMaxMessage);
  flatbuffers::FlatBufferBuilder fbb(256);
  FinishMessage(fbb, wire::CreateHelloDirect(fbb, wire::kProtocolVersion, wire::kSchemaHash,
                                             program_invocation_short_name, "linux"));
  if (!connection->Send(fbb) || !connection->WaitUntil([&] { return connection->greeted_; }, kHelloNs)) {
    *why = "the domain does not answer";
    return nullptr;
  }
  const wire::Capset& capset = connection->capset_;
  if (capset.magic != wire::kCapsetMagic || capset.protocol_version != wire::kProtocolVersion ||
      capset.schema_hash != wire::kSchemaHash) {
    *why = "the domain speaks another version of the protocol than this driver";
    return nullptr;
  }
  if (capset.min_ring_bytes > capset.max_ring_bytes || capset.max_contexts == 0) {
    *why = "the domain's limits make no sense";
    return nullptr;
  }
  return connection;
}

void Connection::Die(const char* why) {
  if (!alive_.load(std::memory_order_relaxed)) return;
  Log("the connection to the domain ended: %s", why);
  alive_.store(false, std::memory_order_release);
  blobs_.clear();
}

bool Connection::Send(flatbuffers::FlatBufferBuilder& fbb) {
  if (!alive()) return false;
  const int error = SendMessage(socket_.get(), fbb.GetBufferPointer(), fbb.GetSize());
  if (error == 0) return true;
  std::lock_guard guard(lock_);
  Drain();  // what it said before it went
  Die(strerror(error));
  return false;
}

bool Connection::SendContextCreate(uint32_t context, const char* name) {
  {
    std::lock_guard guard(lock_);
    contexts_.try_emplace(context);
  }
  flatbuffers::FlatBufferBuilder fbb(256);
  FinishMessage(fbb, wire::CreateContextCreateDirect(fbb, context, name));
  return Send(fbb);
}

bool Connection::SendContextDestroy(uint32_t context) {
  flatbuffers::FlatBufferBuilder fbb(128);
  FinishMessage(fbb, wire::CreateContextDestroy(fbb, context));
  return Send(fbb);
}

bool Connection::SendBlobCreate(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t size) {
  {
    std::lock_guard guard(lock_);
    blobs_.try_emplace(resource);
  }
  flatbuffers::FlatBufferBuilder fbb(128);
  FinishMessage(fbb, wire::CreateBlobCreate(fbb, context, resource, blob_id, size));
  return Send(fbb);
}

bool Connection::SendBlobDestroy(uint32_t resource) {
  flatbuffers::FlatBufferBuilder fbb(128);
  FinishMessage(fbb, wire::CreateBlobDestroy(fbb, resource));
  return Send(fbb);
}

BlobAnswer Connection::TakeBlob(uint32_t resource, wire::BlobBacking backing) {
  BlobAnswer answer;
  WaitUntil(
      [&] {
        const auto it = blobs_.find(resource);
        if (it == blobs_.end()) return true;
        if (!it->second.answered) return false;
        answer = std::move(it->second.answer);
        if (it->second.backing != backing) answer = BlobAnswer{};
        blobs_.erase(it);
        return true;
      },
      kBlobNs);
  return answer;
}

uint64_t Connection::SendFence(uint32_t context, uint32_t timeline, uint64_t position) {
  uint64_t fence;
  {
    std::lock_guard guard(lock_);
    fence = next_fence_++;
    fences_.try_emplace(FenceKey(context, timeline), 0);
  }
  const wire::SubmitCommand command{wire::kSubmitKick, 0, position};
  uint8_t payload[sizeof(command)];
  memcpy(payload, &command, sizeof(command));
  flatbuffers::FlatBufferBuilder fbb(256);
  const auto bytes = fbb.CreateVector(payload, sizeof(payload));
  FinishMessage(fbb, wire::CreateSubmit(fbb, context, static_cast<uint8_t>(timeline), true, fence, bytes));
  return Send(fbb) ? fence : 0;
}

bool Connection::WaitFence(uint32_t context, uint32_t timeline, uint64_t fence, uint64_t timeout_ns) {
  return WaitUntil(
             [&] {
               const auto it = fences_.find(FenceKey(context, timeline));
               return it != fences_.end() && it->second >= fence;
             },
             timeout_ns) ||
         !alive();
}

void Connection::ForgetContext(uint32_t context) {
  std::lock_guard guard(lock_);
  fences_.erase(fences_.lower_bound(FenceKey(context, 0)), fences_.lower_bound(FenceKey(context, 0) + 256));
  contexts_.erase(context);
}

bool Connection::Poll() {
  std::lock_guard guard(lock_);
  if (!reading_) Drain();
  return alive();
}

template <typename F>
bool Connection::WaitUntil(F done, uint64_t timeout_ns) {
  const uint64_t start = MonotonicNs();
  std::unique_lock guard(lock_);
  for (;;) {
    if (!reading_) Drain();
    if (done()) return true;
    if (!alive()) return false;
    const uint64_t waited = MonotonicNs() - start;
    if (waited >= timeout_ns) return false;
    if (reading_) {
      const uint32_t seen = handled_.load(std::memory_order_relaxed);
      sleepers_++;
      guard.unlock();
      FutexWait(handled_, seen, timeout_ns - waited, false);
      guard.lock();
      sleepers_--;
      continue;
    }
    reading_ = true;
    guard.unlock();
    WaitReadable(socket_.get(), timeout_ns - waited);
    guard.lock();
    reading_ = false;
    Drain();
    handled_.fetch_add(1, std::memory_order_relaxed);
    if (sleepers_ > 0) FutexWake(handled_, INT_MAX, false);
  }
}

std::string Connection::AwaitLostMessage(uint32_t context, uint64_t timeout_ns) {
  std::string message;
  WaitUntil(
      [&] {
        const auto it = contexts_.find(context);
        if (it != contexts_.end()) message = it->second;
        return !message.empty();
      },
      timeout_ns);
  return message;
}

void Connection::Drain() {
  while (alive()) {
    Message message;
    const int error = ReceiveMessage(socket_.get(), buffer_.get(), kMaxMessage, &message);
    if (error == EAGAIN) return;
    if (error != 0) return Die(error == ECONNRESET ? "closed by the domain" : strerror(error));
    Handle(message, buffer_.get());
  }
}

void Connection::Handle(Message& message, const uint8_t* bytes) {
  flatbuffers::Verifier verifier(bytes, message.size, /*max_depth=*/8, /*max_tables=*/16);
  if (!verifier.VerifyBuffer<wire::FrontendMessage>(nullptr)) return Die("a packet that is no FrontendMessage");
  const auto* body = flatbuffers::GetRoot<wire::FrontendMessage>(bytes);
  if (!greeted_ && body->body_type() != wire::ToFrontend::HelloReply) return Die("no HelloReply first");
  switch (body->body_type()) {
    case wire::ToFrontend::HelloReply:
      return OnHello(*body->body_as_HelloReply());
    case wire::ToFrontend::BlobCreated: {
      const wire::BlobCreated& created = *body->body_as_BlobCreated();
      const auto it = blobs_.find(created.resource());
      if (it == blobs_.end() || it->second.answered) return Die("a blob that nobody asked for");
      const bool ok = created.status() == wire::BlobStatus::Ok;
      if (message.fd_count != (ok ? 1 : 0)) return Die("a blob without its descriptor");
      it->second.answered = true;
      it->second.backing = created.backing();
      it->second.answer.ok = ok;
      it->second.answer.size = created.size();
      if (ok) it->second.answer.fd = std::move(message.fds[0]);
      return;
    }
    case wire::ToFrontend::FenceSignaled: {
      const wire::FenceSignaled& fence = *body->body_as_FenceSignaled();
      if (fence.ring_idx() >= wire::kMaxTimelines || fence.fence_id() >= next_fence_) return Die("an unknown fence");
      if (fence.context() >= next_context_.load(std::memory_order_relaxed)) return Die("a fence of no context");
      const auto it = fences_.find(FenceKey(fence.context(), fence.ring_idx()));
      if (it != fences_.end() && fence.fence_id() > it->second) it->second = fence.fence_id();
      return;
    }
    case wire::ToFrontend::ContextLost: {
      const wire::ContextLost& lost = *body->body_as_ContextLost();
      if (lost.context() >= next_context_.load(std::memory_order_relaxed)) return Die("the loss of no context");
      std::string text = "reason " + std::to_string(lost.reason());
      if (lost.message() != nullptr) text = lost.message()->str().substr(0, kMaxLostMessage);
      Log("context %u is lost: %s", lost.context(), text.c_str());
      const auto it = contexts_.find(lost.context());
      if (it != contexts_.end()) it->second = std::move(text);
      return;
    }
    case wire::ToFrontend::NONE:
      break;
  }
  Die("a message of an unknown type");
}

void Connection::OnHello(const wire::HelloReply& hello) {
  if (greeted_) return Die("a second HelloReply");
  if (hello.capset() == nullptr || hello.capset()->size() != sizeof(capset_)) return Die("a capability set of no size");
  memcpy(&capset_, hello.capset()->data(), sizeof(capset_));
  capset_.os_type[sizeof(capset_.os_type) - 1] = 0;
  capset_.domain_name[sizeof(capset_.domain_name) - 1] = 0;
  capset_.device_name[sizeof(capset_.device_name) - 1] = 0;
  greeted_ = true;
}

void Connection::AbandonInChild() {
  alive_.store(false, std::memory_order_release);
  socket_.Reset();
  reading_ = false;
  sleepers_ = 0;
  blobs_.clear();
}

}  // namespace sluice::icd
