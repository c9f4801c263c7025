#include "vmm/boot/acpi.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/boot/aml.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestRange;
using memory::kGiB;
using memory::kMiB;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kPlace = 0xe0000;

AcpiOptions Options() {
  AcpiOptions o;
  o.apic_ids = {0, 1};
  o.local_apic = GuestAddress(0xfee00000);
  o.ioapic = GuestAddress(0xfec00000);
  o.ecam = GuestAddress(0xe0000000);
  o.window32 = GuestRange::Create(GuestAddress(0xe1000000), 0xf000000);
  o.window64 = GuestRange::Create(GuestAddress(256 * kGiB), 4 * kGiB);
  o.sleep_control_port = 0x600;
  o.sleep_status_port = 0x601;
  o.reset_port = 0x602;
  o.reset_value = 1;
  o.serial_port = 0x3f8;
  o.serial_gsi = 4;
  o.panic_port = 0x505;
  return o;
}

AcpiOptions TwoNodes() {
  AcpiOptions o = Options();
  o.memory = {{*GuestRange::Create(GuestAddress(0), kGiB), 0},
              {*GuestRange::Create(GuestAddress(kGiB), kGiB), 1},
              {*GuestRange::Create(GuestAddress(4 * kGiB), kGiB), 1}};
  o.cpu_nodes = {0, 1};
  return o;
}

// The tables as a guest finds them: by pointers from the RSDP, each with its checksum.
class Found {
 public:
  explicit Found(const AcpiOptions& options) {
    auto built = BuildAcpiTables(options, GuestAddress(kPlace));
    EXPECT_TRUE(built.ok()) << built.status();
    bytes_ = built->bytes;
    const uint64_t rsdp = built->rsdp.value();
    EXPECT_EQ(Text(rsdp, 8), "RSD PTR ");
    EXPECT_EQ(Sum(rsdp, 20), 0);
    EXPECT_EQ(Sum(rsdp, 36), 0);
    const uint64_t xsdt = Add(Number(rsdp + 24, 8));
    for (uint64_t at = xsdt + 36; at < xsdt + Number(xsdt + 4, 4); at += 8) Add(Number(at, 8));
    Add(Number(Of("FACP") + 140, 8));
  }

  uint64_t Number(uint64_t at, int count) const {
    uint64_t value = 0;
    EXPECT_LE(at - kPlace + static_cast<uint64_t>(count), bytes_.size());
    std::memcpy(&value, bytes_.data() + (at - kPlace), static_cast<size_t>(count));
    return value;
  }
  std::string Text(uint64_t at, size_t count) const {
    return std::string(bytes_.begin() + static_cast<ptrdiff_t>(at - kPlace),
                       bytes_.begin() + static_cast<ptrdiff_t>(at - kPlace + count));
  }
  // Address of the table, 0 if there is none.
  uint64_t Of(const std::string& signature) const {
    const auto it = tables_.find(signature);
    return it == tables_.end() ? 0 : it->second;
  }
  std::string Table(const std::string& signature) const { return Text(Of(signature), Number(Of(signature) + 4, 4)); }
  std::vector<std::string> signatures() const {
    std::vector<std::string> names;
    for (const auto& [name, at] : tables_) names.push_back(name);
    return names;
  }

 private:
  int Sum(uint64_t at, uint64_t count) const {
    const std::string text = Text(at, count);
    return std::accumulate(text.begin(), text.end(), 0) & 0xff;
  }
  uint64_t Add(uint64_t at) {
    const std::string signature = Text(at, 4);
    EXPECT_EQ(Sum(at, Number(at + 4, 4)), 0) << signature;
    tables_[signature] = at;
    return at;
  }
  std::vector<uint8_t> bytes_;
  std::map<std::string, uint64_t> tables_;
};

TEST(AcpiTest, EveryTableIsReachedFromTheRootPointer) {
  EXPECT_THAT(Found(Options()).signatures(), ElementsAre("APIC", "DSDT", "FACP", "MCFG", "XSDT"));
  EXPECT_THAT(Found(TwoNodes()).signatures(), ElementsAre("APIC", "DSDT", "FACP", "MCFG", "SRAT", "XSDT"));
}

TEST(AcpiTest, TheFadtSaysWhatIsNotThereAndHowToLeave) {
  const Found found(Options());
  const uint64_t fadt = found.Of("FACP");
  EXPECT_EQ(found.Number(fadt + 4, 4), 276u);
  EXPECT_EQ(found.Number(fadt + 109, 2), 0x34u) << "no VGA, no ASPM, no CMOS RTC";
  EXPECT_NE(found.Number(fadt + 112, 4) & 1 << 20, 0u) << "hardware-reduced";
  EXPECT_NE(found.Number(fadt + 112, 4) & 1 << 10, 0u) << "reset register";
  EXPECT_EQ(found.Number(fadt + 116, 4), 0x01000801u);
  EXPECT_EQ(found.Number(fadt + 120, 8), 0x602u);
  EXPECT_EQ(found.Number(fadt + 128, 1), 1u);
  EXPECT_EQ(found.Number(fadt + 248, 8), 0x600u) << "sleep control";
  EXPECT_EQ(found.Number(fadt + 260, 8), 0x601u) << "sleep status";
  EXPECT_EQ(kSleepOff, 0x34);
}

TEST(AcpiTest, ProcessorsWithLargeIdsAreX2apics) {
  AcpiOptions o = Options();
  o.apic_ids = {0, 254, 255, 1000};
  const Found found(o);
  const uint64_t madt = found.Of("APIC");
  uint64_t at = madt + 44;
  std::vector<std::pair<uint64_t, uint64_t>> processors;  // type, id
  while (at < madt + found.Number(madt + 4, 4)) {
    const uint64_t type = found.Number(at, 1);
    if (type == 0) processors.emplace_back(type, found.Number(at + 3, 1));
    if (type == 9) processors.emplace_back(type, found.Number(at + 4, 4));
    at += found.Number(at + 1, 1);
  }
  using P = std::pair<uint64_t, uint64_t>;
  EXPECT_THAT(processors, ElementsAre(P(0, 0), P(0, 254), P(9, 255), P(9, 1000)));
  EXPECT_EQ(found.Number(madt + 36, 4), 0xfee00000u);
  EXPECT_EQ(found.Number(madt + 40, 4), 0u) << "no 8259";
}

TEST(AcpiTest, TheMcfgHasOneBus) {
  const Found found(Options());
  const uint64_t mcfg = found.Of("MCFG");
  EXPECT_EQ(found.Number(mcfg + 44, 8), 0xe0000000u);
  EXPECT_EQ(found.Number(mcfg + 54, 2), 0u) << "first and last bus";
}

TEST(AcpiTest, TheSratNamesProcessorsAndMemory) {
  const Found found(TwoNodes());
  const uint64_t srat = found.Of("SRAT");
  EXPECT_EQ(found.Number(srat + 4, 4), 48u + 2 * 16 + 3 * 40);
  EXPECT_EQ(found.Number(srat + 48 + 16 + 2, 1), 1u) << "node of vCPU 1";
  const uint64_t last = srat + 48 + 2 * 16 + 2 * 40;
  EXPECT_EQ(found.Number(last + 2, 4), 1u);
  EXPECT_EQ(found.Number(last + 8, 8), 4 * kGiB);
  EXPECT_EQ(found.Number(last + 16, 8), kGiB);
}

TEST(AcpiTest, WrongOptionsAreNamed) {
  const auto refusal = [](const AcpiOptions& o, uint64_t place = kPlace) {
    return std::string(BuildAcpiTables(o, GuestAddress(place)).status().message());
  };
  AcpiOptions o = Options();
  o.apic_ids = {};
  EXPECT_THAT(refusal(o), HasSubstr("no processor"));
  o.apic_ids = {3, 3};
  EXPECT_THAT(refusal(o), HasSubstr("twice"));
  o = Options();
  o.ecam = GuestAddress(4 * kGiB);
  EXPECT_THAT(refusal(o), HasSubstr("ecam"));
  o = Options();
  o.reset_port = 0;
  EXPECT_THAT(refusal(o), HasSubstr("ports"));
  o = TwoNodes();
  o.cpu_nodes.pop_back();
  EXPECT_THAT(refusal(o), HasSubstr("1 nodes for 2 processors"));
  o = Options();
  o.window32 = o.window64;
  EXPECT_THAT(refusal(o), HasSubstr("window32"));
  EXPECT_THAT(refusal(Options(), kPlace + 8), HasSubstr("aligned"));
}

TEST(AmlTest, ConstructsHaveTheBytesOfTheSpecification) {
  using aml::Bytes;
  EXPECT_EQ(aml::Integer(0), Bytes({0x00}));
  EXPECT_EQ(aml::Integer(1), Bytes({0x01}));
  EXPECT_EQ(aml::Integer(0xcf8), Bytes({0x0b, 0xf8, 0x0c}));
  EXPECT_EQ(aml::Integer(uint64_t{1} << 40).size(), 9u);
  EXPECT_EQ(aml::EisaId("PNP0A08"), Bytes({0x0c, 0x41, 0xd0, 0x0a, 0x08}));
  EXPECT_EQ(aml::Name("_S5", aml::Integer(1)), Bytes({0x08, '_', 'S', '5', '_', 0x01}));
  EXPECT_EQ(aml::Scope("\\_SB", {}), Bytes({0x10, 0x06, '\\', '_', 'S', 'B', '_'}));
  // A length of 63 still fits one byte, 64 needs two, 4096 three.
  const auto length = [](size_t body) { return aml::Scope("ABCD", Bytes(body, 0xa3)); };
  EXPECT_EQ(length(58)[1], 0x3f);
  EXPECT_EQ(length(59)[1], 0x41);
  EXPECT_EQ(length(59)[2], 0x04) << "65 = 0x41: low 4 bits first";
  EXPECT_EQ(length(5000)[1] >> 6, 2);
}

// Intel's compiler as the judge, where it is installed (acpica-tools).
class IaslTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/iasl", X_OK) != 0) GTEST_SKIP() << "no /usr/bin/iasl: install acpica-tools";
    char name[] = "/tmp/sluice-acpi-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (!directory_.empty()) (void)std::system(absl::StrCat("rm -rf ", directory_).c_str());
  }
  // The exit status, and what it printed.
  std::pair<int, std::string> Run(const std::string& arguments) {
    const std::string log = directory_ + "/log";
    const int status =
        std::system(absl::StrCat("cd ", directory_, " && iasl ", arguments, " > ", log, " 2>&1").c_str());
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    return {WEXITSTATUS(status), text.str()};
  }
  std::string File(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/" + name).rdbuf();
    return text.str();
  }
  std::string directory_;
};

TEST_F(IaslTest, EveryTableDisassemblesAndCompilesAgain) {
  const Found found(TwoNodes());
  for (const std::string& signature : found.signatures()) {
    std::ofstream(directory_ + "/" + signature + ".aml", std::ios::binary) << found.Table(signature);
    const auto [status, log] = Run("-d " + signature + ".aml");
    EXPECT_EQ(status, 0) << log;
    EXPECT_THAT(log, Not(HasSubstr("rror"))) << signature;
    EXPECT_THAT(File(signature + ".dsl"), Not(HasSubstr("**** "))) << "a part that iasl cannot make sense of";
    const auto [again, text] = Run(signature + ".dsl");
    EXPECT_EQ(again, 0) << signature << ": " << text;
  }
}

TEST_F(IaslTest, TheNamespaceIsWhatItShouldBe) {
  std::ofstream(directory_ + "/dsdt.aml", std::ios::binary) << Found(Options()).Table("DSDT");
  ASSERT_EQ(Run("-d dsdt.aml").first, 0);
  const std::string dsl = File("dsdt.dsl");
  for (const char* part :
       {"Device (PCI0)", "EisaId (\"PNP0A08\")", "WordBusNumber", "0xE1000000", "0x0000004000000000", "Device (COM1)",
        "Interrupt (ResourceConsumer, Edge, ActiveHigh, Exclusive", "0x03F8", "\"QEMU0001\"", "_S5, Package (0x04)"}) {
    EXPECT_THAT(dsl, HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice::boot
