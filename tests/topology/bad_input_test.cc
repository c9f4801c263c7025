// Each kind of bad input has its own message and its own exit code, and nothing is started. The binary itself is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/topology/sluice_process.h"
#include "vmm/kvm/testing/need_kvm.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct BadInput {
  const char* name;
  const char* topology;  // lab.json
  int code;
  const char* says;  // after "DIR/"
  const char* remedy;
};

void PrintTo(const BadInput& c, std::ostream* out) {
  *out << c.name;
}
constexpr BadInput kInputs[] = {
    {"NotJson", "{\n\"frontends\": [}", 3, "lab.json:2: column 15: not JSON: expected a value", "found '}'"},
    {"UnknownKey", "{\"frontends\": [\n{\"name\": \"a\", \"os\": \"x\", \"firmware\": \"hello\", \"memory\": 1}]}", 3,
     "lab.json:2: frontends[0].memory: unknown key", "mem_mib"},
    {"WrongType",
     "{\"frontends\": [\n\n{\"name\": \"a\", \"os\": \"x\", \"firmware\": \"hello\", \"vcpus\": \"two\"}]}", 3,
     "lab.json:3: frontends[0].vcpus: 'two'", "must be a number"},
    {"SameName",
     "{\"frontends\": [{\"name\": \"a\", \"os\": \"x\", \"firmware\": \"hello\"},\n{\"name\": \"a\", \"os\": \"x\", "
     "\"firmware\": \"hello\"}]}",
     3, "lab.json:2: frontends[1].name: 'a': this name is taken", "names are unique"},
    {"Microvm",
     "{\"gpu_domains\": [{\"name\": \"g\", \"os\": \"x\",\n \"isolation\": \"microvm\"}],\n"
     "\"frontends\": [{\"name\": \"a\", \"os\": \"x\", \"firmware\": \"hello\", \"gpu\": {}}]}",
     3, "lab.json:2: gpu_domains[0].isolation: 'microvm'", "use \"process\""},
    {"NoDomainOfTheType",
     "{\"gpu_domains\": [{\"name\": \"gpu-a\", \"os\": \"linux\"}],\n\"frontends\": [\n"
     "{\"name\": \"a\", \"os\": \"windows\", \"firmware\": \"hello\", \"gpu\": {}}]}",
     4, "lab.json:3: frontends[0].os: 'windows': no GPU Domain of this OS type; there are: linux (gpu-a).",
     "Add a domain or change the type."},
    {"FewerFrontendsThanDomains",
     "{\"gpu_domains\": [{\"name\": \"g\", \"os\": \"x\"}, {\"name\": \"h\", \"os\": \"x\"}],\n"
     "\"frontends\": [{\"name\": \"a\", \"os\": \"x\", \"firmware\": \"hello\", \"gpu\": {}}]}",
     4, "lab.json:1: gpu_domains: 2 domains for 1 front-end", "remove domains or add front-ends"},
    {"NoRoom",
     "{\"gpu_domains\": [{\"name\": \"g\", \"os\": \"x\", \"max_frontends\": 1}],\n"
     "\"frontends\": [{\"name\": \"a\", \"count\": 2, \"os\": \"x\", \"firmware\": \"hello\", \"gpu\": {}}]}",
     4, "lab.json:2: frontends[0]: 2 front-ends of type x for 1 places", "raise max_frontends"},
    {"MissingFirmware", "{\"frontends\": [{\"name\": \"a\", \"os\": \"x\",\n\"firmware\": \"guests/none.elf\"}]}", 6,
     "lab.json:2: frontends[0].firmware: 'guests/none.elf'", "there is no such file"},
    {"FirmwareThatIsNoGuest", "{\"frontends\": [{\"name\": \"a\", \"os\": \"x\",\n\"firmware\": \"./lab.json\"}]}", 3,
     "lab.json:2: frontends[0].firmware: './lab.json'", "not a usable ELF file"},
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsRefusedByRunAndByCheckBeforeAnythingStarts) {
  const TempDir dir;
  const std::string file = dir.Write("lab.json", GetParam().topology);
  const std::string out = dir.path() + "/out";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", file, "--out", out}, {"check", file}}) {
    SluiceProcess run(arguments);
    EXPECT_EQ(run.Wait(), GetParam().code);
    EXPECT_THAT(run.Err(), AllOf(StartsWith(dir.path() + "/" + GetParam().says), HasSubstr(GetParam().remedy)));
    EXPECT_THAT(run.Out(), IsEmpty());
  }
  EXPECT_NE(access(out.c_str(), F_OK), 0) << "nothing is written for a topology that is refused";
}
INSTANTIATE_TEST_SUITE_P(All, BadInputTest, ::testing::ValuesIn(kInputs),
                         [](const auto& info) { return std::string(info.param.name); });

struct BadCommand {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  const char* says;
};

void PrintTo(const BadCommand& c, std::ostream* out) {
  *out << c.name;
}
class BadCommandTest : public ::testing::TestWithParam<BadCommand> {};

TEST_P(BadCommandTest, SaysWhatIsWrong) {
  SluiceProcess run(GetParam().arguments);
  EXPECT_EQ(run.Wait(), GetParam().code);
  EXPECT_THAT(run.Err(), HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    All, BadCommandTest,
    ::testing::ValuesIn(std::vector<BadCommand>{
        {"NoVerb", {}, 2, "usage: sluice VERB"},
        {"UnknownVerb", {"walk"}, 2, "'walk': unknown verb; there are: run, vm, check, trace"},
        {"NoFile", {"run"}, 2, "usage: sluice run TOPOLOGY"},
        {"UnknownOption", {"run", "a.json", "--fast"}, 2, "--fast: unknown option"},
        {"BadTimeout", {"run", "a.json", "--timeout", "90"}, 2, "--timeout 90: must be a time with its unit"},
        {"BadLevel", {"run", "a.json", "--log-level", "loud"}, 2, "must be debug, info, warn or error"},
        {"MissingTopology", {"run", "/nonexistent/lab.json"}, 6, "/nonexistent/lab.json: cannot be read"},
        {"MissingMachine", {"vm", "/nonexistent/vm.json"}, 6, "/nonexistent/vm.json: cannot be read"},
        {"ADirectory", {"run", "/"}, 6, "is a directory"},
        {"OutThatCannotBeMade",
         {"vm", SLUICE_SOURCE_DIR "/examples/vm-hello.json", "--out", "/dev/null/out"},
         2,
         "--out /dev/null/out: "},
        {"UnknownSchema", {"check", "--schema", "car"}, 2, "must be topology or machine"},
        {"UnknownTraceVerb", {"trace", "play", "x"}, 2, "there is: trace dump FILE"},
        {"MissingTrace", {"trace", "dump", "/nonexistent"}, 6, "/nonexistent: no such file"},
        {"ATraceThatIsNone", {"trace", "dump", "/proc/self/status"}, 3, "/proc/self/status: "},
        {"NoKvm",
         {"vm", SLUICE_SOURCE_DIR "/examples/vm-hello.json", "--kvm", "/nonexistent/kvm"},
         5,
         "/nonexistent/kvm"},
        {"NotKvm", {"vm", SLUICE_SOURCE_DIR "/examples/vm-hello.json", "--kvm", "/dev/null"}, 5, "/dev/null"},
        {"CheckWithoutKvm", {"check", "--kvm", "/nonexistent/kvm"}, 5, ""},
    }),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Kvm, NotPermittedIsItsOwnMessageWithARemedy) {
  SLUICE_NEEDS_KVM();
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody who may not use /dev/kvm";
  const std::vector<std::string> before = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                           "--"};
  if (SluiceProcess({"--version"}, before).Wait() != 0) GTEST_SKIP() << "uid 65534 cannot run the binary where it lies";
  if (struct stat info; stat("/dev/kvm", &info) != 0 || (info.st_mode & 06) != 0)
    GTEST_SKIP() << "/dev/kvm is for everybody here";
  SluiceProcess run({"vm", SLUICE_SOURCE_DIR "/examples/vm-hello.json"}, before);
  EXPECT_EQ(run.Wait(), 5);
  EXPECT_THAT(run.Err(), AllOf(HasSubstr("/dev/kvm"), HasSubstr("may not be opened"), HasSubstr("group")));
}

TEST(Files, AFifoIsRefusedAndNotWaitedFor) {
  const TempDir dir;
  const std::string fifo = dir.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", fifo}, {"run", fifo}, {"vm", fifo}, {"trace", "dump", fifo}}) {
    SluiceProcess run(arguments);
    EXPECT_EQ(run.Wait(absl::Seconds(60)), 6);
    EXPECT_THAT(run.Err(), HasSubstr(fifo + ": is not a regular file"));
  }
}

TEST(Files, StandardOutputThatCannotBeWrittenIsAnError) {
  const std::vector<std::string> before = {"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full"};
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", SLUICE_SOURCE_DIR "/examples/first-light.json"}, {"--help"}, {"version"}}) {
    SluiceProcess run(arguments, before);
    EXPECT_EQ(run.Wait(), 7);
    EXPECT_THAT(run.Err(), HasSubstr("standard output could not be written"));
  }
}

TEST(Help, ListsVerbsAndExitCodes) {
  SluiceProcess help({"--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.Out(), AllOf(HasSubstr("run TOPOLOGY"), HasSubstr("check [FILE]"), HasSubstr("trace dump FILE"),
                                HasSubstr("5   this host cannot"), HasSubstr("70  internal error")));
  for (const char* verb : {"run", "vm", "check", "trace"}) {
    SluiceProcess of_verb({verb, "--help"});
    EXPECT_EQ(of_verb.Wait(), 0) << verb;
    EXPECT_THAT(of_verb.Out(), StartsWith(std::string("usage: sluice ") + verb));
  }
  SluiceProcess version({"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.Out(), StartsWith("sluice 0."));
}

TEST(Check, WithoutKvmItSaysWhatFollowsAndHowToGoOn) {
  SluiceProcess check({"check", "--kvm", "/nonexistent/kvm"});
  EXPECT_EQ(check.Wait(), 5);
  EXPECT_THAT(check.Out(),
              AllOf(HasSubstr("FAILED  KVM: no /nonexistent/kvm: "), HasSubstr("load kvm_intel or kvm_amd"),
                    HasSubstr("no VM runs here"), HasSubstr("./dev nested -- CMD")));
  EXPECT_THAT(check.Out(), HasSubstr("Vulkan: ")) << "what needs no KVM is tried all the same";
}

TEST(Check, ASoundFileShowsItsPlacement) {
  SluiceProcess check({"check", SLUICE_SOURCE_DIR "/examples/first-light.json"});
  EXPECT_EQ(check.Wait(), 0) << check.Err();
  EXPECT_THAT(check.Out(), AllOf(HasSubstr("sound"), HasSubstr("domain gpu-a (linux, process): web solver"),
                                 HasSubstr("domain gpu-b (bare, process): panel")));
}

}  // namespace
}  // namespace sluice::testing
