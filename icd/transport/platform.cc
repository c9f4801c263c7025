#include "icd/transport/platform.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace sluice::icd {
namespace {

// How long one wait may sleep before the runtime looks at the context's status again.
constexpr uint64_t kLookAgainNs = 1'000'000'000;
// The same for a sleep on a word of the ring, which a dead domain does not end.
constexpr uint64_t kLookAtSocketNs = 50'000'000;
constexpr uint64_t kPage = 4096;
// How long a lost context's reason may take: it comes by the socket, right behind the loss itself.
constexpr uint64_t kFarewellNs = 500'000'000;

}  // namespace

std::unique_ptr<SocketPlatform> SocketPlatform::Open(std::shared_ptr<Connection> connection, std::string* why) {
  const uint32_t context = connection->NewContext();
  std::unique_ptr<SocketPlatform> platform(new SocketPlatform(std::move(connection), context));
  if (!platform->Init(why)) return nullptr;
  return platform;
}

bool SocketPlatform::Init(std::string* why) {
  const wire::Capset& capset = connection_->capset();
  ring_bytes_ = std::clamp<uint64_t>(kRingBytes, capset.min_ring_bytes, capset.max_ring_bytes);
  const uint32_t ring = ring_resource_, doorbell = doorbell_resource_;
  // All three at once: one wait for the domain.
  if (!connection_->SendContextCreate(context_, program_invocation_short_name) ||
      !connection_->SendBlobCreate(context_, doorbell, wire::MakeBlobId(wire::BlobKind::kDoorbell, 0), kPage) ||
      !connection_->SendBlobCreate(context_, ring, wire::MakeBlobId(wire::BlobKind::kRing, 0), ring_bytes_)) {
    *why = "the domain is gone";
    return false;
  }
  BlobAnswer bell = connection_->TakeBlob(doorbell, wire::BlobBacking::Doorbell);
  const BlobAnswer blob = connection_->TakeBlob(ring, wire::BlobBacking::Ring);
  if (!bell.ok || !blob.ok) {
    const std::string said = connection_->LostMessage(context_);
    *why = "the domain refuses a context" + (said.empty() ? std::string() : ": " + said);
    return false;
  }
  if (!IsEventFd(bell.fd.get()) || blob.size < ring_bytes_) {
    *why = "the domain's doorbell or ring is none";
    return false;
  }
  doorbell_ = std::move(bell.fd);
  ring_ = MapSealed(blob.fd.get(), ring_bytes_);
  if (ring_ == nullptr || !channel_.Init(ring_, ring_bytes_, this)) {
    *why = "the domain's ring is none";
    return false;
  }
  return true;
}

SocketPlatform::~SocketPlatform() {
  connection_->SendContextDestroy(context_);
  connection_->ForgetContext(context_);
  // Resources live as long as they are named, not as long as their context.
  channel_.memory().Clear(channel_);
  connection_->SendBlobDestroy(ring_resource_);
  connection_->SendBlobDestroy(doorbell_resource_);
  Unmap(ring_, ring_bytes_);
}

std::string SocketPlatform::LostMessage() {
  if (!connection_->alive()) return "the domain is gone";
  return connection_->LostMessage(context_);
}

void SocketPlatform::AbandonInChild() {
  reported_.store(true);  // nothing is wrong with the parent's
  channel_.MarkLost();
  doorbell_.Reset();
}

void SocketPlatform::MarkGone() {
  uint32_t none = 0;
  header()->status.compare_exchange_strong(none, static_cast<uint32_t>(wire::LostReason::kWorkerGone));
}

void SocketPlatform::ReportLost() {
  if (reported_.load(std::memory_order_relaxed) || reported_.exchange(true)) return;
  LostListener* listener = listener_.load(std::memory_order_acquire);
  if (listener == nullptr) return;
  std::string reason = connection_->AwaitLostMessage(context_, kFarewellNs);
  if (reason.empty()) reason = connection_->alive() ? "the domain gave no reason" : "the domain is gone";
  listener->OnContextLost(reason);
}

void SocketPlatform::RingDoorbell() {
  SignalEvent(doorbell_.get());
}

void SocketPlatform::Await(uint32_t timeline, uint64_t position, uint64_t timeout_ns) {
  const uint64_t fence = connection_->SendFence(context_, timeline, position);
  if (fence != 0) connection_->WaitFence(context_, timeline, fence, timeout_ns);
  if (!connection_->alive()) MarkGone();
}

void SocketPlatform::WaitForPosition(uint64_t position) {
  Await(0, position, kLookAgainNs);
}

void SocketPlatform::WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) {
  Await(timeline, position, std::min(timeout_ns, kLookAgainNs));
}

void SocketPlatform::SleepOn(std::atomic<uint32_t>* word, uint32_t seen, const guest::Awaited& awaited) {
  FutexWait(*word, seen, std::min(awaited.timeout_ns, kLookAtSocketNs), /*shared=*/true);
  // A worker that was killed wakes nobody.
  if (word->load(std::memory_order_acquire) == seen && !connection_->Poll()) MarkGone();
}

void SocketPlatform::WakeSleepers(std::atomic<uint32_t>* word) {
  FutexWake(*word, INT_MAX, /*shared=*/true);
}

bool SocketPlatform::AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) {
  const uint32_t resource = connection_->NewResource();
  const uint64_t blob_id = wire::MakeBlobId(wire::BlobKind::kMemory, resource);
  if (!connection_->SendBlobCreate(context_, resource, blob_id, size)) {
    MarkGone();
    return false;
  }
  const BlobAnswer blob = connection_->TakeBlob(resource, wire::BlobBacking::Memory);
  if (!connection_->alive()) MarkGone();
  if (!blob.ok) return false;
  void* pointer = blob.size >= size ? MapSealed(blob.fd.get(), blob.size) : nullptr;
  if (pointer == nullptr) {
    connection_->SendBlobDestroy(resource);
    return false;
  }
  *out = {resource, pointer, blob.size};
  return true;
}

void SocketPlatform::FreeSharedMemory(const guest::SharedMemory& memory) {
  Unmap(memory.pointer, memory.size);
  connection_->SendBlobDestroy(memory.resource_id);
}

void SocketPlatform::LookAtPeer() {
  if (!connection_->Poll()) MarkGone();
}

void SocketPlatform::Yield() {
  // The domain is a process of this machine, and may want this CPU.
  sched_yield();
}

uint64_t SocketPlatform::NowNs() {
  return MonotonicNs();
}

}  // namespace sluice::icd
