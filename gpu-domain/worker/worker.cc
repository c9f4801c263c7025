#include "gpu-domain/worker/worker.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "flatbuf/channel_generated.h"
#include "flatbuf/schema_hash.h"
#include "gpu-domain/trace/capture.h"
#include "gpu-domain/worker/context.h"
#include "gpu-domain/worker/outbox.h"
#include "gpu-domain/worker/reaper.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker {
namespace {

// Private copies of frames of all rings together: some long messages at a time, not all that rings could name.
constexpr uint64_t kStagingBytes = uint64_t{64} << 20;
// Requests handled before the loop looks at its other events.
constexpr int kRequestsPerTurn = 64;
// How long an allocation waits for memory that is being given back at this moment.
constexpr absl::Duration kReclaimWait = absl::Seconds(2);
// Beyond the limit for GPU work, until a teardown that does not end ends the process.
constexpr absl::Duration kHangGrace = absl::Seconds(10);

template <size_t N>
void CopyText(char (&to)[N], absl::string_view text) {
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

wire::Capset MakeCapset(const WorkerOptions& options, const VulkanDriver& driver) {
  wire::Capset capset{};
  capset.magic = wire::kCapsetMagic;
  capset.protocol_version = wire::kProtocolVersion;
  capset.schema_hash = wire::kSchemaHash;
  capset.memory_quota_bytes = options.memory_bytes;
  capset.max_contexts = options.max_contexts;
  capset.max_rings = wire::kMaxRings;
  capset.min_ring_bytes = wire::kMinRingBytes;
  capset.max_ring_bytes = wire::kMaxRingBytes;
  capset.max_frame_bytes = wire::kMaxMessageBytes;
  capset.max_message_bytes = wire::kMaxMessageBytes;
  CopyText(capset.os_type, options.os);
  CopyText(capset.domain_name, options.domain);
  CopyText(capset.device_name, driver.devices().front().name);
  return capset;
}

std::string Text(const flatbuffers::String* text) {
  return text != nullptr ? Printable({text->c_str(), std::min<size_t>(text->size(), 64)}) : std::string();
}

}  // namespace

class Worker::Impl {
 public:
  Impl(const WorkerOptions& options, UniqueFd channel, const VulkanDriver* driver, wire::WorkerStats* stats,
       UniqueFd capture)
      : options_(options),
        driver_(driver),
        stats_(stats),
        quota_(options.memory_bytes, &stats->memory_bytes, &stats->memory_refusals),
        staging_(kStagingBytes),
        capture_(std::move(capture), options.name, &stats->capture_failed),
        outbox_(channel.get(), [this] { asio::post(io_, [this] { WaitWritable(); }); }),
        channel_(io_),
        watchdog_(io_) {
    if (channel.valid()) channel_.assign(channel.Release());
    on_hung_ = [](absl::string_view what) {
      SLUICE_LOG(error, "{}: the worker ends", std::string(what));
      // At once, past libc and whatever hooks it: other threads are stuck in the driver and cannot be joined.
      syscall(SYS_exit_group, kExitHung);
    };
    shared_.options = &options_;
    shared_.driver = driver_;
    shared_.stats = stats_;
    shared_.quota = &quota_;
    shared_.staging = &staging_;
    shared_.outbox = &outbox_;
    shared_.capture = &capture_;
    shared_.reaper = &reaper_;
    shared_.on_hung = [this](absl::string_view what) { on_hung_(what); };
  }

  void SetChannel(UniqueFd channel, absl::string_view name) {
    options_.name = std::string(name);
    outbox_.SetSocket(channel.get());
    channel_.assign(channel.Release());
  }

  void SetOnHung(std::function<void(absl::string_view)> on_hung) { on_hung_ = std::move(on_hung); }

  void EndOnSigterm() {
    signals_.emplace(io_, SIGTERM);
    signals_->async_wait([this](const asio::error_code& error, int) {
      if (!error) End(kExitOk);
    });
  }

  int Run() {
    WaitReadable();
    ArmWatchdog();
    io_.run();
    // The front-end is gone: nobody waits for answers.
    for (auto& [id, context] : contexts_) context->BeginDestroy();
    while (!contexts_.empty()) DestroyContext(contexts_.begin()->first);
    blobs_.clear();
    if (!reaper_.WaitIdle(options_.gpu_timeout + kHangGrace)) on_hung_("a context does not end");
    return exit_code_;
  }

 private:
  void WaitReadable() {
    channel_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (error || done_) return;
      OnReadable();
    });
  }

  void WaitWritable() {
    channel_.async_wait(asio::posix::stream_descriptor::wait_write, [this](const asio::error_code& error) {
      if (error || done_) return;
      if (!outbox_.Flush()) {
        WaitWritable();
        return;
      }
      if (outbox_.broken()) return End(kExitOk);
      if (paused_) {
        paused_ = false;
        WaitReadable();
      }
    });
  }

  void ArmWatchdog() {
    watchdog_.expires_after(std::chrono::seconds(1));
    watchdog_.async_wait([this](const asio::error_code& error) {
      if (error || done_) return;
      if (reaper_.RunningFor() > options_.gpu_timeout + kHangGrace) on_hung_("a context does not end");
      ArmWatchdog();
    });
  }

  void End(int code) {
    if (done_) return;
    done_ = true;
    exit_code_ = code;
    io_.stop();
  }

  // The front-end broke the channel's rules (not its guest: the device checks what the guest says).
  void Refuse(absl::string_view why) {
    SLUICE_LOG(error, "channel of {}: {}", options_.name, std::string(why));
    End(kExitProtocol);
  }

  void OnReadable() {
    for (int i = 0; i < kRequestsPerTurn && !done_; ++i) {
      if (outbox_.broken()) return End(kExitOk);
      if (outbox_.Full()) {
        paused_ = true;  // WaitWritable goes on reading
        return;
      }
      absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(channel_.native_handle(), /*nonblocking=*/true);
      if (!packet.ok()) {
        if (absl::IsResourceExhausted(packet.status())) break;
        return Refuse(packet.status().message());
      }
      if (!packet->has_value()) return End(kExitOk);
      Handle((*packet)->bytes);
    }
    if (!done_) WaitReadable();
  }

  void Handle(const std::vector<uint8_t>& bytes) {
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/8, /*max_tables=*/16);
    if (!verifier.VerifyBuffer<wire::DomainMessage>(nullptr)) return Refuse("a packet that is no DomainMessage");
    const auto* message = flatbuffers::GetRoot<wire::DomainMessage>(bytes.data());
    if (!greeted_ && message->body_type() != wire::ToDomain::Hello) return Refuse("no Hello first");
    switch (message->body_type()) {
      case wire::ToDomain::Hello:
        return OnHello(*message->body_as_Hello());
      case wire::ToDomain::ContextCreate:
        return OnContextCreate(*message->body_as_ContextCreate());
      case wire::ToDomain::ContextDestroy:
        return DestroyContext(message->body_as_ContextDestroy()->context());
      case wire::ToDomain::BlobCreate:
        return OnBlobCreate(*message->body_as_BlobCreate());
      case wire::ToDomain::BlobDestroy:
        return OnBlobDestroy(message->body_as_BlobDestroy()->resource());
      case wire::ToDomain::Submit:
        return OnSubmit(*message->body_as_Submit());
      case wire::ToDomain::NONE:
        break;
    }
    Refuse("a message of an unknown type");
  }

  void OnHello(const wire::Hello& hello) {
    if (greeted_) return Refuse("a second Hello");
    greeted_ = true;
    // Answered in any case: the other side then knows both numbers too.
    outbox_.HelloReply(MakeCapset(options_, *driver_));
    if (hello.protocol_version() != wire::kProtocolVersion || hello.schema_hash() != wire::kSchemaHash) {
      return Refuse(absl::StrCat("the front-end speaks protocol ", hello.protocol_version(), ", schema ",
                                 absl::Hex(hello.schema_hash()), "; this worker ", wire::kProtocolVersion, ", ",
                                 absl::Hex(wire::kSchemaHash)));
    }
    if (Text(hello.os()) != options_.os) {
      return Refuse(absl::StrCat("OS type \"", Text(hello.os()), "\"; this domain serves \"", options_.os, "\""));
    }
  }

  void OnContextCreate(const wire::ContextCreate& create) {
    const uint32_t id = create.context();
    if (contexts_.contains(id)) return Refuse(absl::StrCat("context ", id, " exists"));
    if (contexts_.size() >= options_.max_contexts) {
      outbox_.ContextLost(id, wire::LostReason::kLimit, absl::StrCat("at most ", options_.max_contexts, " contexts"));
      return;
    }
    // A guest that makes and destroys contexts faster than they end waits here.
    if (reaping_.load() >= options_.max_contexts && !reaper_.WaitIdle(options_.gpu_timeout + kHangGrace)) {
      return on_hung_("a context does not end");
    }
    capture_.ContextCreate(id, Text(create.name()));
    contexts_[id] = std::make_shared<WorkerContext>(id, Text(create.name()), &shared_);
  }

  void DestroyContext(uint32_t id) {
    const auto it = contexts_.find(id);
    if (it == contexts_.end()) return;
    std::shared_ptr<WorkerContext> context = std::move(it->second);
    contexts_.erase(it);
    capture_.ContextDestroy(id);
    context->BeginDestroy();
    reaping_.fetch_add(1);
    reaper_.Post([this, context = std::move(context)]() mutable {
      context->Finish();
      context.reset();
      reaping_.fetch_sub(1);
    });
  }

  // True: memory that was freed is about to come back.
  bool Reclaiming() {
    bool waiting = reaper_.busy();
    for (auto& [id, context] : contexts_) waiting = context->SweepMemory() || waiting;
    return waiting;
  }

  // Memory for a blob; waits for contexts that are just ending, and for GPU work that uses freed memory, if it does not
  // fit otherwise.
  std::optional<MemoryCharge> TakeMemory(uint64_t bytes) {
    std::optional<MemoryCharge> charge = quota_.Take(bytes);
    const absl::Time deadline = absl::Now() + kReclaimWait;
    while (!charge.has_value()) {
      const bool again = Reclaiming() && absl::Now() < deadline;
      charge = quota_.Take(bytes);
      if (!again) break;
      if (!charge.has_value() && reaper_.WaitIdle(absl::Milliseconds(10))) absl::SleepFor(absl::Milliseconds(1));
    }
    if (!charge.has_value()) quota_.CountRefusal();
    return charge;
  }

  void OnBlobCreate(const wire::BlobCreate& create) {
    const uint32_t resource = create.resource();
    if (blobs_.contains(resource)) return Refuse(absl::StrCat("resource ", resource, " exists"));
    const std::optional<BlobId> id = ParseBlobId(create.context(), resource, create.blob_id());
    const wire::BlobKind kind = id.has_value() ? id->kind : wire::BlobKind::kMemory;
    const auto refuse = [&](BlobAnswer answer) { outbox_.BlobCreated(resource, answer, kind, 0, UniqueFd()); };
    const auto context = contexts_.find(create.context());
    if (context == contexts_.end()) return refuse(BlobAnswer::kNoContext);
    const std::optional<uint64_t> size = CheckedAlignUp(create.size(), kPageSize);
    if (!id.has_value() || !size.has_value() || *size == 0) return refuse(BlobAnswer::kBadRequest);
    if (blobs_.size() >= options_.max_blobs) return refuse(BlobAnswer::kOutOfMemory);

    CreatedBlob made;
    if (kind == wire::BlobKind::kDoorbell) {
      absl::StatusOr<UniqueFd> fd = context->second->Doorbell(id->index);
      if (!fd.ok()) return refuse(AnswerFor(fd.status()));
      made = Blob::CreateDoorbell(*id, *std::move(fd));
    } else {
      if (kind == wire::BlobKind::kRing && (!wire::RingLayout::Valid(create.size()) || id->index >= wire::kMaxRings)) {
        return refuse(BlobAnswer::kBadRequest);
      }
      std::optional<MemoryCharge> charge = TakeMemory(*size);
      if (!charge.has_value()) return refuse(BlobAnswer::kOutOfMemory);
      absl::StatusOr<CreatedBlob> mapped = Blob::CreateMapped(*id, *size, *std::move(charge));
      if (!mapped.ok()) return refuse(BlobAnswer::kOutOfMemory);
      made = *std::move(mapped);
      if (kind == wire::BlobKind::kRing) {
        const absl::Status status = context->second->AddRing(made.blob);
        if (!status.ok()) return refuse(AnswerFor(status));
      } else {
        context->second->AddMemory(made.blob);
      }
    }
    capture_.BlobCreate(id->context, {resource, 0, create.blob_id(), *size});
    blobs_[resource] = std::move(made.blob);
    outbox_.BlobCreated(resource, BlobAnswer::kOk, kind, *size, std::move(made.fd));
  }

  static BlobAnswer AnswerFor(const absl::Status& status) {
    SLUICE_LOG_GUEST(warn, "blob refused: {}", std::string(status.message()));
    return absl::IsInvalidArgument(status) ? BlobAnswer::kBadRequest : BlobAnswer::kOutOfMemory;
  }

  void OnBlobDestroy(uint32_t resource) {
    const auto it = blobs_.find(resource);
    if (it == blobs_.end()) return;
    const BlobId id = it->second->id();
    capture_.BlobDestroy(id.context, resource);
    if (const auto context = contexts_.find(id.context); context != contexts_.end()) context->second->RemoveBlob(id);
    blobs_.erase(it);
  }

  void OnSubmit(const wire::Submit& submit) {
    const auto it = contexts_.find(submit.context());
    if (it == contexts_.end()) {
      // The context is gone, so nothing is left to wait for.
      if (submit.fenced()) outbox_.FenceSignaled(submit.context(), submit.ring_idx(), submit.fence_id());
      return;
    }
    absl::Span<const uint8_t> payload;
    if (submit.payload() != nullptr) payload = absl::MakeConstSpan(submit.payload()->data(), submit.payload()->size());
    it->second->Submit(submit.ring_idx(), submit.fenced(), submit.fence_id(), payload);
  }

  WorkerOptions options_;  // does not change once Run() has begun
  const VulkanDriver* const driver_;
  wire::WorkerStats* const stats_;
  std::function<void(absl::string_view)> on_hung_;
  MemoryQuota quota_;
  MemoryQuota staging_;
  trace::CaptureWriter capture_;
  asio::io_context io_{1};
  Outbox outbox_;
  asio::posix::stream_descriptor channel_;
  asio::steady_timer watchdog_;
  std::optional<asio::signal_set> signals_;
  WorkerShared shared_;
  bool greeted_ = false;
  bool paused_ = false;  // not reading because too much waits to be sent
  bool done_ = false;
  int exit_code_ = kExitOk;
  std::atomic<uint32_t> reaping_{0};
  absl::flat_hash_map<uint32_t, std::shared_ptr<Blob>> blobs_;  // by resource
  absl::flat_hash_map<uint32_t, std::shared_ptr<WorkerContext>> contexts_;
  Reaper reaper_;  // last: its jobs use all of the above
};

Worker::Worker(const WorkerOptions& options, UniqueFd channel, const VulkanDriver* driver, wire::WorkerStats* stats,
               UniqueFd capture)
    : impl_(std::make_unique<Impl>(options, std::move(channel), driver, stats, std::move(capture))) {}

Worker::~Worker() = default;

void Worker::SetChannel(UniqueFd channel, absl::string_view name) {
  impl_->SetChannel(std::move(channel), name);
}

void Worker::SetOnHung(std::function<void(absl::string_view)> on_hung) {
  impl_->SetOnHung(std::move(on_hung));
}

void Worker::EndOnSigterm() {
  impl_->EndOnSigterm();
}

int Worker::Run() {
  return impl_->Run();
}

}  // namespace sluice::worker
