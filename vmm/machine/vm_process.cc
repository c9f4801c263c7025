#include "vmm/machine/vm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "flatbuf/control_generated.h"
#include "vmm/base/abort.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/elf.h"
#include "vmm/jail/privileges.h"
#include "vmm/jail/seccomp.h"
#include "vmm/machine/clock.h"
#include "vmm/machine/machine.h"
#include "vmm/machine/seccomp_vm.h"

namespace sluice::machine {
namespace {

// Where StartVmProcess puts descriptors.
enum FdNumber : int { kControlFd = 3, kKvmFd, kFirmwareFd, kChannelFd, kStatsFd, kSerialFd, kInitramfsFd };

constexpr uint64_t kMaxOpenFiles = 4096;
// A guest may talk for ever; its log does not grow for ever.
constexpr uint64_t kMaxSerialBytes = uint64_t{16} << 20;
// How long the supervisor may leave its socket full before it counts as gone.
constexpr int kSendPatienceMs = 10'000;

bool IsOpen(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

// The optional descriptors, told apart before this process opens any of its own (which would take the free numbers).
struct GivenFds {
  UniqueFd channel;
  UniqueFd stats;
  UniqueFd serial;
  UniqueFd initramfs;
};
GivenFds TakeGivenFds() {
  auto take = [](int number) { return UniqueFd(IsOpen(number) ? number : -1); };
  return {take(kChannelFd), take(kStatsFd), take(kSerialFd), take(kInitramfsFd)};
}

// Writes what the guest says to a descriptor; calls come one at a time.
class SerialLog {
 public:
  explicit SerialLog(UniqueFd fd) : fd_(std::move(fd)) {}

  void Write(absl::string_view text) {
    if (!fd_.valid() || written_ > kMaxSerialBytes) return;
    written_ += text.size();
    if (written_ > kMaxSerialBytes) text = "\n[serial log full: 16 MiB]\n";
    while (!text.empty()) {
      const ssize_t n = write(fd_.get(), text.data(), text.size());
      // EINTR is the kick that ends this thread; EAGAIN is a reader that does not keep up. Neither is worth a hanging
      // guest.
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }

 private:
  UniqueFd fd_;
  uint64_t written_ = 0;
};

// The control socket and the machine behind it. Loop thread.
class VmProcess {
 public:
  VmProcess(asio::io_context& loop, const VmProcessArguments& arguments, GivenFds given)
      : loop_(loop),
        arguments_(arguments),
        given_(std::move(given)),
        control_(loop),
        serial_(std::move(given_.serial)) {}

  int Main();

 private:
  absl::Status Run();
  absl::StatusOr<std::unique_ptr<Machine>> Build();
  void ArmControl();
  void OnControl();
  void Handle(const Packet& packet);
  void OnEnd(const MachineEnd& end);
  void SendScanout();
  void SendExited(int code, absl::string_view cause);
  template <typename Table>
  void Send(wire::FromVm type, Table table, int fd = -1);

  asio::io_context& loop_;
  const VmProcessArguments arguments_;
  GivenFds given_;
  asio::posix::stream_descriptor control_;
  SerialLog serial_;
  std::unique_ptr<Machine> machine_;
  bool orphaned_ = false;
  bool host_error_ = false;
};

template <typename Table>
void VmProcess::Send(wire::FromVm type, Table table, int fd) {
  if (orphaned_) return;
  wire::VmEventT event;
  event.body.type = type;
  event.body.value = new Table(std::move(table));  // owned by the union
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::VmEvent::Pack(builder, &event));
  const std::vector<int> fds = fd >= 0 ? std::vector<int>{fd} : std::vector<int>{};
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    status = SendPacket(kControlFd, {builder.GetBufferPointer(), builder.GetSize()}, fds);
    if (status.code() != absl::StatusCode::kResourceExhausted) break;
    pollfd writable = {kControlFd, POLLOUT, 0};
    poll(&writable, 1, kSendPatienceMs);
  }
  if (!status.ok()) {
    SLUICE_LOG(warn, "event to the supervisor: {}", status.ToString());
    orphaned_ = true;
  }
}

void VmProcess::SendExited(int code, absl::string_view cause) {
  wire::VmExitedT exited;
  exited.code = code;
  exited.cause = std::string(cause);
  Send(wire::FromVm::VmExited, std::move(exited));
}

void VmProcess::SendScanout() {
  wire::VmScanoutT message;
  absl::StatusOr<gpu_front::ScanoutImage> image = machine_->SnapshotScanout();
  if (!image.ok()) {
    SLUICE_LOG(warn, "scanout: {}", image.status().ToString());
    Send(wire::FromVm::VmScanout, std::move(message));
    return;
  }
  message.width = image->width;
  message.height = image->height;
  message.stride = image->stride;
  message.format = image->format;
  Send(wire::FromVm::VmScanout, std::move(message), image->width > 0 ? image->memfd.get() : -1);
}

void VmProcess::ArmControl() {
  control_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) OnControl();
  });
}

void VmProcess::OnControl() {
  for (;;) {
    auto packet = ReceivePacket(kControlFd, /*nonblocking=*/true);
    if (packet.status().code() == absl::StatusCode::kResourceExhausted) break;
    if (!packet.ok() || !packet->has_value()) {
      SLUICE_LOG(warn, "the supervisor is gone{}", packet.ok() ? "" : absl::StrCat(": ", packet.status().message()));
      orphaned_ = true;
      machine_->Stop();
      return;
    }
    Handle(**packet);
  }
  ArmControl();
}

void VmProcess::Handle(const Packet& packet) {
  flatbuffers::Verifier verifier(packet.bytes.data(), packet.bytes.size());
  if (!verifier.VerifyBuffer<wire::VmMessage>(nullptr)) {
    SLUICE_LOG(warn, "a control message that is none");
    return;
  }
  const auto* message = flatbuffers::GetRoot<wire::VmMessage>(packet.bytes.data());
  switch (message->body_type()) {
    case wire::ToVm::VmStop:
      machine_->Stop();
      break;
    case wire::ToVm::VmScreenshot:
      SendScanout();
      break;
    default:
      SLUICE_LOG(warn, "unknown control message {}", static_cast<int>(message->body_type()));
  }
}

void VmProcess::OnEnd(const MachineEnd& end) {
  host_error_ = end.cause == EndCause::kHostError;
  SendScanout();
  SendExited(end.code, end.detail.empty() ? std::string(EndCauseName(end.cause))
                                          : absl::StrCat(EndCauseName(end.cause), ": ", end.detail));
  loop_.stop();
}

absl::StatusOr<std::unique_ptr<Machine>> VmProcess::Build() {
  const VmProcessConfig& config = arguments_.config;
  MachineOptions options;
  options.name = config.name;
  options.kvm.Reset(kKvmFd);
  UniqueFd image(kFirmwareFd);
  if (config.kernel) {
    options.kernel.emplace();
    options.kernel->image = std::move(image);
    options.kernel->initramfs = std::move(given_.initramfs);
    if (config.restart) options.on_reset = ResetAction::kRestart;
  } else {
    SLUICE_ASSIGN_OR_RETURN(options.firmware, boot::ReadImage(image.get()));
    image.Reset();
  }
  options.mem_mib = config.mem_mib;
  options.vcpus = config.vcpus;
  options.cmdline = config.cmdline;
  options.start_time_ns = arguments_.start_time_ns;
  options.serial = [this](absl::string_view text) { serial_.Write(text); };
  options.confine = [] {
    return VmSeccompPolicy(getpid()).Install(jail::SeccompPhase::kRun, jail::SeccompModeFromEnvironment());
  };
  if (config.gpu) {
    options.gpu.emplace();
    options.gpu->width = config.display_width;
    options.gpu->height = config.display_height;
    options.gpu->window_bytes = config.window_bytes;
    options.gpu->os = config.os;
    options.gpu->channel = std::move(given_.channel);
  }
  if (given_.stats) {
    const UniqueFd stats = std::move(given_.stats);
    SLUICE_ASSIGN_OR_RETURN(options.stats, Mapping::MapShared(stats.get(), 0, kPageSize, Mapping::kReadWrite));
  }
  return Machine::Create(loop_, std::move(options));
}

absl::Status VmProcess::Run() {
  tzset();  // the logger's time zone, while there is a file system
  SLUICE_ASSIGN_OR_RETURN(const jail::EmptyRoot::Kind root, jail::EmptyRoot::EnterNow());
  SLUICE_RETURN_IF_ERROR(jail::DropPrivileges());
  SLUICE_RETURN_IF_ERROR(
      VmSeccompPolicy(getpid()).Install(jail::SeccompPhase::kInit, jail::SeccompModeFromEnvironment()));
  SLUICE_LOG(debug, "jail: privileges dropped, root directory: {}", jail::EmptyRoot::KindName(root));
  SLUICE_ASSIGN_OR_RETURN(machine_, Build());

  asio::error_code error;
  control_.assign(kControlFd, error);
  if (error) return absl::InternalError(absl::StrCat("control socket: ", error.message()));
  ArmControl();
  machine_->OnFirstMark([this](uint64_t nanoseconds) {
    wire::VmRunningT running;
    running.first_instruction_ns = nanoseconds;
    Send(wire::FromVm::VmRunning, std::move(running));
  });
  return machine_->Start([this](const MachineEnd& end) { OnEnd(end); });
}

int VmProcess::Main() {
  if (const absl::Status status = Run(); !status.ok()) {
    SLUICE_LOG(error, "{}", status.ToString());
    SendExited(-1, absl::StrCat(EndCauseName(EndCause::kHostError), ": ", status.ToString()));
    machine_.reset();
    return kVmProcessHost;
  }
  loop_.run();
  machine_.reset();
  if (orphaned_) return kVmProcessOrphaned;
  return host_error_ ? kVmProcessHost : kVmProcessOk;
}

}  // namespace

int VmProcessMain(int argc, char** argv) {
  const auto arguments = DecodeVmProcessArguments(std::vector<absl::string_view>(argv, argv + argc));
  if (!arguments.ok() || !IsOpen(kControlFd) || !IsOpen(kKvmFd) || !IsOpen(kFirmwareFd)) {
    const std::string why = arguments.ok() ? "a descriptor is missing" : std::string(arguments.status().message());
    std::fprintf(stderr, "vm-process: %s (started by hand? 'sluice vm' starts a machine)\n", why.c_str());
    return kVmProcessUsage;
  }
  GivenFds given = TakeGivenFds();
  MakeAbortVisible();
  // One arena: a vCPU thread allocates next to nothing.
  mallopt(M_ARENA_MAX, 1);
  InitLogging(absl::StrCat("vm ", arguments->config.name), arguments->config.log_level);
  asio::io_context loop(1);
  int code;
  {
    VmProcess process(loop, *arguments, std::move(given));
    code = process.Main();
    std::fflush(nullptr);
    // No destructors beyond this: the process is confined, has said its last word, and a leak checker cannot trace it.
    _exit(code);
  }
}

absl::StatusOr<jail::ChildProcess> StartVmProcess(const std::string& program, const VmProcessConfig& config,
                                                  const VmProcessFds& fds) {
  jail::SpawnOptions options;
  options.program = program;
  options.arguments = {kVmProcessVerb};
  for (std::string& argument : EncodeVmProcessArguments(config, MonotonicNanos())) {
    options.arguments.push_back(std::move(argument));
  }
  options.environment = jail::InheritedEnvironment();
  const std::pair<int, FdNumber> numbers[] = {
      {fds.control, kControlFd}, {fds.kvm, kKvmFd},       {fds.firmware, kFirmwareFd},  {fds.channel, kChannelFd},
      {fds.stats, kStatsFd},     {fds.serial, kSerialFd}, {fds.initramfs, kInitramfsFd}};
  for (const auto& [fd, number] : numbers) {
    if (fd >= 0) options.fds.push_back({fd, number});
  }
  if (fds.error >= 0) options.fds.push_back({fds.error, STDERR_FILENO});
  options.namespaces = jail::Namespaces::All();
  options.max_open_files = kMaxOpenFiles;
  return jail::Spawn(options);
}

}  // namespace sluice::machine
