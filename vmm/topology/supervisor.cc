#include "vmm/topology/supervisor.h"

#include <sys/resource.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"
#include "vmm/topology/domain_process.h"
#include "vmm/topology/frontend_process.h"
#include "vmm/topology/output_file.h"
#include "vmm/topology/stats_page.h"

namespace sluice::topology {
namespace {

using Clock = std::chrono::steady_clock;

double MillisSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A machine needs about 8 descriptors here; the usual soft limit of 1024 is for 100 of them.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// What the supervisor knows of one front-end.
struct Frontend {
  enum class State {
    kWaiting,    // for its domain
    kAttaching,  // for its worker
    kRunning,    // its machine runs
    kLeaving,    // the machine has ended, its worker has not
    kDone,
  };
  explicit Frontend(asio::io_context& loop) : timer(loop) {}

  const FrontendPlan* plan = nullptr;
  FrontendReport* report = nullptr;
  State state = State::kWaiting;
  UniqueFd firmware;
  UniqueFd channel;  // the machine's end, until it has started
  std::optional<StatsPage> worker_stats;
  std::unique_ptr<FrontendProcess> machine;
  bool worker_alive = false;
  bool told_to_stop = false;
  bool detached = false;    // the domain was told to end its worker
  std::string worker_loss;  // how its worker or domain was lost, "" if it was not
  Clock::time_point started;
  asio::steady_timer timer;
};

struct Domain {
  explicit Domain(asio::io_context& loop) : timer(loop) {}

  const DomainPlan* plan = nullptr;
  DomainReport* report = nullptr;
  std::unique_ptr<DomainProcess> process;
  bool ready = false;
  bool stopping = false;
  bool silent = false;  // it did not answer when it was told to end a worker
  asio::steady_timer timer;
};

// How long a domain may take to say that it has ended a worker: more than it gives the worker itself (3 s).
constexpr auto kDetachTime = std::chrono::seconds(5);
constexpr auto kAskWorkerAfter = std::chrono::seconds(2);

constexpr char kTimeout[] = "timeout";

const char* SignalName(int number) {
  switch (number) {
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    case SIGQUIT:
      return "SIGQUIT";
    default:
      return "SIGTERM";
  }
}

class Supervisor {
 public:
  Supervisor(const Plan& plan, const RunOptions& options)
      : plan_(plan), options_(options), signals_(loop_), deadline_(loop_), waiting_(loop_), began_(Clock::now()) {}

  absl::StatusOr<Report> Run() {
    RaiseFileLimit();
    SLUICE_RETURN_IF_ERROR(Prepare());
    if (options_.handle_signals) WatchSignals();
    if (options_.timeout != absl::InfiniteDuration()) {
      deadline_.expires_after(absl::ToChronoNanoseconds(options_.timeout));
      deadline_.async_wait([this](const asio::error_code& error) {
        if (!error && !interrupted_) Interrupt(kTimeout);
      });
    }
    StartDomains();
    StartMachinesIfReady();
    loop_.run();
    return Finish();
  }

 private:
  void Tell(const std::string& line) {
    if (options_.progress) options_.progress(line);
  }

  std::string OutPath(const std::string& file) const {
    return options_.out_directory.empty() ? "" : absl::StrCat(options_.out_directory, "/", file);
  }

  // Everything that can be missing is found before anything starts.
  absl::Status Prepare() {
    report_.domains.resize(plan_.domains.size());
    report_.frontends.resize(plan_.frontends.size());
    for (size_t i = 0; i < plan_.domains.size(); ++i) {
      auto domain = std::make_unique<Domain>(loop_);
      domain->plan = &plan_.domains[i];
      domain->report = &report_.domains[i];
      *domain->report = {.name = domain->plan->name,
                         .os = domain->plan->os,
                         .isolation = domain->plan->isolation,
                         .max_frontends = domain->plan->max_frontends,
                         .state = "not started"};
      domains_.push_back(std::move(domain));
    }
    for (size_t i = 0; i < plan_.frontends.size(); ++i) {
      auto frontend = std::make_unique<Frontend>(loop_);
      frontend->plan = &plan_.frontends[i];
      frontend->report = &report_.frontends[i];
      frontend->report->name = frontend->plan->name;
      frontend->report->os = frontend->plan->os;
      if (frontend->plan->domain.has_value()) {
        DomainReport& domain = report_.domains[*frontend->plan->domain];
        frontend->report->domain = domain.name;
        domain.frontends.push_back(frontend->plan->name);
      }
      SLUICE_ASSIGN_OR_RETURN(frontend->firmware, OpenInput(frontend->plan->firmware));
      frontends_.push_back(std::move(frontend));
    }
    remaining_ = frontends_.size();
    return absl::OkStatus();
  }

  void WatchSignals() {
    asio::error_code ignored;
    signals_.add(SIGINT, ignored);
    signals_.add(SIGTERM, ignored);
    signals_.add(SIGQUIT, ignored);
    // Whoever starts this with nohup wants it to outlive the terminal.
    struct sigaction hangup {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) signals_.add(SIGHUP, ignored);
    WaitForSignal();
  }
  void WaitForSignal() {
    signals_.async_wait([this](const asio::error_code& error, int number) {
      if (error) return;
      if (interrupted_) {
        Tell("second signal: killing everything");
        KillAll();
      } else {
        Interrupt(SignalName(number));
      }
      WaitForSignal();
    });
  }

  // ---- domains

  void StartDomains() {
    for (auto& owned : domains_) {
      Domain* domain = owned.get();
      DomainProcess::Events events;
      events.ready = [this, domain] { OnReady(domain); };
      events.attached = [this, domain](uint32_t id, const std::string& error, uint32_t pid) {
        OnAttached(domain, id, error, pid);
      };
      events.worker_exited = [this, domain](uint32_t id, const std::string& how) {
        if (Frontend* frontend = FrontendOf(domain, id))
          OnWorkerEnded(frontend, how.empty() ? "" : absl::StrCat("its worker ended: ", how));
      };
      events.gone = [this, domain](const std::string& how) { OnDomainGone(domain, how); };
      auto process =
          DomainProcess::Start(loop_, options_.domain_program, *domain->plan, options_.log_level, std::move(events));
      if (!process.ok()) {
        domain->report->state = std::string(process.status().message());
        Abandon(absl::StrCat("GPU Domain ", domain->plan->name, ": ", process.status().message()));
        return;
      }
      domain->process = *std::move(process);
      domain->report->state = "starting";
      domain->timer.expires_after(absl::ToChronoNanoseconds(options_.patience));
      domain->timer.async_wait([this, domain](const asio::error_code& error) {
        if (error || domain->ready) return;
        Tell(absl::StrCat(domain->plan->name, ": not ready in time, killed"));
        domain->process->Kill();
      });
    }
  }

  void OnReady(Domain* domain) {
    if (domain->ready) return;
    domain->ready = true;
    domain->timer.cancel();
    domain->report->state = "running";
    Tell(absl::StrCat(domain->plan->name, ": ready, pid ", domain->process->pid()));
    StartMachinesIfReady();
  }

  void StartMachinesIfReady() {
    if (interrupted_ || machines_started_) return;
    for (const auto& domain : domains_) {
      if (!domain->ready) return;
    }
    machines_started_ = true;
    for (auto& frontend : frontends_) {
      if (frontend->plan->domain.has_value()) {
        Attach(frontend.get());
      } else {
        StartMachine(frontend.get());
      }
      if (interrupted_) return;
    }
  }

  void OnDomainGone(Domain* domain, const std::string& how) {
    const bool expected = domain->stopping;
    domain->timer.cancel();
    domain->report->state = !how.empty() ? how : expected ? "ended" : "ended by itself";
    Tell(absl::StrCat(domain->plan->name, ": ", domain->report->state));
    const std::string loss = absl::StrCat("GPU Domain ", domain->plan->name, " ended: ", domain->report->state);
    for (auto& frontend : frontends_) {
      if (!frontend->plan->domain.has_value() || domains_[*frontend->plan->domain].get() != domain) continue;
      if (frontend->state == Frontend::State::kAttaching) {
        NotStarted(frontend.get(), loss);
      } else if (frontend->worker_alive) {
        OnWorkerEnded(frontend.get(), loss);
      }
    }
    if (!domain->ready) Abandon(loss);
    StopDomainsIfDone();
  }

  void StopDomainsIfDone() {
    if (remaining_ > 0) return;
    bool alive = false;
    for (auto& owned : domains_) {
      Domain* domain = owned.get();
      if (domain->process == nullptr || domain->process->gone()) continue;
      alive = true;
      if (domain->stopping) continue;
      domain->stopping = true;
      domain->process->Stop();
      if (domain->silent) {
        Tell(absl::StrCat(domain->plan->name, ": does not answer, killed"));
        domain->process->Kill();
      } else {
        AwaitStop(domain);
      }
    }
    if (!alive) loop_.stop();
  }

  void AwaitStop(Domain* domain) {
    domain->timer.expires_after(Patience());
    domain->timer.async_wait([this, domain](const asio::error_code& error) {
      if (error || domain->process->gone()) return;
      Tell(absl::StrCat(domain->plan->name, ": did not stop in time, killed"));
      domain->process->Kill();
    });
  }

  std::chrono::nanoseconds Patience() const {
    return absl::ToChronoNanoseconds(hurried_ ? std::min(options_.patience, kHurriedPatience) : options_.patience);
  }

  // ---- front-ends

  // Ids are indices of front-ends, which a domain knows of its own only.
  Frontend* FrontendOf(Domain* domain, uint32_t id) {
    if (id >= frontends_.size()) return nullptr;
    Frontend* frontend = frontends_[id].get();
    if (!frontend->plan->domain.has_value() || domains_[*frontend->plan->domain].get() != domain) return nullptr;
    return frontend;
  }

  void Attach(Frontend* frontend) {
    frontend->started = Clock::now();
    const absl::Status status = TryAttach(frontend);
    if (!status.ok()) {
      NotStarted(frontend, std::string(status.message()));
      return;
    }
    frontend->state = Frontend::State::kAttaching;
    frontend->timer.expires_after(absl::ToChronoNanoseconds(options_.patience));
    frontend->timer.async_wait([this, frontend](const asio::error_code& error) {
      if (error || frontend->state != Frontend::State::kAttaching) return;
      NotStarted(frontend, "its GPU Domain did not start a worker in time");
    });
  }

  absl::Status TryAttach(Frontend* frontend) {
    SLUICE_ASSIGN_OR_RETURN(auto channel, CreateSeqPacketPair());
    SLUICE_ASSIGN_OR_RETURN(StatsPage stats, StatsPage::Create("worker-stats"));
    UniqueFd capture;
    const std::string capture_file = frontend->plan->name + ".capture";
    if (frontend->plan->gpu->capture && !options_.out_directory.empty()) {
      absl::StatusOr<UniqueFd> file = OpenOutput(OutPath(capture_file));
      if (!file.ok()) {
        OutputFailed(file.status());
        return file.status();
      }
      capture = *std::move(file);
      frontend->report->capture = capture_file;
    }
    frontend->channel = std::move(channel.first);
    frontend->worker_stats.emplace(std::move(stats));
    return domains_[*frontend->plan->domain]->process->Attach(IdOf(frontend), *frontend->plan, channel.second.get(),
                                                              frontend->worker_stats->fd(), capture.get());
  }

  uint32_t IdOf(const Frontend* frontend) const {
    return static_cast<uint32_t>(frontend->plan - plan_.frontends.data());
  }

  void OnAttached(Domain* domain, uint32_t id, const std::string& error, uint32_t pid) {
    Frontend* frontend = FrontendOf(domain, id);
    if (frontend == nullptr || frontend->state != Frontend::State::kAttaching) return;
    frontend->timer.cancel();
    if (!error.empty()) {
      NotStarted(frontend, absl::StrCat("GPU Domain ", domain->plan->name, ": ", error));
      return;
    }
    frontend->worker_alive = true;
    Tell(absl::StrCat(frontend->plan->name, ": served by ", domain->plan->name, ", worker pid ", pid));
    StartMachine(frontend);
  }

  void StartMachine(Frontend* frontend) {
    FrontendProcess::Options options;
    options.program = options_.vm_program;
    options.kvm = options_.kvm;
    options.firmware = frontend->firmware.get();
    options.channel = frontend->channel.get();
    options.log_level = options_.log_level;
    const std::string serial_file = frontend->plan->name + ".serial.log";
    if (options_.serial)
      options.serial = [this, frontend](absl::string_view bytes) { options_.serial(frontend->plan->name, bytes); };
    FrontendProcess::Events events;
    events.running = [this, frontend] {
      Tell(absl::StrCat(frontend->plan->name, ": running, pid ", frontend->machine->pid()));
    };
    events.ended = [this, frontend] { OnMachineEnded(frontend); };
    frontend->started = Clock::now();
    if (!options_.out_directory.empty()) {
      absl::StatusOr<UniqueFd> file = OpenOutput(OutPath(serial_file));
      if (!file.ok()) {
        OutputFailed(file.status());
        NotStarted(frontend, std::string(file.status().message()));
        return;
      }
      options.serial_file = *std::move(file);
      frontend->report->serial_log = serial_file;
    }
    auto machine = FrontendProcess::Start(loop_, *frontend->plan, std::move(options), std::move(events));
    frontend->channel.Reset();
    frontend->firmware.Reset();
    if (!machine.ok()) {
      NotStarted(frontend, std::string(machine.status().message()));
      return;
    }
    frontend->machine = *std::move(machine);
    frontend->state = Frontend::State::kRunning;
  }

  void NotStarted(Frontend* frontend, const std::string& why) {
    if (frontend->state == Frontend::State::kDone) return;
    frontend->timer.cancel();
    frontend->channel.Reset();
    frontend->firmware.Reset();
    frontend->report->exit_cause = absl::StrCat("not started: ", why);
    Tell(absl::StrCat(frontend->plan->name, ": ", frontend->report->exit_cause));
    Done(frontend);
  }

  // `loss` "": the worker ended as it should.
  void OnWorkerEnded(Frontend* frontend, const std::string& loss) {
    if (!frontend->worker_alive) return;
    frontend->worker_alive = false;
    // The machine's channel is closed now: its contexts are lost, and its guest learns it from the device.
    frontend->worker_loss = frontend->detached && !loss.empty() ? "its worker did not end in time" : loss;
    if (!loss.empty()) Tell(absl::StrCat(frontend->plan->name, ": device lost: ", loss));
    if (frontend->state == Frontend::State::kLeaving) Complete(frontend);
  }

  void OnMachineEnded(Frontend* frontend) {
    frontend->report->time_ms = MillisSince(frontend->started);
    frontend->timer.cancel();
    frontend->state = Frontend::State::kLeaving;
    if (!frontend->worker_alive) {
      Complete(frontend);
      return;
    }
    AwaitWorker(frontend);
  }

  // The worker sees its channel close and ends by itself. If it does not the domain kills it and says so; a domain that
  // says nothing is what hangs, and tells nothing about the worker.
  void AwaitWorker(Frontend* frontend) {
    if (frontend->detached) return;
    frontend->timer.expires_after(Patience());
    // In a hurry its domain asks it to end (SIGTERM) rather soon: that harms no healthy worker.
    if (hurried_) frontend->timer.expires_after(std::min<std::chrono::nanoseconds>(Patience(), kAskWorkerAfter));
    frontend->timer.async_wait([this, frontend](const asio::error_code& error) {
      if (error || frontend->state != Frontend::State::kLeaving) return;
      Domain* domain = domains_[*frontend->plan->domain].get();
      frontend->detached = true;
      domain->process->Detach(IdOf(frontend));
      frontend->timer.expires_after(kDetachTime);
      frontend->timer.async_wait([this, frontend, domain](const asio::error_code& again) {
        if (again || frontend->state != Frontend::State::kLeaving) return;
        domain->silent = true;
        OnWorkerEnded(frontend, "");
      });
    });
  }

  void Complete(Frontend* frontend) {
    FrontendReport& report = *frontend->report;
    const FrontendProcess& machine = *frontend->machine;
    report.exit_code = machine.exit_code();
    report.exit_cause = machine.exit_cause();
    report.ok = machine.exit_code() == 0 && frontend->worker_loss.empty();
    if (!report.ok && frontend->told_to_stop && report_.interrupted == kTimeout)
      report.exit_cause = absl::StrCat(kTimeout, ": ", report.exit_cause);
    if (!frontend->worker_loss.empty()) {
      report.exit_cause = absl::StrCat("device lost: ", frontend->worker_loss, "; then ", report.exit_cause);
    }
    report.first_instruction_ms = static_cast<double>(machine.first_instruction_ns()) / 1e6;
    FillCounters(*frontend, &report);
    if (!machine.serial_error().ok())
      OutputFailed(absl::InternalError(
          absl::StrCat(OutPath(report.serial_log), ": not complete: ", machine.serial_error().message())));
    KeepPicture(*frontend, &report);
    if (frontend->worker_stats.has_value() &&
        frontend->worker_stats->Read(SLUICE_STAT(WorkerStats, capture_failed)) != 0) {
      OutputFailed(absl::ResourceExhaustedError(
          absl::StrCat(OutPath(report.capture), ": the capture is incomplete: it could not be written (disk full?)")));
    }
    Tell(absl::StrCat(report.name, ": ", report.exit_cause));
    Done(frontend);
  }

  static void FillCounters(const Frontend& frontend, FrontendReport* report) {
    const StatsPage& vm = frontend.machine->stats();
    report->pictures_shown = vm.Read(SLUICE_STAT(VmStats, frames));
    report->gpu_commands = vm.Read(SLUICE_STAT(VmStats, gpu_commands));
    report->gpu_errors = vm.Read(SLUICE_STAT(VmStats, gpu_errors));
    report->vm_exits = vm.Read(SLUICE_STAT(VmStats, exits_io)) + vm.Read(SLUICE_STAT(VmStats, exits_mmio)) +
                       vm.Read(SLUICE_STAT(VmStats, exits_hlt)) + vm.Read(SLUICE_STAT(VmStats, exits_other));
    if (!frontend.worker_stats.has_value()) return;
    const StatsPage& worker = *frontend.worker_stats;
    report->commands = worker.Read(SLUICE_STAT(WorkerStats, commands));
    report->frames = worker.Read(SLUICE_STAT(WorkerStats, frames));
    report->bytes = worker.Read(SLUICE_STAT(WorkerStats, bytes_in)) + worker.Read(SLUICE_STAT(WorkerStats, bytes_out));
    report->fences = worker.Read(SLUICE_STAT(WorkerStats, fences));
    report->submits = worker.Read(SLUICE_STAT(WorkerStats, submits));
    report->contexts = worker.Read(SLUICE_STAT(WorkerStats, contexts_total));
    report->contexts_lost = worker.Read(SLUICE_STAT(WorkerStats, contexts_lost));
    report->gpu_ns = worker.Read(SLUICE_STAT(WorkerStats, gpu_ns));
  }

  void KeepPicture(const Frontend& frontend, FrontendReport* report) {
    const std::optional<absl::StatusOr<Picture>> picture = frontend.machine->LastPicture();
    if (!picture.has_value() || options_.out_directory.empty()) return;
    const std::string file = report->name + ".png";
    absl::Status status = picture->status();
    if (status.ok()) {
      status = WritePng(OutPath(file), **picture);
      if (!status.ok()) OutputFailed(status);
    }
    if (status.ok()) {
      report->picture = file;
    } else {
      Tell(absl::StrCat(report->name, ": no picture: ", status.message()));
      report->ok = false;
      absl::StrAppend(&report->exit_cause, "; its picture could not be written: ", status.message());
    }
  }

  void OutputFailed(const absl::Status& status) {
    if (report_.output_error.empty()) report_.output_error = std::string(status.message());
  }

  void Done(Frontend* frontend) {
    frontend->state = Frontend::State::kDone;
    // Counters are read; a machine that ended needs no descriptors any more.
    frontend->worker_stats.reset();
    --remaining_;
    StopDomainsIfDone();
  }

  // ---- ending early

  // Nothing can start any more: every machine that has not is reported so, and what runs is stopped.
  void Abandon(const std::string& why) {
    if (!interrupted_) StopMachines(why);
  }

  void Interrupt(const std::string& reason) {
    report_.interrupted = reason;
    hurried_ = true;
    Tell(absl::StrCat(reason, ": stopping"));
    waiting_.expires_after(std::chrono::seconds(1));
    waiting_.async_wait([this](const asio::error_code& error) {
      if (!error) TellWhatIsWaitedFor();
    });
    StopMachines(reason);
    for (auto& frontend : frontends_) {
      if (frontend->state == Frontend::State::kLeaving) AwaitWorker(frontend.get());
    }
    for (auto& domain : domains_) {
      if (domain->stopping && !domain->process->gone()) AwaitStop(domain.get());
    }
  }

  void TellWhatIsWaitedFor() {
    std::vector<std::string> names;
    for (const auto& frontend : frontends_) {
      if (frontend->state == Frontend::State::kRunning) names.push_back(frontend->plan->name);
      if (frontend->state == Frontend::State::kLeaving) names.push_back(frontend->plan->name + "'s worker");
    }
    for (const auto& domain : domains_) {
      if (domain->stopping && !domain->process->gone()) names.push_back(domain->plan->name);
    }
    const size_t more = names.size() > 8 ? names.size() - 8 : 0;
    if (more > 0) names.resize(8);
    if (!names.empty())
      Tell(absl::StrCat("waiting for ", absl::StrJoin(names, ", "),
                        more > 0 ? absl::StrCat(" and ", more, " more") : "", "; interrupt again to kill"));
  }

  void StopMachines(const std::string& why) {
    interrupted_ = true;
    for (auto& owned : frontends_) {
      Frontend* frontend = owned.get();
      if (frontend->state == Frontend::State::kWaiting || frontend->state == Frontend::State::kAttaching) {
        NotStarted(frontend, why);
      } else if (frontend->state == Frontend::State::kRunning) {
        frontend->told_to_stop = true;
        frontend->machine->Stop();
        frontend->timer.expires_after(Patience());
        frontend->timer.async_wait([this, frontend](const asio::error_code& error) {
          if (error || frontend->state != Frontend::State::kRunning) return;
          Tell(absl::StrCat(frontend->plan->name, ": did not stop in time, killed"));
          frontend->machine->Kill();
        });
      }
    }
    StopDomainsIfDone();
  }

  void KillAll() {
    for (auto& frontend : frontends_) {
      if (frontend->machine != nullptr) frontend->machine->Kill();
    }
    for (auto& domain : domains_) {
      if (domain->process != nullptr) domain->process->Kill();
    }
  }

  Report Finish() {
    report_.time_ms = MillisSince(began_);
    report_.selection = plan_.selection == Selection::kPack     ? "pack"
                        : plan_.selection == Selection::kSpread ? "spread"
                                                                : "least-loaded";
    report_.ok = report_.interrupted.empty() && report_.output_error.empty();
    for (const FrontendReport& frontend : report_.frontends) report_.ok = report_.ok && frontend.ok;
    return std::move(report_);
  }

  asio::io_context loop_;  // first: everything below has handlers in it
  const Plan& plan_;
  const RunOptions& options_;
  asio::signal_set signals_;
  asio::steady_timer deadline_;
  asio::steady_timer waiting_;  // until people are told what is waited for
  const Clock::time_point began_;
  Report report_;
  std::vector<std::unique_ptr<Domain>> domains_;
  std::vector<std::unique_ptr<Frontend>> frontends_;
  size_t remaining_ = 0;  // front-ends that are not done
  bool machines_started_ = false;
  bool interrupted_ = false;
  bool hurried_ = false;  // after a signal or the timeout: somebody waits for the end
};

}  // namespace

absl::StatusOr<Report> RunPlan(const Plan& plan, const RunOptions& options) {
  Supervisor supervisor(plan, options);
  return supervisor.Run();
}

}  // namespace sluice::topology
