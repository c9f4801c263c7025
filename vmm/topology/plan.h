// File: plan.h
//
// From what the user wrote to what will run: the domains (given, or made from domain_policy), the front-end machines
// (one per `count`), and which domain serves which machine. Pure functions; nothing is started or opened here.
//
//   Problems problems;
//   std::optional<Plan> plan = MakePlan(topology, &problems);   // nullopt: `problems` says why
//   plan->frontends[0].domain                                   // index into plan->domains
//
// docs/placement.md has the decision table.
#ifndef SLUICE_VMM_TOPOLOGY_PLAN_H_
#define SLUICE_VMM_TOPOLOGY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flatbuf/config_generated.h"
#include "vmm/topology/problem.h"

namespace sluice::topology {

enum class Selection { kLeastLoaded, kPack, kSpread };

struct DomainPlan {
  std::string name;
  std::string os;
  std::string isolation;          // "process"
  std::vector<std::string> gpus;  // Vulkan device names, in part; empty: all
  uint32_t max_frontends = 64;
  std::string path;  // "gpu_domains[0]": where it comes from, for messages
};

struct GpuPlan {
  uint32_t share = 1;
  uint64_t memory_bytes = 0;
  uint64_t window_bytes = 0;
  uint32_t max_contexts = 16;
  bool require_hardware = false;
  bool capture = false;
};

struct FrontendPlan {
  std::string name;
  size_t group = 0;  // index in Topology.frontends; machines of one group are equal
  std::string os;
  uint32_t vcpus = 1;
  uint32_t mem_mib = 64;
  std::string firmware;  // as written; see firmware.h
  std::string cmdline;
  std::optional<GpuPlan> gpu;
  std::string pin;
  std::vector<std::string> labels;
  std::vector<std::string> not_with;
  std::string path;              // "frontends[2]"
  std::optional<size_t> domain;  // set by Place; index into Plan.domains
};

struct Plan {
  Selection selection = Selection::kLeastLoaded;
  std::vector<DomainPlan> domains;
  std::vector<FrontendPlan> frontends;
  std::vector<std::string> notes;  // worth telling, no reason to stop: "gpu-c serves nobody"
};

// Most machines in one topology.
inline constexpr size_t kMaxFrontends = 256;

// Creation policy: domains and machines without a placement. False: `problems` grew.
bool Expand(const config::TopologyT& topology, Plan* plan, Problems* problems);

// Selection policy: gives each machine with a GPU its domain. Same OS type first, always. False: `problems` grew.
bool Place(Plan* plan, Problems* problems);

// Both.
std::optional<Plan> MakePlan(const config::TopologyT& topology, Problems* problems);

// The topology of `sluice vm`: one machine and, if it has a GPU, a process domain named "<name>-gpu" of its type.
config::TopologyT TopologyOfMachine(const config::MachineT& machine);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_PLAN_H_
