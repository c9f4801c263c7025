#include "vmm/topology/host_check.h"

#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "flatbuf/channel_generated.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/wire.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/jail/spawn.h"
#include "vmm/kvm/system.h"
#include "vmm/kvm/vm.h"
#include "vmm/topology/control_socket.h"
#include "vmm/topology/domain_process.h"
#include "vmm/topology/stats_page.h"
#include "vmm/topology/supervisor.h"

namespace sluice::topology {
namespace {

using Level = HostFinding::Level;

// What every machine needs (vmm/machine): without one of these nothing runs.
constexpr std::initializer_list<kvm::Capability> kNeeded = {
    kvm::Capability::kIrqchip,   kvm::Capability::kUserMemory, kvm::Capability::kIrqfd,
    kvm::Capability::kIoeventfd, kvm::Capability::kSignalMsi,  kvm::Capability::kImmediateExit};

// For whoever has no KVM and wants to go on today.
constexpr char kWithoutKvm[] =
    "Until then no VM runs here; GPU Domains do. To try VMs all the same, in Sluice's source tree: `./dev demo`, or "
    "`./dev nested -- CMD` for any command; they use an emulated machine that has KVM, slowly.";

HostFinding CheckKvm(const HostCheckOptions& options, std::optional<kvm::System>* system) {
  absl::StatusOr<kvm::System> opened = kvm::System::Open(options.kvm_device);
  if (!opened.ok()) {
    const std::string subject =
        absl::IsNotFound(opened.status()) ? absl::StrCat("no ", options.kvm_device, ": ") : std::string();
    return {Level::kFailure, "KVM", absl::StrCat(subject, opened.status().message(), ". ", kWithoutKvm)};
  }
  // A KVM that answers may still make no VM, for instance because another hypervisor holds the processor.
  if (const absl::Status made = kvm::Vm::Create(*opened).status(); !made.ok()) {
    return {Level::kFailure, "KVM",
            absl::StrCat(options.kvm_device, " is there but makes no VM: ", made.message(),
                         "; see the kernel log, and end other hypervisors. ", kWithoutKvm)};
  }
  const absl::Status needed = opened->Require(kNeeded);
  if (!needed.ok()) {
    return {Level::kFailure, "KVM", absl::StrCat(needed.message(), ". No VM runs; use a kernel whose KVM has these.")};
  }
  *system = *std::move(opened);
  return {Level::kOk, "KVM", absl::StrCat(options.kvm_device, " is there, permitted, and has what machines need")};
}

HostFinding CheckGuest(const HostCheckOptions& options, const kvm::System& system) {
  Plan plan;
  FrontendPlan machine;
  machine.name = "probe";
  machine.os = "bare";
  machine.mem_mib = 16;
  machine.firmware = options.firmware_directory + "/hello.elf";
  plan.frontends.push_back(machine);
  RunOptions run;
  run.kvm = system.fd();
  run.vm_program = options.vm_program;
  run.timeout = options.patience;
  run.handle_signals = false;
  const absl::StatusOr<Report> report = RunPlan(plan, run);
  if (absl::IsNotFound(report.status())) {
    return {Level::kWarning, "guest",
            absl::StrCat(report.status().message(), ". No guest was tried; build the firmware to try one.")};
  }
  if (!report.ok()) return {Level::kFailure, "guest", std::string(report.status().message())};
  const FrontendReport& probe = report->frontends[0];
  if (!probe.ok) {
    return {Level::kFailure, "guest",
            absl::StrCat("a small guest did not run to its end: ", probe.exit_cause,
                         ". KVM is there, but guests do not run; see the kernel log.")};
  }
  return {Level::kOk, "guest",
          absl::StrFormat("a small guest ran to its end in %.0f ms, its first instruction after %.1f ms", probe.time_ms,
                          probe.first_instruction_ms)};
}

HostFinding CheckVulkan(const HostCheckOptions& options) {
  const size_t slash = options.domain_program.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : options.domain_program.substr(0, slash + 1);
  for (const std::string& program : {options.domain_program, directory + "sluice-worker"}) {
    if (access(program.c_str(), X_OK) == 0) continue;
    return {Level::kFailure, "Vulkan",
            absl::StrCat("was not tried: ", program, ": ", std::strerror(errno),
                         ". Build or install sluice-domain and sluice-worker beside sluice.")};
  }
  const absl::StatusOr<std::string> device = ProbeVulkanDevice(options);
  if (device.ok()) return {Level::kOk, "Vulkan", absl::StrCat("a GPU Domain worker answers; its device is ", *device)};
  return {Level::kFailure, "Vulkan",
          absl::StrCat(device.status().message(),
                       ". GPU Domains with process isolation do not work; install a Vulkan driver (Debian: "
                       "mesa-vulkan-drivers), or point "
                       "VK_ICD_FILENAMES at one.")};
}

HostFinding CheckNamespaces() {
  const jail::Namespaces have = jail::ProbeNamespaces();
  if (have == jail::Namespaces::All()) {
    return {Level::kOk, "namespaces",
            "VM processes and workers get their own user, mount, net, pid, ipc and uts namespaces"};
  }
  return {
      Level::kWarning, "namespaces",
      absl::StrCat(
          "this process may create: ", have.ToString(),
          ". VM processes and workers are confined by the rest of the jail (no file system, no capabilities, system "
          "call "
          "filters) all the same; for the others allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
          "user.max_user_namespaces above 0) or run as root.")};
}

}  // namespace

absl::StatusOr<std::string> ProbeVulkanDevice(const HostCheckOptions& options) {
  DomainPlan plan;
  plan.name = "probe";
  plan.os = "bare";
  FrontendPlan frontend;
  frontend.name = "probe";
  frontend.os = "bare";
  frontend.gpu = GpuPlan{.memory_bytes = uint64_t{64} << 20};
  SLUICE_ASSIGN_OR_RETURN(auto channel, CreateSeqPacketPair());
  SLUICE_ASSIGN_OR_RETURN(const StatsPage stats, StatsPage::Create("worker-stats"));

  asio::io_context loop;
  absl::StatusOr<std::string> answer = absl::DeadlineExceededError("the GPU Domain did not answer in time");
  std::unique_ptr<DomainProcess> domain;
  bool answered = false;
  const auto finish = [&](absl::StatusOr<std::string> result) {
    if (answered) return;  // what follows is the end of the domain, wanted or not
    answered = true;
    answer = std::move(result);
    loop.stop();
  };

  ControlSocket service(loop, std::move(channel.first));
  DomainProcess::Events events;
  events.ready = [&] {
    const absl::Status status = domain->Attach(0, frontend, channel.second.get(), stats.fd(), -1);
    channel.second.Reset();
    if (!status.ok()) finish(status);
  };
  events.attached = [&](uint32_t, const std::string& error, uint32_t) {
    if (!error.empty()) finish(absl::UnavailableError(absl::StrCat("no worker: ", error)));
  };
  events.worker_exited = [&](uint32_t, const std::string& how) {
    finish(absl::UnavailableError(absl::StrCat("the worker ended: ", how.empty() ? "by itself" : how)));
  };
  events.gone = [&](const std::string& how) {
    loop.stop();
    finish(absl::UnavailableError(absl::StrCat("the GPU Domain ended: ", how.empty() ? "by itself" : how)));
  };
  // The front-end's side of the channel: Hello, and the capability set that comes back names the device.
  wire::HelloT hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.schema_hash = wire::kSchemaHash;
  hello.frontend = frontend.name;
  hello.os = frontend.os;
  wire::DomainMessageT message;
  message.body.Set(std::move(hello));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::DomainMessage::Pack(builder, &message));
  SLUICE_RETURN_IF_ERROR(service.Send(builder));
  service.Start(
      [&](Packet packet) -> absl::Status {
        const auto* root = VerifiedRoot<wire::FrontendMessage>(packet);
        const auto* reply = root == nullptr ? nullptr : root->body_as_HelloReply();
        if (reply == nullptr || reply->capset() == nullptr || reply->capset()->size() < sizeof(wire::Capset)) {
          return absl::InvalidArgumentError("the worker's first message is not a capability set");
        }
        wire::Capset capset;
        std::memcpy(&capset, reply->capset()->data(), sizeof(capset));
        finish(std::string(capset.device_name, strnlen(capset.device_name, sizeof(capset.device_name))));
        return absl::OkStatus();
      },
      [&](const std::string& why) {
        // How the worker ended is worth more than that it did; worker_exited follows.
        if (!why.empty()) finish(absl::InvalidArgumentError(why));
      });

  SLUICE_ASSIGN_OR_RETURN(
      domain, DomainProcess::Start(loop, options.domain_program, plan, LogLevel::kError, std::move(events)));
  loop.run_for(absl::ToChronoNanoseconds(options.patience));
  // Ends the domain in order, if it still can.
  service.Close();
  if (!domain->gone()) {
    answered = true;
    domain->Stop();
    loop.restart();
    loop.run_for(absl::ToChronoNanoseconds(options.patience));
  }
  return answer;
}

std::vector<HostFinding> CheckHost(const HostCheckOptions& options) {
  std::vector<HostFinding> findings;
  std::optional<kvm::System> system;
  findings.push_back(CheckKvm(options, &system));
  if (system.has_value()) findings.push_back(CheckGuest(options, *system));
  findings.push_back(CheckVulkan(options));
  findings.push_back(CheckNamespaces());
  return findings;
}

}  // namespace sluice::topology
