// Selection policy: which domain serves which front-end machine. See docs/placement.md.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vmm/topology/plan.h"

namespace sluice::topology {
namespace {

// The policies choose greedily. Where that ends in a dead end (labels and full domains), earlier choices are revised,
// up to this many steps; then the topology is refused.
constexpr int kMaxSteps = 20000;

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// True if `a` does not want to share a domain with `b`.
bool Forbids(const FrontendPlan& a, const FrontendPlan& b) {
  if (Contains(a.not_with, "*")) return true;
  return std::any_of(b.labels.begin(), b.labels.end(),
                     [&](const std::string& label) { return Contains(a.not_with, label); });
}

class Placer {
 public:
  Placer(Plan* plan, Problems* problems) : plan_(*plan), problems_(*problems), members_(plan->domains.size()) {}

  void Run() {
    if (!CheckTypes() || !CheckCounts()) return;
    // Pins first: they have no choice. Then the order of the file.
    for (const bool pinned : {true, false}) {
      for (size_t i = 0; i < plan_.frontends.size(); ++i) {
        if (plan_.frontends[i].gpu.has_value() && plan_.frontends[i].pin.empty() != pinned) order_.push_back(i);
      }
    }
    if (!Assign(0)) {
      const FrontendPlan& stuck = plan_.frontends[stuck_];
      Add(stuck.pin.empty() ? stuck.path : stuck.path + ".pin",
          absl::StrCat("no domain can take ", stuck.name, ": ", stuck_reason_, "; raise max_frontends, add a ",
                       stuck.os, " domain, or relax not_with or the pin"));
      return;
    }
    for (size_t d = 0; d < members_.size(); ++d) {
      if (members_[d].empty())
        plan_.notes.push_back(absl::StrCat(plan_.domains[d].name, ": no front-end was placed here"));
    }
  }

 private:
  void Add(std::string path, std::string message) {
    problems_.push_back({ProblemKind::kNoDomain, std::move(path), std::move(message)});
  }

  // "linux (gpu-a, gpu-c), bare (gpu-b)"
  std::string WhatIsThere() const {
    std::map<std::string, std::vector<std::string>> by_type;
    for (const DomainPlan& domain : plan_.domains) by_type[domain.os].push_back(domain.name);
    std::vector<std::string> parts;
    for (const auto& [os, names] : by_type) parts.push_back(absl::StrCat(os, " (", absl::StrJoin(names, ", "), ")"));
    return absl::StrJoin(parts, ", ");
  }

  // Every machine's type exists, and every pin leads to a domain of that type. One complaint per group.
  bool CheckTypes() {
    const size_t before = problems_.size();
    size_t last_group = SIZE_MAX;
    for (const FrontendPlan& machine : plan_.frontends) {
      if (!machine.gpu.has_value() || machine.group == last_group) continue;
      last_group = machine.group;
      if (plan_.domains.empty()) {
        Add(machine.path + ".gpu",
            "there is no GPU Domain at all; add gpu_domains or domain_policy, or remove \"gpu\"");
        continue;
      }
      if (std::none_of(plan_.domains.begin(), plan_.domains.end(),
                       [&](const DomainPlan& d) { return d.os == machine.os; })) {
        Add(machine.path + ".os", absl::StrCat("'", machine.os, "': no GPU Domain of this OS type; there are: ",
                                               WhatIsThere(), ". Add a domain or change the type."));
        continue;
      }
      if (machine.pin.empty()) continue;
      const auto pinned = std::find_if(plan_.domains.begin(), plan_.domains.end(),
                                       [&](const DomainPlan& d) { return d.name == machine.pin; });
      if (pinned == plan_.domains.end()) {
        Add(machine.path + ".pin",
            absl::StrCat("'", machine.pin, "': no GPU Domain of this name; there are: ", WhatIsThere(), "."));
      } else if (pinned->os != machine.os) {
        Add(machine.path + ".pin",
            absl::StrCat("'", machine.pin, "': this domain is of OS type ", pinned->os, ", the front-end of type ",
                         machine.os, "; pin it to a ", machine.os, " domain. There are: ", WhatIsThere(), "."));
      }
    }
    return problems_.size() == before;
  }

  // M >= N, and room per type.
  bool CheckCounts() {
    const size_t before = problems_.size();
    std::map<std::string, size_t> wanted;
    std::map<std::string, std::string> first_path;
    size_t machines = 0;
    for (const FrontendPlan& machine : plan_.frontends) {
      if (!machine.gpu.has_value()) continue;
      ++machines;
      ++wanted[machine.os];
      first_path.emplace(machine.os, machine.path);
    }
    if (machines < plan_.domains.size()) {
      Add(plan_.domains[0].path == "domain_policy" ? "domain_policy.count" : "gpu_domains",
          absl::StrCat(plan_.domains.size(), " domains for ", machines, machines == 1 ? " front-end" : " front-ends",
                       " with a GPU: a domain would have nothing to do; remove domains or add front-ends"));
    }
    for (const auto& [os, count] : wanted) {
      uint64_t room = 0;
      std::vector<std::string> rooms;
      for (const DomainPlan& domain : plan_.domains) {
        if (domain.os != os) continue;
        room += domain.max_frontends;
        rooms.push_back(absl::StrCat(domain.name, " ", domain.max_frontends));
      }
      if (count > room) {
        Add(first_path[os],
            absl::StrCat(count, " front-ends of type ", os, " for ", room, " places (", absl::StrJoin(rooms, ", "),
                         "); raise max_frontends or add a ", os, " domain"));
      }
    }
    return problems_.size() == before;
  }

  uint64_t Shares(size_t domain) const {
    uint64_t sum = 0;
    for (const size_t member : members_[domain]) sum += plan_.frontends[member].gpu->share;
    return sum;
  }

  // Why the domain cannot take the machine, or "".
  std::string Obstacle(const FrontendPlan& machine, size_t domain) const {
    const DomainPlan& d = plan_.domains[domain];
    if (!machine.pin.empty() && d.name != machine.pin) return "not the pinned one";
    if (members_[domain].size() >= d.max_frontends)
      return absl::StrCat("full (", d.max_frontends, " of ", d.max_frontends, ")");
    for (const size_t member : members_[domain]) {
      const FrontendPlan& other = plan_.frontends[member];
      if (Forbids(machine, other)) return absl::StrCat("has ", other.name, ", which not_with forbids");
      if (Forbids(other, machine)) return absl::StrCat("has ", other.name, ", whose not_with forbids it");
    }
    return "";
  }

  // Smaller is better. The index last: equal candidates go in the order of the file.
  std::tuple<double, uint64_t, size_t> Rank(const FrontendPlan& machine, size_t domain) const {
    const uint64_t count = members_[domain].size();
    switch (plan_.selection) {
      case Selection::kLeastLoaded: {
        const size_t gpus = std::max<size_t>(1, plan_.domains[domain].gpus.size());
        return {static_cast<double>(Shares(domain)) / static_cast<double>(gpus), count, domain};
      }
      case Selection::kPack:
        return {-static_cast<double>(count), 0, domain};
      case Selection::kSpread: {
        const auto same = std::count_if(members_[domain].begin(), members_[domain].end(),
                                        [&](size_t member) { return plan_.frontends[member].group == machine.group; });
        return {static_cast<double>(same), count, domain};
      }
    }
    return {};
  }

  bool Assign(size_t position) {
    if (position == order_.size()) return true;
    if (++steps_ > kMaxSteps) return false;
    FrontendPlan& machine = plan_.frontends[order_[position]];
    std::vector<size_t> candidates;
    std::vector<std::string> obstacles;
    for (size_t d = 0; d < plan_.domains.size(); ++d) {
      if (plan_.domains[d].os != machine.os) continue;
      std::string obstacle = Obstacle(machine, d);
      if (obstacle.empty()) {
        candidates.push_back(d);
      } else if (machine.pin.empty() || machine.pin == plan_.domains[d].name) {
        obstacles.push_back(absl::StrCat(plan_.domains[d].name, " ", obstacle));
      }
    }
    if (candidates.empty() && stuck_reason_.empty()) {
      stuck_ = order_[position];
      stuck_reason_ = absl::StrJoin(obstacles, ", ");
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](size_t a, size_t b) { return Rank(machine, a) < Rank(machine, b); });
    for (const size_t d : candidates) {
      members_[d].push_back(order_[position]);
      machine.domain = d;
      if (Assign(position + 1)) return true;
      members_[d].pop_back();
      machine.domain.reset();
    }
    return false;
  }

  Plan& plan_;
  Problems& problems_;
  std::vector<std::vector<size_t>> members_;  // per domain: indices of its machines
  std::vector<size_t> order_;
  int steps_ = 0;
  size_t stuck_ = 0;
  std::string stuck_reason_;  // of the first dead end, the one that the policy's own choices lead to
};

}  // namespace

bool Place(Plan* plan, Problems* problems) {
  const size_t before = problems->size();
  Placer(plan, problems).Run();
  return problems->size() == before;
}

}  // namespace sluice::topology
