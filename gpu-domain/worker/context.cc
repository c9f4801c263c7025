#include "gpu-domain/worker/context.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gpu-domain/worker/shared_raw.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker {
namespace {

// How long an allocation waits for memory of a context that is being destroyed at this moment.
constexpr absl::Duration kReclaimWait = absl::Seconds(2);

// Bytes from which on executing a message may take long (streams of commands, shaders, pipelines).
constexpr size_t kLongMessage = 2048;
// Short messages executed between two looks at what has completed.
constexpr uint32_t kMessagesPerPoll = 16;

// Replies of one message: into the ring, the capture and the statistics.
class RingSink final : public exec::ReplySink {
 public:
  RingSink(uint32_t context, RingThread& ring, const WorkerShared& shared)
      : context_(context), ring_(ring), shared_(shared) {}

  absl::Status Reply(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload) override {
    const wire::FrameHeader header = {opcode, wire::kFrameReply, static_cast<uint32_t>(payload.size()), sequence};
    shared_.capture->Reply(context_, ring_.number(), header, payload);
    const uint64_t before = ring_.replies().position();
    absl::Status status = ring_.replies().Write(opcode, sequence, payload);
    shared_.stats->bytes_out.fetch_add(ring_.replies().position() - before, std::memory_order_relaxed);
    return status;
  }

 private:
  const uint32_t context_;
  RingThread& ring_;
  const WorkerShared& shared_;
};

WorkerPolicyOptions PolicyOptions(const WorkerShared& shared) {
  WorkerPolicyOptions options;
  options.gpu_timeout = shared.options->gpu_timeout;
  options.memory_bytes = shared.options->memory_bytes;
  options.stats = shared.stats;
  return options;
}

}  // namespace

WorkerContext::WorkerContext(uint32_t id, std::string name, const WorkerShared* shared)
    : id_(id),
      name_(std::move(name)),
      shared_(shared),
      fences_([this](uint8_t ring_idx, uint64_t fence_id) {
        shared_->stats->fences.fetch_add(1, std::memory_order_relaxed);
        shared_->outbox->FenceSignaled(id_, ring_idx, fence_id);
      }),
      policy_(PolicyOptions(*shared), shared->driver, &fences_, this, this) {
  exec::ContextOptions options;
  options.max_objects = shared->options->max_objects;
  exec_ = std::make_unique<exec::Context>(options, &policy_);
  shared_->stats->contexts.fetch_add(1, std::memory_order_relaxed);
  shared_->stats->contexts_total.fetch_add(1, std::memory_order_relaxed);
}

WorkerContext::~WorkerContext() {
  BeginDestroy();
  Finish();
}

absl::StatusOr<int> WorkerContext::DoorbellFd(uint64_t number) {
  if (number >= wire::kMaxRings) return absl::InvalidArgumentError(absl::StrCat("ring number ", number));
  if (!doorbells_[number].valid()) {
    SLUICE_ASSIGN_OR_RETURN(doorbells_[number], CreateEventFd(/*nonblocking=*/true));
  }
  return doorbells_[number].get();
}

absl::StatusOr<UniqueFd> WorkerContext::Doorbell(uint64_t number) {
  SLUICE_RETURN_IF_ERROR(DoorbellFd(number).status());
  return doorbells_[number].Duplicate();
}

absl::Status WorkerContext::AddRing(std::shared_ptr<Blob> blob) {
  const uint64_t number = blob->id().index;
  if (!wire::RingLayout::Valid(blob->size())) {
    return absl::InvalidArgumentError(absl::StrCat("a ring of ", blob->size(), " bytes"));
  }
  SLUICE_ASSIGN_OR_RETURN(const int doorbell, DoorbellFd(number));
  if (rings_[number] != nullptr) return absl::InvalidArgumentError(absl::StrCat("ring ", number, " exists"));
  if (ending_rings_[number].load(std::memory_order_acquire)) {
    if (!shared_->reaper->WaitIdle(shared_->options->gpu_timeout)) shared_->on_hung("a ring does not end");
  }
  RingView view(blob->mapping());
  view.Initialise(shared_->quota->limit(), shared_->driver->memory_alignment());
  {
    MutexLock lock(&mu_);
    ring_blobs_[number] = blob;
    published_[number] = std::make_unique<PublishedUse>(shared_->quota, blob);
    if (lost_.load(std::memory_order_acquire)) view.SetStatus(wire::LostReason::kBadFrame);
  }
  RingThreadOptions options;
  options.number = static_cast<uint32_t>(number);
  options.spin = shared_->options->spin;
  options.reply_timeout = shared_->options->reply_timeout;
  options.staging = shared_->staging;
  options.stats = shared_->stats;
  absl::StatusOr<std::unique_ptr<RingThread>> ring = RingThread::Start(options, std::move(blob), doorbell, this);
  if (!ring.ok()) {
    MutexLock lock(&mu_);
    published_[number].reset();
    ring_blobs_[number].reset();
    return ring.status();
  }
  rings_[number] = *std::move(ring);
  return absl::OkStatus();
}

void WorkerContext::AddMemory(std::shared_ptr<Blob> blob) {
  MutexLock lock(&mu_);
  const uint32_t resource = blob->id().resource;
  memory_[resource] = std::move(blob);
}

void WorkerContext::RemoveBlob(const BlobId& id) {
  if (id.kind == wire::BlobKind::kMemory) {
    std::shared_ptr<Blob> dropped;  // unmapped outside the lock
    MutexLock lock(&mu_);
    if (const auto it = memory_.find(id.resource); it != memory_.end()) {
      dropped = std::move(it->second);
      memory_.erase(it);
    }
    return;
  }
  if (id.kind != wire::BlobKind::kRing || id.index >= wire::kMaxRings) return;
  std::unique_ptr<RingThread>& ring = rings_[id.index];
  if (ring == nullptr || ring->blob()->id().resource != id.resource) return;
  {
    MutexLock lock(&mu_);
    published_[id.index].reset();
    ring_blobs_[id.index].reset();
  }
  // The thread may be in the driver for a while: only a new ring of the same number waits for that.
  ring->RequestStop();
  ending_rings_[id.index].store(true, std::memory_order_release);
  shared_->reaper->Post([this, ended = std::shared_ptr<RingThread>(std::move(ring))]() mutable {
    const uint32_t number = ended->number();
    ended.reset();
    fences_.OnRingGone(number);
    ending_rings_[number].store(false, std::memory_order_release);
  });
}

void WorkerContext::Submit(uint8_t ring_idx, bool fenced, uint64_t fence_id, absl::Span<const uint8_t> payload) {
  wire::SubmitCommand command{};
  bool valid = payload.size() == sizeof(command);
  if (valid) {
    std::memcpy(&command, payload.data(), sizeof(command));
    valid = command.op == wire::kSubmitKick && command.ring < wire::kMaxRings && ring_idx < wire::kMaxTimelines;
  }
  if (!valid) {
    Lose(wire::LostReason::kBadFrame, "SUBMIT_3D with a payload that is no SubmitCommand");
    command = {};
    ring_idx = ring_idx < wire::kMaxTimelines ? ring_idx : 0;
  }
  if (fenced && !fences_.Add({command.ring, command.position, ring_idx, fence_id})) {
    Lose(wire::LostReason::kLimit, "too many fences are pending");
    fences_.Add({command.ring, command.position, ring_idx, fence_id});  // a lost context signals at once
  }
  if (valid && doorbells_[command.ring].valid()) SignalEventFd(doorbells_[command.ring].get());
}

void WorkerContext::PublishStatus(wire::LostReason reason) {
  MutexLock lock(&mu_);
  for (const std::shared_ptr<Blob>& blob : ring_blobs_) {
    if (blob != nullptr) RingView(blob->mapping()).SetStatus(reason);
  }
}

void WorkerContext::Lose(wire::LostReason reason, absl::string_view message) {
  if (lost_.exchange(true, std::memory_order_acq_rel)) return;
  SLUICE_LOG_GUEST(warn, "context {} ({}) lost, reason {}: {}", id_, name_, static_cast<uint32_t>(reason),
                   std::string(message));
  shared_->stats->contexts_lost.fetch_add(1, std::memory_order_relaxed);
  PublishStatus(reason);
  shared_->capture->Lost(id_, reason, message);
  shared_->outbox->ContextLost(id_, reason, message);
  fences_.SignalAll();
}

void WorkerContext::BeginDestroy() {
  if (ending_.exchange(true, std::memory_order_acq_rel)) return;
  PublishStatus(wire::LostReason::kDestroyed);
  for (const std::unique_ptr<RingThread>& ring : rings_) {
    if (ring != nullptr) ring->RequestStop();
  }
  fences_.SignalAll();
}

void WorkerContext::Finish() {
  for (std::unique_ptr<RingThread>& ring : rings_) ring.reset();
  MutexLock lock(&exec_mu_);
  if (exec_ == nullptr) return;
  exec_.reset();
  policy_.SetRing(nullptr);
  shared_->stats->objects.fetch_sub(counted_objects_, std::memory_order_relaxed);
  counted_objects_ = 0;
  {
    MutexLock leaf(&mu_);
    memory_.clear();
    for (std::unique_ptr<PublishedUse>& published : published_) published.reset();
    for (std::shared_ptr<Blob>& blob : ring_blobs_) blob.reset();
  }
  shared_->stats->contexts.fetch_sub(1, std::memory_order_relaxed);
}

absl::Status WorkerContext::OnMessage(RingThread& ring, const Message& message) {
  shared_->capture->Request(id_, ring.number(), message.header, message.bytes);
  MutexLock lock(&exec_mu_);
  if (lost() || ending_.load(std::memory_order_acquire)) return absl::CancelledError("the context has ended");
  policy_.SetRing(ring.blob());
  // What completes while this thread executes a long message is published by the queues' threads.
  if (message.bytes.size() > kLongMessage) {
    policy_.HandOverQueues();
  } else if (++unpolled_ % kMessagesPerPoll == 0) {
    policy_.PollQueues();
  }
  RingSink sink(id_, ring, *shared_);
  absl::Status status = exec_->Execute(message.header, message.bytes, &sink);
  CountObjects();
  return status;
}

void WorkerContext::CountObjects() {
  const uint64_t objects = exec_->objects();
  const uint64_t commands = exec_->commands();
  // Unsigned: a fall is an addition that wraps, and the sum over all contexts is right.
  shared_->stats->objects.fetch_add(objects - counted_objects_, std::memory_order_relaxed);
  shared_->stats->commands.fetch_add(commands - counted_commands_, std::memory_order_relaxed);
  counted_objects_ = objects;
  counted_commands_ = commands;
}

void WorkerContext::OnProgress(RingThread& ring, uint64_t position) {
  fences_.OnRingProgress(ring.number(), position);
}

void WorkerContext::OnIdle(RingThread&) {
  MutexLock lock(&exec_mu_);
  if (exec_ != nullptr) policy_.PollQueues();
}

void WorkerContext::OnSleep(RingThread&) {
  MutexLock lock(&exec_mu_);
  if (exec_ != nullptr) policy_.HandOverQueues();
}

void WorkerContext::OnError(RingThread& ring, const absl::Status& error) {
  if (ending_.load(std::memory_order_acquire) || absl::IsCancelled(error)) return;
  Lose(exec::LostReasonOf(error), absl::StrCat("ring ", ring.number(), ": ", error.message()));
}

void WorkerContext::OnQueueProgress(const QueueProgress* queue) {
  fences_.OnQueueProgress(queue);
  leaving_.Sweep();
}

void WorkerContext::OnQueueLost(absl::string_view why) {
  Lose(wire::LostReason::kDeviceLost, why);
}

std::shared_ptr<Blob> WorkerContext::FindMemory(uint32_t resource) {
  MutexLock lock(&mu_);
  const auto it = memory_.find(resource);
  return it != memory_.end() ? it->second : nullptr;
}

std::optional<MemoryCharge> WorkerContext::TakeMemory(uint64_t bytes) {
  std::optional<MemoryCharge> charge = shared_->quota->Take(bytes);
  // What a context that was just destroyed held is about to come back: a guest that frees and allocates must not see
  // that.
  const absl::Time deadline = absl::Now() + kReclaimWait;
  while (!charge.has_value() && (SweepMemory() || shared_->reaper->busy()) &&
         !ending_.load(std::memory_order_acquire) && absl::Now() < deadline) {
    if (!shared_->reaper->WaitIdle(absl::Milliseconds(10))) continue;
    absl::SleepFor(absl::Milliseconds(1));
    charge = shared_->quota->Take(bytes);
  }
  if (!charge.has_value()) shared_->quota->CountRefusal();
  return charge;
}

bool WorkerContext::SweepMemory() {
  leaving_.Sweep();
  return !leaving_.empty();
}

void WorkerContext::DropLater(std::shared_ptr<Blob> blob, Unfinished unfinished) {
  leaving_.Add(std::move(blob), std::move(unfinished));
}

void WorkerContext::DropAll() {
  leaving_.SweepAll();
}

void WorkerContext::OnHung(absl::string_view what) {
  shared_->on_hung(what);
}

}  // namespace sluice::worker
