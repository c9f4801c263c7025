#include "vmm/topology/frontend_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "flatbuf/control_generated.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/machine/vm_process.h"

namespace sluice::topology {

absl::StatusOr<std::unique_ptr<FrontendProcess>> FrontendProcess::Start(asio::io_context& loop,
                                                                        const FrontendPlan& plan, Options options,
                                                                        Events events) {
  SLUICE_ASSIGN_OR_RETURN(auto sockets, CreateSeqPacketPair());
  SLUICE_ASSIGN_OR_RETURN(StatsPage stats, StatsPage::Create("vm-stats"));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<SerialLog> serial,
                          SerialLog::Create(loop, std::move(options.serial_file), options.serial));
  const UniqueFd serial_end = serial->TakeWriteEnd();

  machine::VmProcessConfig config;
  config.name = plan.name;
  config.mem_mib = plan.mem_mib;
  config.vcpus = plan.vcpus;
  config.cmdline = plan.cmdline;
  config.gpu = plan.gpu.has_value();
  config.os = plan.os;
  if (plan.gpu.has_value()) config.window_bytes = plan.gpu->window_bytes;
  config.log_level = options.log_level;
  machine::VmProcessFds fds;
  fds.control = sockets.second.get();
  fds.kvm = options.kvm;
  fds.firmware = options.firmware;
  fds.channel = options.channel;
  fds.stats = stats.fd();
  fds.serial = serial_end.get();
  SLUICE_ASSIGN_OR_RETURN(jail::ChildProcess child, machine::StartVmProcess(options.program, config, fds));
  SLUICE_ASSIGN_OR_RETURN(UniqueFd pidfd, DuplicateFd(child.pidfd()));
  return std::unique_ptr<FrontendProcess>(new FrontendProcess(loop, std::move(child), std::move(sockets.first),
                                                              std::move(pidfd), std::move(stats), std::move(serial),
                                                              std::move(events)));
}

FrontendProcess::FrontendProcess(asio::io_context& loop, jail::ChildProcess child, UniqueFd control, UniqueFd pidfd,
                                 StatsPage stats, std::unique_ptr<SerialLog> serial, Events events)
    : child_(std::move(child)),
      control_(loop, std::move(control)),
      end_(loop, std::move(pidfd)),
      stats_(std::move(stats)),
      serial_(std::move(serial)),
      events_(std::move(events)) {
  control_.Start([this](Packet packet) { return OnPacket(std::move(packet)); },
                 [this](const std::string& why) {
                   violation_ = why;
                   if (!why.empty()) child_.Kill();
                 });
  end_.Start([this] { return OnEnded(); });
}

void FrontendProcess::Stop() {
  wire::VmMessageT message;
  message.body.Set(wire::VmStopT());
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::VmMessage::Pack(builder, &message));
  if (!control_.Send(builder).ok()) child_.Kill();
}

absl::Status FrontendProcess::OnPacket(Packet packet) {
  const auto* event = VerifiedRoot<wire::VmEvent>(packet);
  if (event == nullptr) return absl::InvalidArgumentError("it sent a message that does not verify");
  if (said_exit_) return absl::InvalidArgumentError("it went on talking after its last message");
  if (const auto* running = event->body_as_VmRunning()) {
    first_instruction_ns_ = running->first_instruction_ns();
    events_.running();
  } else if (const auto* scanout = event->body_as_VmScanout()) {
    if (scanout->width() == 0) return absl::OkStatus();  // nothing is shown (any more): the last picture stays
    if (packet.fds.empty()) return absl::InvalidArgumentError("it sent a scanout without memory");
    shape_ = {scanout->width(), scanout->height(), scanout->stride(), scanout->format()};
    scanout_ = std::move(packet.fds[0]);
  } else if (const auto* exited = event->body_as_VmExited()) {
    said_exit_ = true;
    exit_code_ = exited->code();
    exit_cause_ = ShortText(exited->cause());
  } else {
    return absl::InvalidArgumentError("it sent an unknown message");
  }
  return absl::OkStatus();
}

bool FrontendProcess::OnEnded() {
  const absl::StatusOr<jail::ExitStatus> status = child_.Wait(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(status.status())) return true;
  control_.Drain();
  control_.Close();
  serial_->Finish();
  if (!violation_.empty()) {
    exit_code_ = -1;
    exit_cause_ = absl::StrCat("the VM process was killed: ", violation_);
  } else if (!said_exit_) {
    exit_code_ = -1;
    exit_cause_ = absl::StrCat("the VM process ended without a word: ",
                               status.ok() ? status->ToString() : std::string(status.status().message()));
  }
  events_.ended();
  return false;
}

std::optional<absl::StatusOr<Picture>> FrontendProcess::LastPicture() const {
  if (!scanout_.valid()) return std::nullopt;
  return ReadScanout(shape_, scanout_.get());
}

}  // namespace sluice::topology
