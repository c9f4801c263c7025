#include "gpu-domain/broker/broker.h"

#include <fcntl.h>
#include <signal.h>

#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::broker {

Broker::Broker(asio::io_context& loop, DomainSpec domain, ExitFn on_exit)
    : loop_(loop), domain_(std::move(domain)), on_exit_(std::move(on_exit)) {}

Broker::~Broker() = default;

absl::StatusOr<pid_t> Broker::Attach(uint32_t id, const WorkerSpec& spec, WorkerFds fds) {
  if (stopping_) return absl::UnavailableError("the domain is stopping");
  if (workers_.find(id) != workers_.end())
    return absl::AlreadyExistsError(absl::StrCat("front-end ", id, " is attached"));
  auto worker = std::make_unique<Worker>(loop_);
  if (std::unique_ptr<Spare> spare = TakeSpare(spec, fds); spare != nullptr) {
    worker->process = std::move(spare->process);
  } else {
    SLUICE_ASSIGN_OR_RETURN(worker->process, LaunchWorker(domain_, spec, std::move(fds)));
  }
  UniqueFd exited(fcntl(worker->process.pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!exited.valid()) return ErrnoToStatus(errno, "pidfd");
  worker->exited.assign(exited.Release());
  worker->exited.async_wait(asio::posix::stream_descriptor::wait_read, [this, id](const asio::error_code& error) {
    if (!error) OnExited(id);
  });
  const pid_t pid = worker->process.pid();
  SLUICE_LOG(debug, "worker {} for {} ({}), namespaces {}", pid, spec.name, id,
             worker->process.namespaces().ToString());
  workers_[id] = std::move(worker);
  return pid;
}

void Broker::PrepareSpare(const WorkerSpec& spec) {
  if (spare_ != nullptr || stopping_) return;
  auto pair = CreateSeqPacketPair();
  if (!pair.ok()) return;
  auto spare = std::make_unique<Spare>(loop_);
  spare->spec = spec;
  WorkerSpec starting = spec;
  starting.name = absl::StrCat(spec.name, "-spare");
  starting.spare = true;
  WorkerFds fds;
  fds.channel = std::move(pair->second);
  absl::StatusOr<jail::ChildProcess> process = LaunchWorker(domain_, starting, std::move(fds));
  UniqueFd exited(process.ok() ? fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!exited.valid()) {
    SLUICE_LOG(warn, "no spare worker: {}", std::string(process.status().message()));
    return;
  }
  spare->process = *std::move(process);
  spare->handover = std::move(pair->first);
  spare->exited.assign(exited.Release());
  spare->exited.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error || spare_ == nullptr) return;
    // It could not get ready, and has said why. A worker for a front-end will try again.
    SLUICE_LOG(warn, "the spare worker ended");
    spare_.reset();
  });
  spare_ = std::move(spare);
}

std::unique_ptr<Broker::Spare> Broker::TakeSpare(const WorkerSpec& spec, const WorkerFds& fds) {
  if (spare_ == nullptr || fds.stats.valid() || fds.capture.valid()) return nullptr;
  const WorkerSpec& has = spare_->spec;
  if (has.os != spec.os || has.memory_bytes != spec.memory_bytes || has.max_contexts != spec.max_contexts ||
      has.require_hardware != spec.require_hardware) {
    return nullptr;
  }
  std::unique_ptr<Spare> spare = std::move(spare_);
  asio::error_code ignored;
  spare->exited.cancel(ignored);
  const auto* name = static_cast<const uint8_t*>(static_cast<const void*>(spec.name.data()));
  const int channel = fds.channel.get();
  if (!SendPacket(spare->handover.get(), absl::MakeConstSpan(name, spec.name.size()), {&channel, 1}, true).ok()) {
    return nullptr;
  }
  return spare;
}

void Broker::End(uint32_t id, Worker& worker) {
  if (worker.ending) return;
  worker.ending = true;
  AskToEnd(id, worker, kGraceSeconds * 1000 / kAskAgainMs);
}

void Broker::AskToEnd(uint32_t id, Worker& worker, int asks_left) {
  if (asks_left == 0) {
    worker.process.Kill();
    return;
  }
  // Again and again: the first process of a PID namespace does not see signals that it has no handler for yet.
  (void)worker.process.Signal(SIGTERM);  // it may be gone already: then its exit is on the way
  worker.grace.expires_after(std::chrono::milliseconds(kAskAgainMs));
  worker.grace.async_wait([this, id, asks_left](const asio::error_code& error) {
    const auto it = workers_.find(id);
    // Ids may be used again: only one that is ending is meant.
    if (!error && it != workers_.end() && it->second->ending) AskToEnd(id, *it->second, asks_left - 1);
  });
}

void Broker::Detach(uint32_t id) {
  if (const auto it = workers_.find(id); it != workers_.end()) End(id, *it->second);
}

void Broker::StopAll(std::function<void()> done) {
  if (stopping_) return;
  stopping_ = true;
  on_stopped_ = std::move(done);
  spare_.reset();  // it holds nothing of anybody's
  for (auto& [id, worker] : workers_) End(id, *worker);
  if (workers_.empty()) asio::post(loop_, [this] { FinishStop(); });
}

void Broker::FinishStop() {
  if (std::function<void()> done = std::exchange(on_stopped_, nullptr); done != nullptr) done();
}

void Broker::OnExited(uint32_t id) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  const absl::StatusOr<jail::ExitStatus> status = it->second->process.Wait(absl::ZeroDuration());
  if (!status.ok()) {
    // The pidfd says that it ended, so this is a kernel that does not know waitid(P_PIDFD): count it as ended all the
    // same.
    SLUICE_LOG(error, "worker {}: {}", id, std::string(status.status().message()));
  }
  const jail::ExitStatus ended = status.ok() ? *status : jail::ExitStatus{.code = -1, .signal = 0};
  it->second->grace.cancel();
  workers_.erase(it);
  if (!ended.clean()) SLUICE_LOG(warn, "worker of front-end {} ended: {}", id, ended.ToString());
  on_exit_(id, ended);
  if (stopping_ && workers_.empty()) FinishStop();
}

}  // namespace sluice::broker
