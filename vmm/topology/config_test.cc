#include "vmm/topology/config.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "vmm/topology/firmware.h"
#include "vmm/topology/plan.h"

namespace sluice::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kGood[] = R"({
  "gpu_domains": [
    {"name": "gpu-a", "os": "linux", "isolation": "process", "max_frontends": 3},
    {"name": "gpu-b", "os": "bare"}
  ],
  "selection": "pack",
  "frontends": [
    {"name": "web", "count": 2, "os": "linux", "firmware": "triangle",
     "gpu": {"share": 2, "memory_mib": 64, "capture": true}},
    {"name": "tool", "os": "bare", "firmware": "triangle", "vcpus": 2, "mem_mib": 128, "cmdline": "a=1", "gpu": {}}
  ]
})";

std::string ReportOf(const std::string& text) {
  Document document;
  document.file = "lab.json";
  config::TopologyT topology;
  if (ParseTopology(text, &document, &topology)) {
    Problems problems;
    MakePlan(topology, &problems);
    document.problems = problems;
  }
  return document.Report();
}

TEST(Config, ReadsWhatWasWrittenAndFillsInDefaults) {
  Document document;
  config::TopologyT topology;
  ASSERT_TRUE(ParseTopology(kGood, &document, &topology)) << document.Report();
  ASSERT_THAT(topology.gpu_domains, SizeIs(2));
  EXPECT_EQ(topology.gpu_domains[0]->max_frontends, 3u);
  EXPECT_EQ(topology.gpu_domains[1]->max_frontends, 64u);
  ASSERT_THAT(topology.frontends, SizeIs(2));
  EXPECT_EQ(topology.frontends[0]->count, 2u);
  EXPECT_EQ(topology.frontends[0]->gpu->memory_mib, 64u);
  EXPECT_TRUE(topology.frontends[0]->gpu->capture);
  EXPECT_EQ(topology.frontends[1]->gpu->memory_mib, 256u);
  EXPECT_EQ(topology.frontends[1]->cmdline, "a=1");
  EXPECT_EQ(topology.selection, "pack");
}

TEST(Config, ReadsAMachine) {
  Document document;
  config::MachineT machine;
  ASSERT_TRUE(ParseMachine(R"({"name": "one", "os": "bare", "firmware": "a.elf", "gpu": {"window_mib": 64}})",
                           &document, &machine));
  Problems problems;
  const auto plan = MakePlan(TopologyOfMachine(machine), &problems);
  ASSERT_TRUE(plan.has_value());
  ASSERT_THAT(plan->domains, SizeIs(1));
  EXPECT_EQ(plan->domains[0].name, "one-gpu");
  EXPECT_EQ(plan->frontends[0].gpu->window_bytes, 64u << 20);
}

TEST(Config, AMachineWithoutGpuNeedsNoDomain) {
  Document document;
  config::MachineT machine;
  ASSERT_TRUE(ParseMachine(R"({"name": "one", "os": "bare", "firmware": "a.elf"})", &document, &machine));
  Problems problems;
  const auto plan = MakePlan(TopologyOfMachine(machine), &problems);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->domains, IsEmpty());
  EXPECT_FALSE(plan->frontends[0].domain.has_value());
}

// One mistake in an otherwise sound file: what the user is told.
struct Mistake {
  const char* name;
  const char* find;     // in kGood
  const char* replace;  // by this
  int line;
  const char* says;
  const char* remedy;
};
void PrintTo(const Mistake& c, std::ostream* out) {
  *out << c.name;
}
constexpr Mistake kMistakes[] = {
    {"UnknownKeyAtTheTop", "\"selection\"", "\"selektion\"", 6, "selektion: unknown key",
     "gpu_domains, domain_policy, selection"},
    {"UnknownKeyInADomain", "\"max_frontends\": 3", "\"max\": 3", 3, "gpu_domains[0].max: unknown key",
     "max_frontends"},
    {"UnknownKeyInGpu", "\"memory_mib\": 64", "\"memory\": 64", 9, "frontends[0].gpu.memory: unknown key",
     "memory_mib"},
    {"NumberInQuotes", "\"vcpus\": 2", "\"vcpus\": \"2\"", 10, "frontends[1].vcpus: '2': ", "must be a number"},
    {"NegativeNumber", "\"vcpus\": 2", "\"vcpus\": -2", 10, "frontends[1].vcpus: -2: ", "whole number"},
    {"Fraction", "\"vcpus\": 2", "\"vcpus\": 1.5", 10, "frontends[1].vcpus: 1.5: ", "whole number"},
    {"HugeNumber", "\"vcpus\": 2", "\"vcpus\": 99999999999999999999", 10, "frontends[1].vcpus: 999", "1 to 16"},
    {"ZeroCpus", "\"vcpus\": 2", "\"vcpus\": 0", 10, "frontends[1].vcpus: 0: ", "must be 1 to 16"},
    {"TooMuchMemory", "\"mem_mib\": 128", "\"mem_mib\": 4096", 10,
     "frontends[1].mem_mib: 4096: ", "must be 16 to 3072"},
    {"TooManyMachines", "\"count\": 2", "\"count\": 257", 8, "frontends[0].count: 257: ", "must be 1 to 256"},
    {"NumberForText", "\"os\": \"bare\"}", "\"os\": 7}", 4, "gpu_domains[1].os: 7: ", "must be a string"},
    {"NullForText", "\"os\": \"bare\"}", "\"os\": null}", 4, "gpu_domains[1].os: null: ", "must be a string"},
    {"TextForFlag", "\"capture\": true", "\"capture\": \"yes\"", 9,
     "frontends[0].gpu.capture: 'yes': ", "must be true or false"},
    {"ListForObject", "\"gpu\": {}", "\"gpu\": []", 10, "frontends[1].gpu: a list: ", "must be an object"},
    {"MissingName", "\"name\": \"gpu-b\", ", "", 4, "gpu_domains[1]: the key \"name\" is missing",
     "Unique among domains"},
    {"MissingFirmware", "\"firmware\": \"triangle\", \"vcpus\"", "\"vcpus\"", 10,
     "frontends[1]: the key \"firmware\" is missing", "ELF64"},
    {"BadName", "\"tool\"", "\"my tool\"", 10, "frontends[1].name: 'my tool': ", "lower-case letters"},
    {"NameThatIsAPath", "\"tool\"", "\"../tool\"", 10, "frontends[1].name: '../tool': ", "lower-case letters"},
    {"BadSelection", "\"pack\"", "\"random\"", 6, "selection: 'random': ", "least-loaded, pack, spread"},
    {"BadIsolation", "\"process\"", "\"thread\"", 3, "gpu_domains[0].isolation: 'thread': ", "process, microvm"},
    {"MicrovmIsolation", "\"process\"", "\"microvm\"", 3, "gpu_domains[0].isolation: 'microvm': ", "use \"process\""},
    {"SameDomainTwice", "\"gpu-b\"", "\"gpu-a\"", 4, "gpu_domains[1].name: 'gpu-a': ", "taken by gpu_domains[0].name"},
    {"MachineNamedLikeADomain", "\"tool\"", "\"gpu-a\"", 10, "frontends[1].name: 'gpu-a': ", "taken by"},
    {"MachineNamedLikeAGeneratedOne", "\"tool\"", "\"web-1\"", 10,
     "frontends[1].name: 'web-1': ", "taken by frontends[0].name"},
    {"CommaInAGpuName", "\"os\": \"bare\"}", "\"os\": \"bare\", \"gpus\": [{\"vulkan\": \"a, b\"}]}", 4,
     "gpu_domains[1].gpus[0].vulkan: 'a, b': ", "any part of the device's name"},
    {"WindowNotAPowerOfTwo", "\"gpu\": {}", "\"gpu\": {\"window_mib\": 100}", 10,
     "frontends[1].gpu.window_mib: 100: ", "power of two"},
    {"WrongOsType", "\"tool\", \"os\": \"bare\"", "\"tool\", \"os\": \"windows\"", 10,
     "frontends[1].os: 'windows': no GPU Domain of this OS type; there are: bare (gpu-b), linux (gpu-a)",
     "Add a domain or change the type."},
    {"PinWithoutGpu", "\"gpu\": {}", "\"pin\": \"gpu-b\"", 10, "frontends[1].pin: 'gpu-b': ", "add \"gpu\": {}"},
    {"NotJson", "\"selection\": ", "\"selection\" ", 6, "not JSON", "expected ':'"},
    {"SameKeyTwice", "\"vcpus\": 2", "\"os\": \"bare\"", 10, "not JSON", "twice"},
};

class ConfigMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(ConfigMistake, IsToldWithFileLineKeyValueAndRemedy) {
  std::string text = kGood;
  const size_t at = text.find(GetParam().find);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().find).size(), GetParam().replace);
  const std::string report = ReportOf(text);
  EXPECT_THAT(report, StartsWith("lab.json:" + std::to_string(GetParam().line) + ": "));
  EXPECT_THAT(report, AllOf(HasSubstr(GetParam().says), HasSubstr(GetParam().remedy)));
}
INSTANTIATE_TEST_SUITE_P(All, ConfigMistake, ::testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Config, AllMistakesAreToldAtOnce) {
  const std::string report = ReportOf(R"({
    "gpu_domains": [{"name": "A", "os": "linux"}],
    "frontends": [{"name": "w", "os": "linux", "firmware": "f", "vcpus": 0, "colour": "red"}]
  })");
  EXPECT_THAT(report, AllOf(HasSubstr("lab.json:2: gpu_domains[0].name"), HasSubstr("lab.json:3: frontends[0].vcpus"),
                            HasSubstr("lab.json:3: frontends[0].colour")));
}

TEST(Config, TheWindowHasTheLimitsOfTheMachine) {
  const auto with = [](const std::string& mib) {
    return ReportOf(R"({"gpu_domains": [{"name": "a", "os": "x"}],
        "frontends": [{"name": "f", "os": "x", "firmware": "f", "gpu": {"window_mib": )" +
                    mib + "}}]}");
  };
  EXPECT_EQ(with("16"), "");
  EXPECT_EQ(with("2048"), "");
  EXPECT_THAT(with("8"), HasSubstr("must be 16 to 2048"));
  EXPECT_THAT(with("4096"), HasSubstr("must be 16 to 2048"));
}

TEST(Config, TheTypesOfAPolicyAreNames) {
  const auto with = [](const std::string& os) {
    return ReportOf(R"({"domain_policy": {"os": [")" + os + R"("]},
                        "frontends": [{"name": "f", "os": "x", "firmware": "f"}]})");
  };
  EXPECT_THAT(with("Linux/../x"), HasSubstr("domain_policy.os[0]: 'Linux/../x': must be lower-case letters"));
  EXPECT_THAT(with("abcdefghijklmnop"), HasSubstr("must be 1 to 15 bytes"));
}

TEST(Config, ControlCharactersOfTheFileDoNotReachTheTerminal) {
  const std::string report = ReportOf(
      "{\"\\u001b[2J\": 1, \"frontends\": [{\"name\": \"f\", \"os\": \"x\", "
      "\"firmware\": \"f\", \"colo\\u009bur\u00e9\": 1}]}");
  EXPECT_THAT(report, AllOf(HasSubstr("\\u001b[2J: unknown key"), HasSubstr("colo\\u009bur\u00e9: unknown key")));
  EXPECT_EQ(report.find('\x1b'), std::string::npos);
}

TEST(Config, ASchemaMayBeNamedAtTheRootOnly) {
  EXPECT_EQ(ReportOf(R"({"$schema": "../docs/schema/topology.schema.json",
                         "frontends": [{"name": "f", "os": "x", "firmware": "f"}]})"),
            "");
  EXPECT_THAT(ReportOf(R"({"$schema": 1, "frontends": [{"name": "f", "os": "x", "firmware": "f"}]})"),
              HasSubstr("$schema: 1: must be a string"));
  EXPECT_THAT(ReportOf(R"({"frontends": [{"$schema": "x", "name": "f", "os": "x", "firmware": "f"}]})"),
              HasSubstr("unknown key"));
}

TEST(Config, DomainsAndPolicyTogetherAreRefused) {
  EXPECT_THAT(ReportOf(R"({"gpu_domains": [{"name": "a", "os": "x"}], "domain_policy": {"os": ["x"]},
                           "frontends": [{"name": "f", "os": "x", "firmware": "f", "gpu": {}}]})"),
              HasSubstr("keep one of the two"));
}

TEST(Config, AMissingFileIsItsOwnKindOfProblem) {
  Document document;
  config::TopologyT topology;
  EXPECT_FALSE(LoadTopology("/nonexistent/lab.json", &document, &topology));
  ASSERT_THAT(document.problems, SizeIs(1));
  EXPECT_EQ(document.problems[0].kind, ProblemKind::kMissingFile);
  EXPECT_THAT(document.Report(), StartsWith("/nonexistent/lab.json: cannot be read"));
  Document directory;
  EXPECT_FALSE(LoadTopology("/", &directory, &topology));
  EXPECT_EQ(directory.problems[0].kind, ProblemKind::kMissingFile);
}

TEST(Config, TheCommittedJsonSchemasAreTheOnesOfThisBinary) {
  for (const char* kind : {"topology", "machine"}) {
    std::ifstream in(std::string(SLUICE_SOURCE_DIR "/docs/schema/") + kind + ".schema.json");
    std::ostringstream committed;
    committed << in.rdbuf();
    EXPECT_EQ(committed.str(), JsonSchemaText(kind))
        << "run: sluice check --schema " << kind << " > docs/schema/" << kind << ".schema.json";
    JsonValue value;
    JsonError error;
    EXPECT_TRUE(ParseJson(JsonSchemaText(kind), &value, &error)) << error.message;
  }
}

TEST(Config, EveryExampleIsSound) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".json") continue;
    ++seen;
    Document document;
    config::TopologyT topology;
    config::MachineT machine;
    Document probe;
    if (LoadTopology(entry.path(), &document, &topology) == false && LooksLikeMachine(document.tree)) {
      EXPECT_TRUE(LoadMachine(entry.path(), &probe, &machine)) << probe.Report();
      topology = TopologyOfMachine(machine);
    } else {
      EXPECT_THAT(document.Report(), IsEmpty());
    }
    Problems problems;
    EXPECT_TRUE(MakePlan(topology, &problems).has_value()) << entry.path();
  }
  EXPECT_GE(seen, 3);
}

TEST(Firmware, NamesArePutIntoTheShippedDirectoryAndPathsNextToTheFile) {
  const FirmwareSearch search{"/lab", "/usr/lib/firmware"};
  EXPECT_EQ(ResolveFirmware("triangle", search), "/usr/lib/firmware/triangle.elf");
  EXPECT_EQ(ResolveFirmware("mine.elf", search), "/lab/mine.elf");
  EXPECT_EQ(ResolveFirmware("../x/mine", search), "/x/mine");
  EXPECT_EQ(ResolveFirmware("/a/b", search), "/a/b");
}

// The smallest guest: one segment of one byte at `address`.
std::string ElfAt(uint64_t address, uint16_t segments = 1, uint32_t type = PT_LOAD) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_entry = address;
  header.e_phoff = header.e_ehsize = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = segments;
  Elf64_Phdr segment{};
  segment.p_type = type;
  segment.p_flags = PF_X | PF_R;
  segment.p_vaddr = segment.p_paddr = address;
  segment.p_memsz = 1;
  std::string bytes(sizeof(header) + sizeof(segment), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &segment, sizeof(segment));
  return bytes;
}

TEST(Firmware, WhatCannotBootIsRefusedWithTheReason) {
  char directory[] = "/tmp/sluice-firmware-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string file = std::string(directory) + "/guest.elf";
  const auto refusal = [&](const std::string& bytes, uint64_t size) {
    std::ofstream(file, std::ios::binary) << bytes;
    std::filesystem::resize_file(file, size == 0 ? bytes.size() : size);
    Plan plan;
    plan.frontends.push_back({.name = "a", .os = "x", .mem_mib = 16, .firmware = file, .path = "frontends[0]"});
    Problems problems;
    if (ResolveFirmwareFiles({"", directory}, &plan, &problems)) return std::string();
    EXPECT_EQ(problems[0].kind, ProblemKind::kConfig);
    EXPECT_THAT(problems[0].message, HasSubstr(file));
    return problems[0].message;
  };
  EXPECT_EQ(refusal(ElfAt(1 << 20), 0), "");
  EXPECT_THAT(refusal(ElfAt(1 << 20).substr(0, 100), 0), HasSubstr("past the file's end"));
  EXPECT_THAT(refusal(ElfAt(1 << 20, 1, PT_INTERP), 0), HasSubstr("dynamic linker"));
  EXPECT_THAT(refusal(ElfAt(1 << 20), uint64_t{200} << 30), HasSubstr("214748364800 bytes"));
  EXPECT_THAT(refusal(ElfAt(0x1000), 0), HasSubstr("where the boot data is"));
  EXPECT_THAT(refusal(ElfAt(16 << 20), 0), HasSubstr("raise mem_mib"));
  std::filesystem::remove_all(directory);
}

TEST(Firmware, AMissingOneIsToldOnceForItsGroupWithWhatIsShipped) {
  char directory[] = "/tmp/sluice-firmware-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  std::ofstream(std::string(directory) + "/triangle.elf") << ElfAt(1 << 20);
  std::ofstream(std::string(directory) + "/text.elf") << "hello";
  Document document;
  config::TopologyT topology;
  ASSERT_TRUE(ParseTopology(R"({"frontends": [
     {"name": "a", "os": "x", "firmware": "triangle"},
     {"name": "b", "count": 3, "os": "x", "firmware": "nonesuch"},
     {"name": "c", "os": "x", "firmware": "text"}]})",
                            &document, &topology))
      << document.Report();
  Problems problems;
  auto plan = MakePlan(topology, &problems);
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(ResolveFirmwareFiles({"", directory}, &*plan, &problems));
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].kind, ProblemKind::kMissingFile);
  EXPECT_EQ(problems[0].path, "frontends[1].firmware");
  EXPECT_THAT(problems[0].message, AllOf(HasSubstr("nonesuch.elf: there is no such file"), HasSubstr("triangle")));
  EXPECT_EQ(problems[1].kind, ProblemKind::kConfig);
  EXPECT_THAT(problems[1].message, HasSubstr("not a usable ELF file"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace sluice::topology
