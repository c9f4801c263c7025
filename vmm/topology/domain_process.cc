#include "vmm/topology/domain_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "flatbuf/control_generated.h"
#include "gpu-domain/worker/options.h"
#include "vmm/base/status_macros.h"

namespace sluice::topology {
namespace {

constexpr int kControlFdInChild = 3;

template <typename BodyT>
void Pack(BodyT body, flatbuffers::FlatBufferBuilder* builder) {
  wire::BrokerMessageT message;
  message.body.Set(std::move(body));
  builder->Finish(wire::BrokerMessage::Pack(*builder, &message));
}

// How a worker ended, for people; "" if as it should.
std::string WorkerEnd(const wire::WorkerExited& exited, const std::vector<std::string>& gpus) {
  jail::ExitStatus status;
  status.code = exited.exit_code();
  status.signal = exited.signal();
  if (status.clean()) return "";
  if (status.signal != 0) return status.ToString();
  switch (status.code) {
    case worker::kExitProtocol:
      return "the VM process broke the protocol of the service channel";
    case worker::kExitNoVulkan:
      return gpus.empty()
                 ? "there is no Vulkan device that it may use"
                 : absl::StrCat(
                       "there is no Vulkan device that it may use: its domain selects those whose name contains \"",
                       absl::StrJoin(gpus, "\" or \""), "\"; the worker's log line lists what there is");
    case worker::kExitHung:
      return "the GPU or its driver hangs";
    case worker::kExitJail:
      return "it could not be confined";
    default:
      return status.ToString();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DomainProcess>> DomainProcess::Start(asio::io_context& loop, const std::string& program,
                                                                    const DomainPlan& plan, LogLevel log_level,
                                                                    Events events) {
  SLUICE_ASSIGN_OR_RETURN(auto sockets, CreateSeqPacketPair());
  jail::SpawnOptions options;
  options.program = program;
  options.arguments = {absl::StrCat("--control_fd=", kControlFdInChild)};
  // What decides which Vulkan driver the workers load.
  options.environment =
      jail::InheritedEnvironment({"HOME", "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "LP_NUM_THREADS", "XDG_DATA_DIRS",
                                  "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "MESA_SHADER_CACHE_DISABLE"});
  options.fds = {{sockets.second.get(), kControlFdInChild}};
  SLUICE_ASSIGN_OR_RETURN(jail::ChildProcess child, jail::Spawn(options));
  SLUICE_ASSIGN_OR_RETURN(UniqueFd pidfd, DuplicateFd(child.pidfd()));
  std::unique_ptr<DomainProcess> domain(
      new DomainProcess(loop, std::move(child), std::move(sockets.first), std::move(pidfd), std::move(events)));
  domain->gpus_ = plan.gpus;
  wire::DomainStartT start;
  start.name = plan.name;
  start.os = plan.os;
  start.gpus = plan.gpus;
  start.log_level = static_cast<uint8_t>(log_level);
  flatbuffers::FlatBufferBuilder message;
  Pack(std::move(start), &message);
  // A domain that has died already is reported by its pidfd.
  static_cast<void>(domain->control_.Send(message));
  return domain;
}

DomainProcess::DomainProcess(asio::io_context& loop, jail::ChildProcess child, UniqueFd control, UniqueFd pidfd,
                             Events events)
    : child_(std::move(child)),
      control_(loop, std::move(control)),
      end_(loop, std::move(pidfd)),
      events_(std::move(events)) {
  control_.Start([this](Packet packet) { return OnPacket(packet); },
                 [this](const std::string& why) {
                   violation_ = why;
                   // A socket that was merely closed belongs to a domain that is ending; if it is not, Stop() will kill
                   // it.
                   if (!why.empty()) child_.Kill();
                 });
  end_.Start([this] { return OnEnded(); });
}

absl::Status DomainProcess::Attach(uint32_t id, const FrontendPlan& frontend, int channel, int stats, int capture) {
  wire::AttachFrontendT attach;
  attach.id = id;
  attach.name = frontend.name;
  attach.os = frontend.os;
  attach.memory_bytes = frontend.gpu->memory_bytes;
  attach.max_contexts = frontend.gpu->max_contexts;
  attach.share = frontend.gpu->share;
  attach.capture = capture >= 0;
  attach.require_hardware = frontend.gpu->require_hardware;
  flatbuffers::FlatBufferBuilder message;
  Pack(std::move(attach), &message);
  return capture >= 0 ? control_.Send(message, {channel, stats, capture}) : control_.Send(message, {channel, stats});
}

void DomainProcess::Detach(uint32_t id) {
  wire::DetachFrontendT detach;
  detach.id = id;
  flatbuffers::FlatBufferBuilder message;
  Pack(std::move(detach), &message);
  static_cast<void>(control_.Send(message));  // fails only when the domain is gone, and its workers with it
}

void DomainProcess::Stop() {
  flatbuffers::FlatBufferBuilder message;
  Pack(wire::DomainStopT(), &message);
  if (!control_.Send(message).ok()) child_.Kill();
}

absl::Status DomainProcess::OnPacket(const Packet& packet) {
  const auto* event = VerifiedRoot<wire::BrokerEvent>(packet);
  if (event == nullptr) return absl::InvalidArgumentError("it sent a message that does not verify");
  if (event->body_as_DomainReady() != nullptr) {
    events_.ready();
  } else if (const auto* attached = event->body_as_Attached()) {
    events_.attached(attached->id(), ShortText(attached->error()), attached->pid());
  } else if (const auto* exited = event->body_as_WorkerExited()) {
    events_.worker_exited(exited->id(), WorkerEnd(*exited, gpus_));
  } else {
    return absl::InvalidArgumentError("it sent an unknown message");
  }
  return absl::OkStatus();
}

bool DomainProcess::OnEnded() {
  const absl::StatusOr<jail::ExitStatus> status = child_.Wait(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(status.status())) return true;
  control_.Drain();
  control_.Close();
  gone_ = true;
  std::string how = !status.ok() ? std::string(status.status().message()) : status->clean() ? "" : status->ToString();
  if (!violation_.empty()) how = absl::StrCat(violation_, ", and was killed");
  events_.gone(how);
  return false;
}

}  // namespace sluice::topology
