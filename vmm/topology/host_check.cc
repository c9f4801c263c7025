#include "vmm/topology/host_check.h"

#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "flatbuf/channel_generated.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/wire.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/hostcheck/execution.h"
#include "vmm/hostcheck/kvm_probe.h"
#include "vmm/hostcheck/memory_probe.h"
#include "vmm/hostcheck/net_probe.h"
#include "vmm/hostcheck/pci_probe.h"
#include "vmm/jail/spawn.h"
#include "vmm/kvm/system.h"
#include "vmm/topology/control_socket.h"
#include "vmm/topology/domain_process.h"
#include "vmm/topology/json.h"
#include "vmm/topology/stats_page.h"
#include "vmm/topology/supervisor.h"

namespace sluice::topology {
namespace {

using hostcheck::Failure;
using hostcheck::Finding;
using hostcheck::Ok;
using hostcheck::Warning;

Finding CheckExecution(const HostCheckOptions& options, const kvm::System& system) {
  const absl::StatusOr<hostcheck::ExecutionRates> rates = hostcheck::MeasureExecution(system, options.patience);
  if (!rates.ok()) {
    return Failure("execution", rates.status().message(), "KVM is there, but guests do not run", "See the kernel log.");
  }
  return hostcheck::DescribeExecution(*rates, hostcheck::ReadCpuFacts(options.files));
}

Finding CheckGuest(const HostCheckOptions& options, const kvm::System& system) {
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
    return Warning("guest", report.status().message(), "no guest was tried", "Build the firmware to try one.");
  }
  if (!report.ok()) return Failure("guest", report.status().message(), "VMs do not run", "");
  const FrontendReport& probe = report->frontends[0];
  if (!probe.ok) {
    return Failure("guest", absl::StrCat("a small guest did not run to its end: ", probe.exit_cause),
                   "KVM is there, but guests do not run", "See the kernel log.");
  }
  return Ok("guest", absl::StrFormat(
                         "a small guest in a jailed VM process ran to its end in %.0f ms, its first instruction after "
                         "%.1f ms",
                         probe.time_ms, probe.first_instruction_ms));
}

Finding CheckVulkan(const HostCheckOptions& options) {
  const size_t slash = options.domain_program.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : options.domain_program.substr(0, slash + 1);
  constexpr char kFollows[] = "GPU Domains as processes do not work";
  for (const std::string& program : {options.domain_program, directory + "sluice-worker"}) {
    if (access(program.c_str(), X_OK) == 0) continue;
    return Failure("Vulkan", absl::StrCat("was not tried: ", program, ": ", std::strerror(errno)), kFollows,
                   "Build or install sluice-domain and sluice-worker beside sluice.");
  }
  const absl::StatusOr<std::string> device = ProbeVulkanDevice(options);
  if (!device.ok()) {
    return Failure("Vulkan", device.status().message(), kFollows,
                   "Install a Vulkan driver (Debian: mesa-vulkan-drivers), or point VK_ICD_FILENAMES at one.");
  }
  const std::string found = absl::StrCat("a GPU Domain worker answers; its device is ", *device);
  if (absl::StrContains(*device, "llvmpipe")) {
    return Ok("Vulkan", found, "that is the processor: everything works, nothing is fast");
  }
  return Ok("Vulkan", found);
}

Finding CheckNamespaces() {
  const jail::Namespaces have = jail::ProbeNamespaces();
  if (have == jail::Namespaces::All()) {
    return Ok("namespaces", "VM processes and workers get their own user, mount, net, pid, ipc and uts namespaces");
  }
  return Warning("namespaces", absl::StrCat("this process may create: ", have.ToString()),
                 "VM processes and workers are confined by the rest of the jail (no file system, no capabilities, "
                 "system call filters) all the same",
                 "For the others allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
                 "user.max_user_namespaces above 0) or run as root.");
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

std::vector<Finding> CheckHost(const HostCheckOptions& options) {
  std::vector<Finding> findings;
  std::optional<kvm::System> system;
  findings.push_back(hostcheck::ProbeKvm(options.kvm_device, &system));
  if (system.has_value()) {
    findings.push_back(
        hostcheck::ProbeCapabilities([&](kvm::Capability capability) { return system->Check(capability); }));
    findings.push_back(CheckExecution(options, *system));
    findings.push_back(CheckGuest(options, *system));
  }
  findings.push_back(CheckVulkan(options));
  findings.push_back(CheckNamespaces());
  for (Finding& finding : hostcheck::ProbePassthrough(options.files)) findings.push_back(std::move(finding));
  findings.push_back(hostcheck::ProbeHugePages(options.files));
  findings.push_back(hostcheck::ProbeTap(options.files, geteuid()));
  return findings;
}

bool HostIsUsable(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.level == Finding::Level::kFailure; });
}

std::string HostCheckJson(const std::vector<Finding>& findings) {
  std::string json =
      absl::StrCat("{\n  \"usable\": ", HostIsUsable(findings) ? "true" : "false", ",\n  \"findings\": [");
  const char* separator = "\n";
  for (const Finding& finding : findings) {
    absl::StrAppend(&json, separator, "    {\"subject\": ", QuoteJson(finding.subject),
                    ", \"level\": ", QuoteJson(hostcheck::LevelName(finding.level)),
                    ", \"found\": ", QuoteJson(finding.found));
    absl::StrAppend(&json, ", \"follows\": ", QuoteJson(finding.follows), ", \"remedy\": ", QuoteJson(finding.remedy),
                    "}");
    separator = ",\n";
  }
  return absl::StrCat(json, "\n  ]\n}\n");
}

}  // namespace sluice::topology
