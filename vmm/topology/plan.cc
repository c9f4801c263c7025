#include "vmm/topology/plan.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vmm/base/checked.h"

namespace sluice::topology {
namespace {

class Expander {
 public:
  Expander(const config::TopologyT& topology, Plan* plan, Problems* problems)
      : topology_(topology), plan_(*plan), problems_(*problems) {}

  void Run() {
    plan_.selection = topology_.selection == "pack"     ? Selection::kPack
                      : topology_.selection == "spread" ? Selection::kSpread
                                                        : Selection::kLeastLoaded;
    if (topology_.domain_policy != nullptr && !topology_.gpu_domains.empty()) {
      Add("domain_policy", "there are gpu_domains too; keep one of the two");
      return;
    }
    if (topology_.domain_policy != nullptr) {
      ExpandPolicy(*topology_.domain_policy);
    } else {
      ExpandDomains();
    }
    for (size_t i = 0; i < topology_.frontends.size(); ++i) {
      if (!ExpandFrontend(i, *topology_.frontends[i])) return;
    }
    if (plan_.frontends.empty()) Add("frontends", "there is none; add one");
  }

 private:
  void Add(std::string path, std::string message) {
    problems_.push_back({ProblemKind::kConfig, std::move(path), std::move(message)});
  }

  // `shown`: the name as the user sees it at `path`, when it was made from something else.
  void ClaimName(const std::string& name, const std::string& path) {
    const auto [it, fresh] = names_.emplace(name, path);
    if (!fresh)
      Add(path, absl::StrCat("'", name, "': this name is taken by ", it->second,
                             "; names are unique over domains and machines"));
  }

  void CheckGpu(const std::string& vulkan, const std::string& path) {
    // The domain hands its list of names on with commas between them.
    if (absl::StrContains(vulkan, ','))
      Add(path, absl::StrCat("'", vulkan, "': must not hold ','; any part of the device's name will do"));
  }

  std::string Isolation(const std::string& isolation, const std::string& path) {
    if (isolation == "microvm") {
      Add(path,
          "'microvm': this version has no GPU Domains in a VM of their own; use \"process\", where jailed host "
          "processes own the GPU");
    }
    return isolation.empty() ? "process" : isolation;
  }

  void ExpandDomains() {
    for (size_t i = 0; i < topology_.gpu_domains.size(); ++i) {
      const config::GpuDomainT& from = *topology_.gpu_domains[i];
      DomainPlan domain;
      domain.path = absl::StrCat("gpu_domains[", i, "]");
      domain.name = from.name;
      domain.os = from.os;
      domain.isolation = Isolation(from.isolation, domain.path + ".isolation");
      domain.max_frontends = from.max_frontends;
      for (size_t g = 0; g < from.gpus.size(); ++g) {
        domain.gpus.push_back(from.gpus[g]->vulkan);
        CheckGpu(from.gpus[g]->vulkan, absl::StrCat(domain.path, ".gpus[", g, "].vulkan"));
      }
      ClaimName(domain.name, domain.path + ".name");
      plan_.domains.push_back(std::move(domain));
    }
  }

  void ExpandPolicy(const config::DomainPolicyT& policy) {
    std::set<std::string> types;
    for (size_t i = 0; i < policy.os.size(); ++i) {
      const std::string path = absl::StrCat("domain_policy.os[", i, "]");
      if (!types.insert(policy.os[i]).second)
        Add(path, absl::StrCat("'", policy.os[i], "': is there twice; remove one"));
    }
    if (policy.count < policy.os.size()) {
      Add("domain_policy.count",
          absl::StrCat(policy.count, ": fewer domains than OS types (", absl::StrJoin(policy.os, ", "),
                       "); raise it to ", policy.os.size(), " or remove a type"));
      return;
    }
    const uint64_t wanted = uint64_t{policy.count} * policy.gpus_per_domain;
    if (policy.gpus.empty() && policy.gpus_per_domain != 1) {
      Add("domain_policy.gpus_per_domain",
          absl::StrCat(policy.gpus_per_domain, ": there are no GPUs to deal out; name them in domain_policy.gpus"));
      return;
    }
    if (!policy.gpus.empty() && wanted > policy.gpus.size()) {
      Add("domain_policy.gpus",
          absl::StrCat(policy.gpus.size(), " GPUs: ", policy.count, " domains with ", policy.gpus_per_domain,
                       " each need ", wanted, "; name more or lower count or gpus_per_domain"));
      return;
    }
    const config::DomainTemplateT shared = policy.template_ != nullptr ? *policy.template_ : config::DomainTemplateT();
    const std::string isolation = Isolation(shared.isolation, "domain_policy.template.isolation");
    for (size_t g = 0; g < policy.gpus.size(); ++g) {
      CheckGpu(policy.gpus[g]->vulkan, absl::StrCat("domain_policy.gpus[", g, "].vulkan"));
    }
    std::map<std::string, int> made;
    size_t next_gpu = 0;
    for (uint32_t i = 0; i < policy.count; ++i) {
      DomainPlan domain;
      domain.path = "domain_policy";
      domain.os = policy.os[i % policy.os.size()];
      domain.name = absl::StrCat(domain.os, "-", made[domain.os]++);
      domain.isolation = isolation;
      domain.max_frontends = shared.max_frontends;
      for (uint32_t g = 0; g < policy.gpus_per_domain && !policy.gpus.empty(); ++g) {
        domain.gpus.push_back(policy.gpus[next_gpu++]->vulkan);
      }
      ClaimName(domain.name, domain.path);
      plan_.domains.push_back(std::move(domain));
    }
  }

  bool ExpandFrontend(size_t group, const config::FrontendT& from) {
    const std::string path = absl::StrCat("frontends[", group, "]");
    if (plan_.frontends.size() + from.count > kMaxFrontends) {
      Add(path + ".count", absl::StrCat(from.count, ": more than ", kMaxFrontends, " machines in all; lower it"));
      return false;
    }
    FrontendPlan machine;
    machine.group = group;
    machine.os = from.os;
    machine.vcpus = from.vcpus;
    machine.mem_mib = from.mem_mib;
    machine.firmware = from.firmware;
    machine.cmdline = from.cmdline;
    machine.pin = from.pin;
    machine.labels = from.labels;
    machine.not_with = from.not_with;
    machine.path = path;
    if (from.gpu != nullptr) {
      if (!IsPowerOfTwo(from.gpu->window_mib)) {
        Add(path + ".gpu.window_mib", absl::StrCat(from.gpu->window_mib, ": must be a power of two, as a PCI BAR is"));
      }
      GpuPlan gpu;
      gpu.share = from.gpu->share;
      gpu.memory_bytes = uint64_t{from.gpu->memory_mib} << 20;
      gpu.window_bytes = uint64_t{from.gpu->window_mib} << 20;
      gpu.max_contexts = from.gpu->max_contexts;
      gpu.require_hardware = from.gpu->require_hardware;
      gpu.capture = from.gpu->capture;
      machine.gpu = gpu;
    } else if (!from.pin.empty()) {
      Add(path + ".pin",
          absl::StrCat("'", from.pin,
                       "': this front-end has no \"gpu\" and needs no domain; add \"gpu\": {} or remove the pin"));
    }
    for (uint32_t i = 0; i < from.count; ++i) {
      machine.name = from.count == 1 ? from.name : absl::StrCat(from.name, "-", i);
      ClaimName(machine.name, path + ".name");
      plan_.frontends.push_back(machine);
    }
    return true;
  }

  const config::TopologyT& topology_;
  Plan& plan_;
  Problems& problems_;
  std::map<std::string, std::string> names_;  // name -> path of its owner
};

}  // namespace

bool Expand(const config::TopologyT& topology, Plan* plan, Problems* problems) {
  const size_t before = problems->size();
  Expander(topology, plan, problems).Run();
  return problems->size() == before;
}

std::optional<Plan> MakePlan(const config::TopologyT& topology, Problems* problems) {
  Plan plan;
  if (!Expand(topology, &plan, problems) || !Place(&plan, problems)) return std::nullopt;
  return plan;
}

config::TopologyT TopologyOfMachine(const config::MachineT& machine) {
  config::TopologyT topology;
  auto frontend = std::make_unique<config::FrontendT>();
  frontend->name = machine.name;
  frontend->os = machine.os;
  frontend->vcpus = machine.vcpus;
  frontend->mem_mib = machine.mem_mib;
  frontend->firmware = machine.firmware;
  frontend->cmdline = machine.cmdline;
  if (machine.gpu != nullptr) {
    frontend->gpu = std::make_unique<config::GpuT>(*machine.gpu);
    auto domain = std::make_unique<config::GpuDomainT>();
    domain->name = machine.name + "-gpu";
    domain->os = machine.os;
    domain->max_frontends = 1;
    for (const auto& gpu : machine.gpus) domain->gpus.push_back(std::make_unique<config::GpuSelectorT>(*gpu));
    topology.gpu_domains.push_back(std::move(domain));
  }
  topology.frontends.push_back(std::move(frontend));
  return topology;
}

}  // namespace sluice::topology
