// `sluice run` and `sluice vm`.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "vmm/base/log.h"
#include "vmm/base/unique_fd.h"
#include "vmm/cli/commands.h"
#include "vmm/cli/config_files.h"
#include "vmm/cli/exit_code.h"
#include "vmm/jail/spawn.h"
#include "vmm/kvm/system.h"
#include "vmm/topology/json.h"
#include "vmm/topology/report.h"
#include "vmm/topology/supervisor.h"

namespace sluice::cli {
namespace {

std::vector<OptionSpec> CommonOptions() {
  return {{"out", "DIR", "",
           "write report.json, <front-end>.png, <front-end>.serial.log and captures here; created if missing"},
          {"timeout", "TIME", "", "end the run after this time, e.g. 90s or 5m"},
          {"log-level", "LEVEL", "warn", "debug, info, warn or error"},
          {"kvm", "PATH", "/dev/kvm", "the KVM device"},
          {"quiet", "", "", "no progress on standard error"}};
}

bool ParseLevel(const std::string& text, LogLevel* level) {
  if (text == "debug")
    *level = LogLevel::kDebug;
  else if (text == "info")
    *level = LogLevel::kInfo;
  else if (text == "warn")
    *level = LogLevel::kWarn;
  else if (text == "error")
    *level = LogLevel::kError;
  else
    return false;
  return true;
}

// An existing directory that can be written to, and nobody else's until the descriptor is closed; or a complaint.
UniqueFd PrepareOut(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && !std::filesystem::is_directory(directory, error))
    error = std::make_error_code(std::errc::not_a_directory);
  if (!error && access(directory.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  UniqueFd lock;
  if (!error) {
    lock.Reset(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock.valid()) error = std::error_code(errno, std::generic_category());
  }
  if (lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      Complain(absl::StrCat("--out ", directory,
                            ": another run is writing there; wait for its end or name another directory"));
      return UniqueFd();
    }
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return lock;
  Complain(
      absl::StrCat("--out ", directory, ": ", error.message(), "; name a directory that can be created and written"));
  return UniqueFd();
}

int RunFile(const Args& args, FileKind kind) {
  const std::string& file = args.positional[0];
  topology::RunOptions options;
  if (!ParseLevel(args.Text("log-level"), &options.log_level)) {
    Complain(absl::StrCat("--log-level ", args.Text("log-level"), ": must be debug, info, warn or error"));
    return kUsage;
  }
  if (!args.Text("timeout").empty() &&
      (!absl::ParseDuration(args.Text("timeout"), &options.timeout) || options.timeout <= absl::ZeroDuration())) {
    Complain(absl::StrCat("--timeout ", args.Text("timeout"), ": must be a time with its unit, e.g. 90s or 5m"));
    return kUsage;
  }
  InitLogging("sluice", options.log_level);

  int code = kInternal;
  const std::optional<topology::Plan> plan = LoadPlan(file, kind, &code);
  if (!plan.has_value()) return code;
  options.out_directory = args.Text("out");
  UniqueFd out_lock;
  if (!options.out_directory.empty()) {
    out_lock = PrepareOut(options.out_directory);
    if (!out_lock.valid()) return kUsage;
  }
  const absl::StatusOr<kvm::System> system = kvm::System::Open(args.Text("kvm"));
  if (!system.ok()) {
    Complain(system.status().message());
    return kHost;
  }

  options.kvm = system->fd();
  options.domain_program = jail::SiblingBinary("sluice-domain");
  options.vm_program = "/proc/self/exe";
  std::error_code error;
  options.vm_program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (!args.Flag("quiet"))
    options.progress = [](const std::string& line) { std::cerr << topology::Escaped(line) << "\n"; };
  if (kind == FileKind::kMachine) {
    options.serial = [](const std::string&, absl::string_view bytes) { std::cout << bytes << std::flush; };
  }
  if (options.out_directory.empty()) {
    for (const topology::FrontendPlan& frontend : plan->frontends) {
      if (!frontend.gpu.has_value() || !frontend.gpu->capture) continue;
      Complain(absl::StrCat("note: ", frontend.name, " asks for a capture, and there is no --out DIR to write it to"));
      break;
    }
  }
  if (options.progress) {
    for (const std::string& note : plan->notes) options.progress("note: " + note);
  }

  absl::StatusOr<topology::Report> report = topology::RunPlan(*plan, options);
  if (!report.ok()) {
    Complain(report.status().message());
    return absl::IsNotFound(report.status()) ? kMissingFile : kInternal;
  }
  report->topology = file;
  report->version = Version();
  std::cout << topology::ReportTable(*report);
  if (!options.out_directory.empty()) {
    const absl::Status written =
        topology::WriteFile(options.out_directory + "/report.json", topology::ReportJson(*report));
    if (!written.ok() && report->output_error.empty()) report->output_error = std::string(written.message());
  }
  if (!report->output_error.empty()) {
    Complain(report->output_error);
    return kOutput;
  }
  return report->ok ? kOk : kFrontendFailed;
}

}  // namespace

const ArgSpec& RunSpec() {
  static const ArgSpec* const spec = new ArgSpec{"run",
                                                 "TOPOLOGY",
                                                 "Starts the GPU Domains and front-end VMs of a topology (JSON; see "
                                                 "docs/schema/topology.schema.json), waits for all of\n"
                                                 "them and prints what each did. Returns 0 only if every front-end "
                                                 "ended well. Ctrl-C ends machines, then domains; a\n"
                                                 "second Ctrl-C kills them.",
                                                 CommonOptions(),
                                                 1,
                                                 1};
  return *spec;
}

const ArgSpec& VmSpec() {
  static const ArgSpec* const spec = new ArgSpec{"vm",
                                                 "VM",
                                                 "Runs one VM (JSON; see docs/schema/machine.schema.json), with a "
                                                 "private GPU Domain if it asks for a GPU. What the guest\n"
                                                 "writes to its serial port appears on standard output.",
                                                 CommonOptions(),
                                                 1,
                                                 1};
  return *spec;
}

int RunCommand(const Args& args) {
  return RunFile(args, FileKind::kTopology);
}
int VmCommand(const Args& args) {
  return RunFile(args, FileKind::kMachine);
}

}  // namespace sluice::cli
