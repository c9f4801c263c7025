// Probes against hosts that the tests make: directories with the files that the kernel would show.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/hostcheck/execution.h"
#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"
#include "vmm/hostcheck/kvm_probe.h"
#include "vmm/hostcheck/memory_probe.h"
#include "vmm/hostcheck/net_probe.h"
#include "vmm/hostcheck/pci_probe.h"

namespace sluice::hostcheck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Level = Finding::Level;

class FakeHost : public ::testing::Test {
 protected:
  FakeHost() {
    std::string name = ::testing::TempDir() + "/hostcheck.XXXXXX";
    root_ = mkdtemp(name.data());
    host_ = {.proc = root_ + "/proc", .sys = root_ + "/sys", .dev = root_ + "/dev"};
  }
  ~FakeHost() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }
  // A PCI function as sysfs shows it; `driver` and `group` may be empty.
  void Pci(const std::string& address, const std::string& id, const std::string& class_code, const std::string& driver,
           const std::string& group) {
    const std::string path = "/sys/bus/pci/devices/" + address + "/";
    Write(path + "vendor", "0x" + id.substr(0, 4) + "\n");
    Write(path + "device", "0x" + id.substr(5) + "\n");
    Write(path + "class", class_code + "\n");
    if (!driver.empty()) Link(path + "driver", "../../../bus/pci/drivers/" + driver);
    if (!group.empty()) {
      Link(path + "iommu_group", "../../../kernel/iommu_groups/" + group);
      std::filesystem::create_directories(root_ + "/sys/kernel/iommu_groups/" + group);
    }
  }

  std::string root_;
  HostFiles host_;
};

// --- the files themselves ---

using HostFilesTest = FakeHost;

TEST_F(HostFilesTest, TextNumbersAndFieldsAreReadAndNothingElseIsANumber) {
  Write("/sys/decimal", "42\n");
  Write("/sys/hex", "0x030000\n");
  Write("/sys/text", "many\n");
  Write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu svm\nprocessor\t: 1\n");
  EXPECT_EQ(HostFiles::ReadNumber(host_.sys + "/decimal"), 42u);
  EXPECT_EQ(HostFiles::ReadNumber(host_.sys + "/hex"), 0x30000u);
  EXPECT_EQ(HostFiles::ReadNumber(host_.sys + "/text"), std::nullopt);
  EXPECT_EQ(HostFiles::ReadNumber(host_.sys + "/absent"), std::nullopt);
  EXPECT_EQ(HostFiles::Field(host_.proc + "/cpuinfo", "flags"), "fpu svm");
  EXPECT_EQ(HostFiles::Field(host_.proc + "/cpuinfo", "bugs"), std::nullopt);
}

TEST_F(HostFilesTest, AFifoIsNotWaitedForAndAHugeFileIsCut) {
  std::filesystem::create_directories(host_.sys);
  ASSERT_EQ(mkfifo((host_.sys + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(HostFiles::Read(host_.sys + "/fifo"), std::nullopt);
  Write("/sys/huge", std::string(1 << 20, 'x'));
  EXPECT_LE(HostFiles::Read(host_.sys + "/huge")->size(), size_t{68} << 10);
}

TEST_F(HostFilesTest, CapabilitiesComeFromTheStatusOfTheProcess) {
  EXPECT_FALSE(HasCapability(host_, kCapNetAdmin));
  Write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000001000\n");
  EXPECT_TRUE(HasCapability(host_, kCapNetAdmin));
  EXPECT_FALSE(HasCapability(host_, 21));
}

// --- lines ---

TEST(FindingLine, HasWhatWasFoundWhatFollowsAndTheRemedy) {
  EXPECT_EQ(FindingLine(Ok("KVM", "it is there")), "ok      KVM: it is there");
  EXPECT_EQ(FindingLine(Failure("KVM", "none", "no VM runs", "Get one.")), "FAILED  KVM: none: no VM runs. Get one.");
  EXPECT_EQ(FindingLine(Note("tap", "none", "no network")), "note    tap: none: no network");
}

// --- KVM ---

TEST(KvmProbe, WithoutADeviceItSaysWhatFollowsAndHowToGoOn) {
  std::optional<kvm::System> system;
  const Finding absent = ProbeKvm("/nonexistent/kvm", &system);
  EXPECT_EQ(absent.level, Level::kFailure);
  EXPECT_THAT(FindingLine(absent), AllOf(HasSubstr("no /nonexistent/kvm: "), HasSubstr("load kvm_intel or kvm_amd"),
                                         HasSubstr("no VM runs here"), HasSubstr("./dev nested -- CMD")));
  EXPECT_FALSE(system.has_value());
  EXPECT_EQ(ProbeKvm("/dev/null", &system).level, Level::kFailure) << "a device that is no KVM";
}

TEST(KvmProbe, EachAbsentExtraIsNamedWithWhatFollows) {
  std::map<kvm::Capability, int> have = {{kvm::Capability::kMaxVcpus, 288}};
  const Finding few = ProbeCapabilities([&](kvm::Capability c) { return have.contains(c) ? have[c] : 0; });
  EXPECT_EQ(few.level, Level::kNote);
  EXPECT_THAT(few.found, AllOf(HasSubstr("up to 288 processors"), HasSubstr("KVM_CAP_TSC_CONTROL (guests see"),
                               HasSubstr("KVM_CAP_READONLY_MEM")));
  EXPECT_EQ(ProbeCapabilities([](kvm::Capability) { return 1; }).level, Level::kOk);
}

// --- execution ---

TEST(Execution, IsToldByBothRates) {
  EXPECT_EQ(Classify({.kernel_mips = 4000, .user_mips = 4100}), Execution::kHardware);
  EXPECT_EQ(Classify({.kernel_mips = 250, .user_mips = 230}), Execution::kHardware) << "on an emulated processor";
  EXPECT_EQ(Classify({.kernel_mips = 0.9, .user_mips = 4100}), Execution::kEmulatedKernel);
  EXPECT_EQ(Classify({.kernel_mips = 0.9, .user_mips = 1.1}), Execution::kEmulated);
}

using ExecutionTest = FakeHost;

TEST_F(ExecutionTest, HardwareIsNamedAndAHostThatIsAGuestIsToldSo) {
  Write("/proc/cpuinfo", "flags\t\t: fpu svm npt\n");
  std::filesystem::create_directories(host_.sys + "/module/kvm_amd");
  const CpuFacts real = ReadCpuFacts(host_);
  EXPECT_EQ(real.kvm_module, "kvm_amd");
  EXPECT_THAT(DescribeExecution({2000, 2000}, real).found,
              AllOf(HasSubstr("hardware (SVM)"), Not(HasSubstr("itself"))));
  Write("/proc/cpuinfo", "flags\t\t: fpu vmx hypervisor\n");
  const Finding nested = DescribeExecution({2000, 2000}, ReadCpuFacts(host_));
  EXPECT_EQ(nested.level, Level::kOk);
  EXPECT_THAT(nested.found, AllOf(HasSubstr("hardware (VMX)"), HasSubstr("itself a virtual machine")));
}

TEST_F(ExecutionTest, InterpretedKernelsAreAWarningThatNamesTheModule) {
  std::filesystem::create_directories(host_.sys + "/module/kvm_soft");
  const Finding finding = DescribeExecution({0.8, 3000}, ReadCpuFacts(host_));
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(FindingLine(finding), AllOf(HasSubstr("interpreted"), HasSubstr("kvm_soft"), HasSubstr("0.8 million"),
                                          HasSubstr("Linux guests do not boot"), HasSubstr("VT-x or AMD-V")));
}

// --- GPUs for VMs ---

using PciTest = FakeHost;

TEST_F(PciTest, WithoutIommuAndGpusTheNotesSaySo) {
  Pci("0000:00:00.0", "8086:1237", "0x060000", "", "");
  EXPECT_EQ(ProbeIommu(host_).level, Level::kNote);
  EXPECT_THAT(FindingLine(ProbeIommu(host_)), AllOf(HasSubstr("VT-d or AMD-Vi"), HasSubstr("intel_iommu=on")));
  EXPECT_THAT(FindingLine(ProbeVfio(host_)), HasSubstr("modprobe vfio-pci"));
  const std::vector<Finding> gpus = ProbeGpus(host_);
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].subject, "GPUs");
  EXPECT_THAT(gpus[0].follows, HasSubstr("lavapipe"));
}

TEST_F(PciTest, AGpuWithoutAGroupCannotGo) {
  Pci("0000:01:00.0", "10de:2204", "0x030000", "nouveau", "");
  Write("/sys/bus/pci/devices/0000:01:00.0/boot_vga", "1\n");
  const Finding gpu = ProbeGpus(host_)[0];
  EXPECT_EQ(gpu.subject, "GPU 0000:01:00.0");
  EXPECT_EQ(gpu.level, Level::kNote);
  EXPECT_THAT(gpu.found, AllOf(HasSubstr("10de:2204"), HasSubstr("driver nouveau"), HasSubstr("console"),
                               HasSubstr("no IOMMU group")));
}

TEST_F(PciTest, TheCommandsTakeEveryDrivenMemberOfTheGroupAndLeaveBridges) {
  Pci("0000:00:01.0", "8086:1901", "0x060400", "pcieport", "1");
  Pci("0000:01:00.0", "10de:2204", "0x030000", "nouveau", "1");
  Pci("0000:01:00.1", "10de:1aef", "0x040300", "snd_hda_intel", "1");
  Pci("0000:01:00.2", "10de:1aed", "0x0c0330", "", "1");
  Pci("0000:02:00.0", "144d:a808", "0x010802", "nvme", "2");
  EXPECT_THAT(FindingLine(ProbeIommu(host_)), HasSubstr("ok      IOMMU: 2 groups"));
  const std::vector<Finding> gpus = ProbeGpus(host_);
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].level, Level::kNote);
  EXPECT_THAT(gpus[0].found, AllOf(HasSubstr("group 1 together with 0000:01:00.1"), HasSubstr("0000:01:00.2")));
  EXPECT_THAT(gpus[0].remedy,
              AllOf(HasSubstr("modprobe vfio-pci"),
                    HasSubstr("echo vfio-pci > /sys/bus/pci/devices/0000:01:00.0/driver_override"),
                    HasSubstr("echo 0000:01:00.1 > /sys/bus/pci/devices/0000:01:00.1/driver/unbind"),
                    Not(HasSubstr("0000:00:01.0")), Not(HasSubstr("0000:01:00.2")), Not(HasSubstr("0000:02:00.0"))));
}

TEST_F(PciTest, AGpuBoundToVfioIsReadyIfItsGroupMayBeOpened) {
  Pci("0000:01:00.0", "1002:73bf", "0x030000", "vfio-pci", "7");
  const Finding refused = ProbeGpus(host_)[0];
  EXPECT_EQ(refused.level, Level::kNote);
  EXPECT_THAT(FindingLine(refused), AllOf(HasSubstr("this user may not use it"), HasSubstr("chown")));
  Write("/dev/vfio/7", "");
  const Finding ready = ProbeGpus(host_)[0];
  EXPECT_EQ(ready.level, Level::kOk) << FindingLine(ready);
  EXPECT_THAT(ready.follows, HasSubstr("can be given to a VM"));
}

TEST_F(PciTest, AnAcceleratorCountsAsAGpuAndAnUndrivenOneMustBeBound) {
  Pci("0000:03:00.0", "10de:2330", "0x120000", "", "3");
  const Finding gpu = ProbeGpus(host_)[0];
  EXPECT_EQ(gpu.level, Level::kNote);
  EXPECT_THAT(gpu.remedy, AllOf(HasSubstr("drivers_probe"), Not(HasSubstr("unbind")), Not(HasSubstr("must end"))));
}

TEST_F(PciTest, VfioWarnsOfALimitOnLockedMemory) {
  Write("/dev/vfio/vfio", "");
  Write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         8388608              8388608              bytes\n");
  EXPECT_EQ(ProbeVfio(host_).level, Level::kWarning);
  EXPECT_THAT(FindingLine(ProbeVfio(host_)), AllOf(HasSubstr("8 MiB"), HasSubstr("ulimit -l unlimited")));
  Write("/proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
  EXPECT_EQ(ProbeVfio(host_).level, Level::kOk);
}

// --- memory ---

using HugePagesTest = FakeHost;

TEST_F(HugePagesTest, ReservedOrTransparentOnesAreOkAndNoneIsANote) {
  Write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  Write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
  Write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
  const Finding none = ProbeHugePages(host_);
  EXPECT_EQ(none.level, Level::kNote);
  EXPECT_THAT(FindingLine(none), AllOf(HasSubstr("0 of 0 of 2 MiB free"), HasSubstr("never"), HasSubstr("4 KiB pages"),
                                       HasSubstr("vm.nr_hugepages")));
  Write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
  EXPECT_EQ(ProbeHugePages(host_).level, Level::kOk);
  Write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "[never]\n");
  Write("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "4\n");
  Write("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "3\n");
  EXPECT_EQ(ProbeHugePages(host_).level, Level::kOk);
  EXPECT_THAT(ProbeHugePages(host_).found, HasSubstr("3 of 4 of 1 GiB free"));
}

TEST_F(HugePagesTest, AKernelWithoutThemIsANote) {
  EXPECT_EQ(ProbeHugePages(host_).level, Level::kNote);
  EXPECT_THAT(ProbeHugePages(host_).found, HasSubstr("none possible"));
}

// --- taps ---

using TapTest = FakeHost;

TEST_F(TapTest, WithoutTheDeviceTheModuleIsNamed) {
  const Finding finding = ProbeTap(host_, 1000);
  EXPECT_EQ(finding.level, Level::kNote);
  EXPECT_THAT(finding.remedy, HasSubstr("modprobe tun"));
}

TEST_F(TapTest, ACapabilityOrATapOfTheUserIsEnough) {
  Write("/dev/net/tun", "");
  Write("/proc/self/status", "CapEff:\t0000000000000000\n");
  Write("/sys/class/net/eth0/operstate", "up\n");
  Write("/sys/class/net/tap7/tun_flags", "0x1002\n");
  Write("/sys/class/net/tap7/owner", "1000\n");
  Write("/sys/class/net/tun8/tun_flags", "0x1001\n");
  Write("/sys/class/net/tun8/owner", "1000\n");
  Write("/sys/class/net/tap9/tun_flags", "0x1002\n");
  Write("/sys/class/net/tap9/owner", "-1\n");
  const Finding own = ProbeTap(host_, 1000);
  EXPECT_EQ(own.level, Level::kOk);
  EXPECT_THAT(own.found, AllOf(HasSubstr("tap7"), Not(HasSubstr("tun8")), Not(HasSubstr("tap9"))));
  const Finding other = ProbeTap(host_, 1001);
  EXPECT_EQ(other.level, Level::kNote);
  EXPECT_THAT(other.remedy, HasSubstr("ip tuntap add dev tap0 mode tap user 1001"));
  Write("/proc/self/status", "CapEff:\t00000000a80435fb\n");
  EXPECT_EQ(ProbeTap(host_, 1001).level, Level::kOk);
}

TEST_F(TapTest, ADeviceThatMayNotBeOpenedIsItsOwnNote) {
  if (geteuid() == 0) GTEST_SKIP() << "root may open everything";
  Write("/dev/net/tun", "");
  ASSERT_EQ(chmod((host_.dev + "/net/tun").c_str(), 0), 0);
  EXPECT_THAT(ProbeTap(host_, 1000).found, HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace sluice::hostcheck
