// File: worker.h
//
// The worker of one front-end: serves the domain side of a service channel (flatbuf/channel.fbs) until the front-end
// closes it. Everything the front-end's guest owns lives in here and ends with it.
//
//   SLUICE_ASSIGN_OR_RETURN(auto driver, VulkanDriver::Create({.gpus = options.gpus}));
//   Worker worker(options, std::move(channel), driver.get(), &stats, std::move(capture_fd));
//   return worker.Run();
#ifndef SLUICE_GPU_DOMAIN_WORKER_WORKER_H_
#define SLUICE_GPU_DOMAIN_WORKER_WORKER_H_

#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "flatbuf/stats.h"
#include "gpu-domain/worker/driver.h"
#include "gpu-domain/worker/options.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker {

class Worker {
 public:
  // `channel`: connected SOCK_SEQPACKET, or invalid: then SetChannel() comes before Run(). `driver` and `stats` outlive
  // the worker. `capture`: -1 or a file open for writing.
  Worker(const WorkerOptions& options, UniqueFd channel, const VulkanDriver* driver, wire::WorkerStats* stats,
         UniqueFd capture);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The front-end of a worker that was started before anybody knew whom it would serve. `name`: in log lines.
  void SetChannel(UniqueFd channel, absl::string_view name);

  // What to do when something in the driver never ends. The default logs and leaves the process with kExitHung at once:
  // there is no other way to give back what it holds. Call before Run().
  void SetOnHung(std::function<void(absl::string_view)> on_hung);

  // From now on SIGTERM ends Run() as if the front-end had closed the channel. For a process with one worker; before
  // Run().
  void EndOnSigterm();

  // Serves until the channel ends; then destroys all contexts. Returns an ExitCode. Once.
  int Run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_WORKER_H_
