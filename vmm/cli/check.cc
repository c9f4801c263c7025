// `sluice check`.
#include <filesystem>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vmm/base/log.h"
#include "vmm/cli/commands.h"
#include "vmm/cli/config_files.h"
#include "vmm/cli/exit_code.h"
#include "vmm/hostcheck/finding.h"
#include "vmm/jail/spawn.h"
#include "vmm/topology/config.h"
#include "vmm/topology/firmware.h"
#include "vmm/topology/host_check.h"

namespace sluice::cli {
namespace {

int CheckFile(const std::string& file) {
  int code = kInternal;
  const std::optional<topology::Plan> plan = LoadPlan(file, FileKind::kEither, &code);
  if (!plan.has_value()) return code;
  std::cout << topology::Escaped(file) << ": sound\n";
  for (const topology::DomainPlan& domain : plan->domains) {
    std::cout << "  domain " << domain.name << " (" << domain.os << ", " << domain.isolation << "):";
    for (const topology::FrontendPlan& frontend : plan->frontends) {
      if (frontend.domain.has_value() && plan->domains[*frontend.domain].name == domain.name)
        std::cout << " " << frontend.name;
    }
    std::cout << "\n";
  }
  for (const topology::FrontendPlan& frontend : plan->frontends) {
    if (!frontend.domain.has_value()) std::cout << "  without GPU: " << frontend.name << "\n";
  }
  for (const std::string& note : plan->notes) std::cout << "  note: " << topology::Escaped(note) << "\n";
  return kOk;
}

int CheckThisHost(const Args& args) {
  InitLogging("sluice", LogLevel::kError);
  topology::HostCheckOptions options;
  options.kvm_device = args.Text("kvm");
  options.domain_program = jail::SiblingBinary("sluice-domain");
  options.vm_program = jail::SiblingBinary("sluice");
  options.firmware_directory = topology::ShippedFirmwareDirectory();
  const std::vector<hostcheck::Finding> findings = topology::CheckHost(options);
  if (args.Flag("json")) {
    std::cout << topology::HostCheckJson(findings);
  } else {
    for (const hostcheck::Finding& finding : findings) {
      std::cout << topology::Escaped(hostcheck::FindingLine(finding)) << "\n";
    }
  }
  return topology::HostIsUsable(findings) ? kOk : kHost;
}

}  // namespace

const ArgSpec& CheckSpec() {
  static const ArgSpec* const spec = new ArgSpec{
      "check",
      "[FILE]",
      "Without FILE: tries what this host can do (KVM, whether guests run on the processor or are interpreted, "
      "Vulkan in a GPU\n"
      "Domain, namespaces, GPUs for VMs, huge pages, taps), and says what follows and how to change it; exit code 5 if "
      "something is\n"
      "missing that every VM or GPU Domain needs. With FILE: checks a topology or VM file against the schema, places "
      "its front-ends,\n"
      "and looks for its firmware; nothing is started.",
      {{"json", "", "", "without FILE: print the findings as JSON"},
       {"kvm", "PATH", "/dev/kvm", "the KVM device"},
       {"schema", "KIND", "", "print the JSON Schema of topology or machine files and do nothing else"}},
      0,
      1};
  return *spec;
}

int CheckCommand(const Args& args) {
  if (const std::string& kind = args.Text("schema"); !kind.empty()) {
    if (kind != "topology" && kind != "machine") {
      Complain(absl::StrCat("--schema ", kind, ": must be topology or machine"));
      return kUsage;
    }
    std::cout << topology::JsonSchemaText(kind);
    return kOk;
  }
  return args.positional.empty() ? CheckThisHost(args) : CheckFile(args.positional[0]);
}

}  // namespace sluice::cli
