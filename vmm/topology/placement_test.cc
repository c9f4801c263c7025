// The table of docs/placement.md: topologies and where their front-ends go, or why they are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "vmm/topology/config.h"
#include "vmm/topology/plan.h"

namespace sluice::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Case {
  const char* name;
  const char* topology;  // single quotes stand for double ones; "fw" stands for the firmware key
  const char* expected;  // "machine=domain ..." in the order of the file, or "!path: part of the message"
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
constexpr Case kCases[] = {
    // OS type.
    {"OneOfEach",
     "{'gpu_domains': [{'name': 'a', 'os': 'linux'}], 'frontends': [{'name': 'f', 'os': 'linux', fw, 'gpu': {}}]}",
     "f=a"},
    {"TypeDecidesBeforeLoad",
     "{'gpu_domains': [{'name': 'a', 'os': 'linux'}, {'name': 'b', 'os': 'bare'}],"
     " 'frontends': [{'name': 'f', 'count': 3, 'os': 'linux', fw, 'gpu': {}}, {'name': 'g', 'os': 'bare', fw, 'gpu': "
     "{}}]}",
     "f-0=a f-1=a f-2=a g=b"},
    {"TypeNobodyServes",
     "{'gpu_domains': [{'name': 'a', 'os': 'linux'}, {'name': 'b', 'os': 'bare'}],"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'linux', fw, 'gpu': {}}, {'name': 'g', 'os': 'windows', fw, "
     "'gpu': {}}]}",
     "!frontends[1].os: 'windows': no GPU Domain of this OS type; there are: bare (b), linux (a). Add a domain"},
    {"TypesAreNotRelatedByPrefix",
     "{'gpu_domains': [{'name': 'a', 'os': 'linux'}], 'frontends': [{'name': 'f', 'os': 'linux-arm', fw, 'gpu': {}}]}",
     "!frontends[0].os: 'linux-arm': no GPU Domain"},
    {"NoDomainAtAll", "{'frontends': [{'name': 'f', 'os': 'linux', fw, 'gpu': {}}]}",
     "!frontends[0].gpu: there is no GPU Domain at all"},
    {"WithoutGpuNoDomainIsNeeded", "{'frontends': [{'name': 'f', 'os': 'linux', fw}]}", "f=-"},
    {"WithoutGpuNoPlaceIsTaken",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}],"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw}, {'name': 'g', 'os': 'x', fw, 'gpu': {}}]}",
     "f-0=- f-1=- g=a"},
    // least-loaded.
    {"LeastLoadedAlternates",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'frontends': [{'name': 'f', 'count': 4, "
     "'os': 'x', fw, 'gpu': {}}]}",
     "f-0=a f-1=b f-2=a f-3=b"},
    {"LeastLoadedWeighsShares",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}],"
     " 'frontends': [{'name': 'big', 'os': 'x', fw, 'gpu': {'share': 3}}, {'name': 'f', 'count': 4, 'os': 'x', fw, "
     "'gpu': {}}]}",
     "big=a f-0=b f-1=b f-2=b f-3=a"},
    {"LeastLoadedCountsGpus",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'gpus': [{'vulkan': 'p'}]}, {'name': 'b', 'os': 'x', 'gpus': "
     "[{'vulkan': 'q'}, {'vulkan': 'r'}]}],"
     " 'frontends': [{'name': 'f', 'count': 6, 'os': 'x', fw, 'gpu': {}}]}",
     "f-0=a f-1=b f-2=b f-3=a f-4=b f-5=b"},
    // pack.
    {"PackFillsOneThenTheNext",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 2}, {'name': 'b', 'os': 'x', 'max_frontends': 2}], "
     "'selection': 'pack',"
     " 'frontends': [{'name': 'f', 'count': 3, 'os': 'x', fw, 'gpu': {}}]}",
     "f-0=a f-1=a f-2=b"},
    {"PackPrefersTheFullest",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'selection': 'pack',"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}}, {'name': 'p', 'os': 'x', fw, 'gpu': {}, "
     "'pin': 'b'}]}",
     "f-0=b f-1=b p=b"},
    // spread.
    {"SpreadKeepsEqualsApart",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'selection': 'spread',"
     " 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}}, {'name': 'g', 'count': 2, 'os': 'x', fw, 'gpu': {}}, "
     "{'name': 'h', 'count': 2, 'os': 'x', fw, 'gpu': {}}]}",
     "f=a g-0=b g-1=a h-0=b h-1=a"},
    {"SpreadIgnoresShares",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'selection': 'spread',"
     " 'frontends': [{'name': 'big', 'os': 'x', fw, 'gpu': {'share': 9}}, {'name': 'f', 'count': 3, 'os': 'x', fw, "
     "'gpu': {}}]}",
     "big=a f-0=b f-1=a f-2=b"},
    // Pins.
    {"APinBeatsThePolicy",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}],"
     " 'frontends': [{'name': 'f', 'count': 3, 'os': 'x', fw, 'gpu': {}, 'pin': 'b'}, {'name': 'g', 'os': 'x', fw, "
     "'gpu': {}}]}",
     "f-0=b f-1=b f-2=b g=a"},
    {"PinsAreSeatedFirst",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}, {'name': 'b', 'os': 'x', 'max_frontends': 1}],"
     " 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}}, {'name': 'p', 'os': 'x', fw, 'gpu': {}, 'pin': 'a'}]}",
     "f=b p=a"},
    {"PinToNobody",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}], 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}, 'pin': 'z'}]}",
     "!frontends[0].pin: 'z': no GPU Domain of this name; there are: x (a)"},
    {"PinAcrossTypes",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'y'}],"
     " 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}, 'pin': 'b'}, {'name': 'g', 'os': 'y', fw, 'gpu': {}}]}",
     "!frontends[0].pin: 'b': this domain is of OS type y, the front-end of type x"},
    {"PinToAFullDomain",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}, {'name': 'b', 'os': 'x'}],"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}, 'pin': 'a'}]}",
     "!frontends[0].pin: no domain can take f-1: a full (1 of 1)"},
    // Room.
    {"AFullDomainIsPassedOver",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}, {'name': 'b', 'os': 'x'}], 'frontends': [{'name': "
     "'f', 'count': 4, 'os': 'x', fw, 'gpu': {}}]}",
     "f-0=a f-1=b f-2=b f-3=b"},
    {"NoRoomLeft",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}, {'name': 'b', 'os': 'x', 'max_frontends': 2}],"
     " 'frontends': [{'name': 'f', 'count': 4, 'os': 'x', fw, 'gpu': {}}]}",
     "!frontends[0]: 4 front-ends of type x for 3 places (a 1, b 2)"},
    {"RoomOfAnotherTypeDoesNotCount",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 1}, {'name': 'b', 'os': 'y', 'max_frontends': 9}],"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}}]}",
     "!frontends[0]: 2 front-ends of type x for 1 places"},
    // M >= N.
    {"FewerFrontendsThanDomains",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'frontends': [{'name': 'f', 'os': 'x', fw, "
     "'gpu': {}}]}",
     "!gpu_domains: 2 domains for 1 front-end with a GPU"},
    {"FrontendsWithoutGpuDoNotCount",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'frontends': [{'name': 'f', 'os': 'x', fw, "
     "'gpu': {}}, {'name': 'g', 'os': 'x', fw}]}",
     "!gpu_domains: 2 domains for 1 front-end"},
    // Creation policy.
    {"PolicyRotatesTypes",
     "{'domain_policy': {'count': 3, 'os': ['x', 'y']}, 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': "
     "{}}, {'name': 'g', 'os': 'y', fw, 'gpu': {}}]}",
     "f-0=x-0 f-1=x-1 g=y-0"},
    {"PolicyWithFewerDomainsThanTypes",
     "{'domain_policy': {'count': 1, 'os': ['x', 'y']}, 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}}]}",
     "!domain_policy.count: 1: fewer domains than OS types (x, y); raise it to 2"},
    {"PolicyWithTooManyDomains",
     "{'domain_policy': {'count': 3, 'os': ['x']}, 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}}]}",
     "!domain_policy.count: 3 domains for 2 front-ends"},
    {"PolicyTemplateLimitsRoom",
     "{'domain_policy': {'count': 2, 'os': ['x'], 'template': {'max_frontends': 1}}, 'frontends': [{'name': 'f', "
     "'count': 3, 'os': 'x', fw, 'gpu': {}}]}",
     "!frontends[0]: 3 front-ends of type x for 2 places (x-0 1, x-1 1)"},
    {"PolicyWithTooFewGpus",
     "{'domain_policy': {'count': 2, 'os': ['x'], 'gpus': [{'vulkan': 'p'}, {'vulkan': 'q'}, {'vulkan': 'r'}], "
     "'gpus_per_domain': 2},"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}}]}",
     "!domain_policy.gpus: 3 GPUs: 2 domains with 2 each need 4"},
    {"PolicyThatDealsOutUnnamedGpus",
     "{'domain_policy': {'count': 2, 'os': ['x'], 'gpus_per_domain': 2}, 'frontends': [{'name': 'f', 'count': 2, 'os': "
     "'x', fw, 'gpu': {}}]}",
     "!domain_policy.gpus_per_domain: 2: there are no GPUs to deal out"},
    {"PolicyWithATypeTwice",
     "{'domain_policy': {'count': 2, 'os': ['x', 'x']}, 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': "
     "{}}]}",
     "!domain_policy.os[1]: 'x': is there twice"},
    // Labels.
    {"LabelsKeepTenantsApart",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'selection': 'pack',"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}, 'labels': ['red'], 'not_with': ['blue']},"
     " {'name': 'g', 'count': 2, 'os': 'x', fw, 'gpu': {}, 'labels': ['blue']}]}",
     "f-0=a f-1=a g-0=b g-1=b"},
    {"ALabelOfItsOwnKeepsReplicasApart",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}], 'selection': 'pack',"
     " 'frontends': [{'name': 'f', 'count': 2, 'os': 'x', fw, 'gpu': {}, 'labels': ['f'], 'not_with': ['f']}]}",
     "f-0=a f-1=b"},
    {"AStarWantsTheDomainAlone",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}, {'name': 'b', 'os': 'x'}],"
     " 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}, 'not_with': ['*']}, {'name': 'g', 'count': 3, 'os': 'x', "
     "fw, 'gpu': {}}]}",
     "f=a g-0=b g-1=b g-2=b"},
    {"LabelsThatCannotBeSatisfied",
     "{'gpu_domains': [{'name': 'a', 'os': 'x'}], 'frontends': [{'name': 'f', 'os': 'x', fw, 'gpu': {}, 'not_with': "
     "['blue']},"
     " {'name': 'g', 'os': 'x', fw, 'gpu': {}, 'labels': ['blue']}]}",
     "!frontends[1]: no domain can take g: a has f, whose not_with forbids it"},
    {"EarlierChoicesAreRevisedWhenTheyLeadNowhere",
     "{'gpu_domains': [{'name': 'a', 'os': 'x', 'max_frontends': 2}, {'name': 'b', 'os': 'x', 'max_frontends': 2}], "
     "'selection': 'pack',"
     " 'frontends': [{'name': 'c', 'count': 2, 'os': 'x', fw, 'gpu': {}}, {'name': 'r', 'os': 'x', fw, 'gpu': {}, "
     "'labels': ['r'], 'not_with': ['s']},"
     " {'name': 's', 'os': 'x', fw, 'gpu': {}, 'labels': ['s']}]}",
     "c-0=a c-1=b r=a s=b"},
};

class Placement : public ::testing::TestWithParam<Case> {};

TEST_P(Placement, IsAsTheTableSays) {
  Document document;
  config::TopologyT topology;
  const std::string text =
      absl::StrReplaceAll(GetParam().topology, {{"'", "\""}, {"fw", "\"firmware\": \"triangle\""}});
  ASSERT_TRUE(ParseTopology(text, &document, &topology)) << document.Report();
  Problems problems;
  const auto plan = MakePlan(topology, &problems);
  if (GetParam().expected[0] == '!') {
    ASSERT_FALSE(plan.has_value());
    ASSERT_THAT(problems, SizeIs(1));
    EXPECT_THAT(absl::StrCat("!", problems[0].path, ": ", problems[0].message), HasSubstr(GetParam().expected));
    return;
  }
  ASSERT_TRUE(plan.has_value()) << (problems.empty() ? "" : problems[0].message);
  EXPECT_THAT(problems, IsEmpty());
  std::vector<std::string> placed;
  for (const FrontendPlan& machine : plan->frontends) {
    placed.push_back(
        absl::StrCat(machine.name, "=", machine.domain.has_value() ? plan->domains[*machine.domain].name : "-"));
    if (machine.domain.has_value()) {
      EXPECT_EQ(plan->domains[*machine.domain].os, machine.os);
    }
  }
  EXPECT_EQ(absl::StrJoin(placed, " "), GetParam().expected);
}
INSTANTIATE_TEST_SUITE_P(Table, Placement, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PlacementNotes, ADomainThatServesNobodyIsMentioned) {
  Document document;
  config::TopologyT topology;
  ASSERT_TRUE(
      ParseTopology(R"({"gpu_domains": [{"name": "a", "os": "x"}, {"name": "b", "os": "x"}], "selection": "pack",
      "frontends": [{"name": "f", "count": 2, "os": "x", "firmware": "t", "gpu": {}}]})",
                    &document, &topology));
  Problems problems;
  const auto plan = MakePlan(topology, &problems);
  ASSERT_TRUE(plan.has_value());
  ASSERT_THAT(plan->notes, SizeIs(1));
  EXPECT_THAT(plan->notes[0], HasSubstr("b: no front-end"));
}

TEST(PlacementSearch, EndsSoonOnAnImpossibleTopologyOfFullSize) {
  std::string text = R"({"domain_policy": {"count": 64, "os": ["x"]}, "frontends": [)";
  for (int i = 0; i < 65; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", R"({"name": "f)", i,
                    R"(", "os": "x", "firmware": "t", "gpu": {}, "not_with": ["*"]})");
  }
  Document document;
  config::TopologyT topology;
  ASSERT_TRUE(ParseTopology(text + "]}", &document, &topology)) << document.Report();
  Problems problems;
  EXPECT_FALSE(MakePlan(topology, &problems).has_value());
  EXPECT_EQ(problems[0].kind, ProblemKind::kNoDomain);
}

}  // namespace
}  // namespace sluice::topology
