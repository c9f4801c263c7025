// File: broker.h
//
// The workers of one GPU Domain: starts one per front-end, notices how each ends, ends them. Knows nothing of Vulkan
// and reads nothing that a guest wrote. Whoever talks to the outside (control.h, listener.h) sits on top.
//
//   asio::io_context loop;
//   Broker broker(loop, domain, [](uint32_t id, const jail::ExitStatus& status) { ... });
//   SLUICE_ASSIGN_OR_RETURN(pid_t pid, broker.Attach(1, spec, std::move(fds)));
//   broker.StopAll([&] { loop.stop(); });
#ifndef SLUICE_GPU_DOMAIN_BROKER_BROKER_H_
#define SLUICE_GPU_DOMAIN_BROKER_BROKER_H_

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "gpu-domain/broker/launch.h"
#include "vmm/jail/spawn.h"

namespace sluice::broker {

// Loop thread only; it must live as long as the workers (they die with the thread that started them).
class Broker {
 public:
  using ExitFn = std::function<void(uint32_t id, const jail::ExitStatus& status)>;
  // How long a worker that was asked to end may take before it is killed.
  static constexpr int kGraceSeconds = 3;
  static constexpr int kAskAgainMs = 50;

  // `on_exit` is called once per worker, from the loop.
  Broker(asio::io_context& loop, DomainSpec domain, ExitFn on_exit);
  // Kills and reaps what is left.
  ~Broker();

  void SetDomain(DomainSpec domain) { domain_ = std::move(domain); }
  const DomainSpec& domain() const { return domain_; }

  // Starts a worker that gets ready and waits for a front-end of this kind, unless there is one. What goes wrong is
  // logged: the next Attach then starts one as if nobody had asked.
  void PrepareSpare(const WorkerSpec& spec);
  bool has_spare() const { return spare_ != nullptr; }

  // Takes the spare worker if it is of the kind and the front-end wants neither statistics nor a capture; else starts
  // one. Errors: ALREADY_EXISTS: a worker of that id lives; UNAVAILABLE: stopping; from LaunchWorker.
  absl::StatusOr<pid_t> Attach(uint32_t id, const WorkerSpec& spec, WorkerFds fds);
  // Asks the worker to end; kills it if it does not. Unknown ids are ignored.
  void Detach(uint32_t id);
  // Ends all workers; then calls `done`, from the loop. Once.
  void StopAll(std::function<void()> done);
  size_t workers() const { return workers_.size(); }

 private:
  struct Worker {
    explicit Worker(asio::io_context& loop) : exited(loop), grace(loop) {}
    jail::ChildProcess process;
    asio::posix::stream_descriptor exited;  // a duplicate of the pidfd
    asio::steady_timer grace;
    bool ending = false;
  };
  struct Spare {
    explicit Spare(asio::io_context& loop) : exited(loop) {}
    WorkerSpec spec;
    jail::ChildProcess process;
    asio::posix::stream_descriptor exited;
    UniqueFd handover;
  };
  // The spare worker, told whom it serves; null: there is none that fits.
  std::unique_ptr<Spare> TakeSpare(const WorkerSpec& spec, const WorkerFds& fds);
  void End(uint32_t id, Worker& worker);
  void AskToEnd(uint32_t id, Worker& worker, int asks_left);
  void OnExited(uint32_t id);
  void FinishStop();

  asio::io_context& loop_;
  DomainSpec domain_;
  const ExitFn on_exit_;
  std::map<uint32_t, std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Spare> spare_;
  bool stopping_ = false;
  std::function<void()> on_stopped_;
};

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_BROKER_H_
