#include <asio/post.hpp>
#include <deque>
#include <utility>
#include <vector>

#include "devices/block/engine.h"
#include "vmm/base/log.h"
#include "vmm/base/mutex.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/thread.h"

namespace sluice::block {
namespace {

class ThreadEngine final : public IoEngine {
 public:
  explicit ThreadEngine(const EngineOptions& options)
      : options_(options), self_(std::make_shared<ThreadEngine*>(this)) {}

  absl::Status Start() {
    for (uint32_t i = 0; i < options_.threads; ++i) {
      SLUICE_ASSIGN_OR_RETURN(Thread thread, StartThread([this] { Work(); }));
      threads_.push_back(std::move(thread));
    }
    return absl::OkStatus();
  }

  ~ThreadEngine() override {
    Quiesce();
    {
      MutexLock lock(&mu_);
      stop_ = true;
      work_.SignalAll();
    }
    for (Thread& thread : threads_) thread.Join();
  }

  absl::string_view name() const override { return "threads"; }

  void Submit(IoRequest request) override {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(request));
    work_.Signal();
  }

  void Kick() override {}

  void Quiesce() override {
    std::deque<IoRequest> dropped;  // freed without the lock
    MutexLock lock(&mu_);
    dropped.swap(queue_);
    while (running_ > 0) idle_.Wait(&mu_);
    results_.clear();
  }

 private:
  void Work() {
    mu_.Lock();
    while (true) {
      while (queue_.empty() && !stop_) work_.Wait(&mu_);
      if (queue_.empty()) break;
      {
        IoRequest request = std::move(queue_.front());
        queue_.pop_front();
        ++running_;
        mu_.Unlock();
        const IoResult result = {request.id, RunRequest(*options_.disk, request)};
        request = IoRequest();  // lets go of guest memory before Quiesce may return
        mu_.Lock();
        results_.push_back(result);
      }
      if (results_.size() == 1) PostDelivery();
      if (--running_ == 0) idle_.SignalAll();
    }
    mu_.Unlock();
  }

  void PostDelivery() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    asio::post(*options_.loop, [weak = std::weak_ptr<ThreadEngine*>(self_)] {
      if (const auto self = weak.lock()) (*self)->Deliver();
    });
  }

  void Deliver() {
    std::vector<IoResult> results;
    {
      MutexLock lock(&mu_);
      results.swap(results_);
    }
    if (!results.empty()) options_.sink->IoDone(results);
  }

  const EngineOptions options_;
  const std::shared_ptr<ThreadEngine*> self_;  // posted tasks hold it weakly
  Mutex mu_;
  CondVar work_;
  CondVar idle_;
  std::deque<IoRequest> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<IoResult> results_ ABSL_GUARDED_BY(mu_);  // not told yet
  uint32_t running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Thread> threads_;
};

absl::Status Run(Disk& disk, IoRequest& request) {
  switch (request.kind) {
    case IoKind::kRead:
      return disk.Read(request.offset, absl::MakeSpan(request.pieces));
    case IoKind::kWrite:
      return disk.Write(request.offset, absl::MakeSpan(request.pieces), request.durable);
    case IoKind::kFlush:
      return disk.Flush();
    case IoKind::kDiscard:
      for (const ByteRange& range : request.ranges) {
        SLUICE_RETURN_IF_ERROR(disk.Discard(range.offset, range.bytes));
      }
      break;
    case IoKind::kWriteZeroes:
      for (const ByteRange& range : request.ranges) {
        SLUICE_RETURN_IF_ERROR(disk.WriteZeroes(range.offset, range.bytes, request.unmap));
      }
      break;
  }
  return request.durable ? disk.Flush() : absl::OkStatus();
}

}  // namespace

bool RunRequest(Disk& disk, IoRequest& request) {
  const absl::Status status = Run(disk, request);
  if (!status.ok()) SLUICE_LOG_GUEST(warn, "disk: {}", status.ToString());
  return status.ok();
}

absl::StatusOr<std::unique_ptr<IoEngine>> CreateThreadEngine(const EngineOptions& options) {
  auto engine = std::make_unique<ThreadEngine>(options);
  SLUICE_RETURN_IF_ERROR(Annotate(engine->Start(), "disk: I/O threads"));
  return engine;
}

absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(EngineKind kind, const EngineOptions& options) {
  if (kind == EngineKind::kThreads) return CreateThreadEngine(options);
  auto engine = CreateUringEngine(options);
  if (engine.ok() || kind == EngineKind::kUring) return engine;
  SLUICE_LOG(info, "disk: threads instead of io_uring: {}", engine.status().ToString());
  return CreateThreadEngine(options);
}

}  // namespace sluice::block
