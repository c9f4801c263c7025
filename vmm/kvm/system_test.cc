// What needs no VM: opening the device and its error texts, CPUID tables, exit descriptions. Most of it needs no KVM
// either.
#include "vmm/kvm/system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "vmm/kvm/exit.h"
#include "vmm/kvm/stats.h"
#include "vmm/kvm/testing/need_kvm.h"

namespace sluice::kvm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// A directory of its own, removed at the end.
class SystemOpenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/sluice-kvm-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    directory_ = path;
    ASSERT_EQ(chmod(path, 0755), 0);
    file_ = directory_ + "/kvm";
  }
  void TearDown() override {
    unlink(file_.c_str());
    rmdir(directory_.c_str());
  }
  std::string directory_, file_;
};

TEST_F(SystemOpenTest, AnAbsentDeviceIsNotFoundAndTheRemedyIsNamed) {
  const absl::Status status = System::Open(file_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), AllOf(HasSubstr(file_), HasSubstr("is absent"), HasSubstr("load kvm_intel or kvm_amd")));
}

TEST_F(SystemOpenTest, AForbiddenDeviceIsPermissionDeniedAndTheRemedyIsNamed) {
  const UniqueFd fd(open(file_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0));
  ASSERT_TRUE(fd.valid());
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const absl::Status status = System::Open(file_).status();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(status), AllOf(HasSubstr(file_), HasSubstr("may not be opened"), HasSubstr("usermod -aG kvm")));
}

TEST_F(SystemOpenTest, ADeviceWithoutADriverIsUnavailable) {
  // Opening a socket's file gives ENXIO, like a device node without a driver.
  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, file_.c_str(), sizeof(address.sun_path) - 1);
  const void* untyped = &address;
  ASSERT_EQ(bind(socket_fd.get(), static_cast<const sockaddr*>(untyped), sizeof(address)), 0);
  const absl::Status status = System::Open(file_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("no driver behind it"));
}

TEST_F(SystemOpenTest, SomethingElseIsNotKvm) {
  const absl::Status status = System::Open("/dev/null").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("/dev/null"), HasSubstr("not a KVM device")));
  EXPECT_FALSE(System::FromFd(UniqueFd()).ok());
}

TEST(SystemTest, SaysWhatThisHostCanDo) {
  SLUICE_NEEDS_KVM();
  const auto system = System::Open();
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_GT(system->Check(Capability::kUserMemory), 0);
  EXPECT_GE(system->Check(Capability::kMaxVcpus), 1);
  EXPECT_EQ(system->Check(static_cast<Capability>(0x7fffffff)), 0);
  EXPECT_TRUE(system->Require({Capability::kUserMemory, Capability::kImmediateExit}).ok());
  const absl::Status lacking = system->Require({Capability::kUserMemory, static_cast<Capability>(0x7fffffff)});
  EXPECT_EQ(lacking.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(lacking), "this host's KVM lacks KVM_CAP 2147483647");

  const auto cpuid = system->SupportedCpuid();
  ASSERT_TRUE(cpuid.ok()) << cpuid.status();
  ASSERT_NE(FindCpuid(*cpuid, 0), nullptr);
  EXPECT_NE(FindCpuid(*cpuid, 0)->ebx, 0u) << "the vendor's name";
  const auto msrs = system->MsrIndices();
  ASSERT_TRUE(msrs.ok()) << msrs.status();
  EXPECT_THAT(*msrs, ::testing::Contains(0x10u)) << "the TSC";
}

TEST(SystemTest, TakesAnOpenDescriptor) {
  SLUICE_NEEDS_KVM();
  UniqueFd fd(open("/dev/kvm", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.valid()) << std::strerror(errno);
  const auto system = System::FromFd(std::move(fd));
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_GT(system->Check(Capability::kNrMemslots), 0);
}

// --- CPUID tables ---

kvm_cpuid_entry2 Leaf(uint32_t function, uint32_t index, uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx) {
  return {function, index,    index > 0 || function == 4 || function == 0x8000001d ? 1u : 0u, eax, ebx, ecx,
          edx,      {0, 0, 0}};
}

CpuidTable AHost() {
  return {Leaf(0, 0, 0x1f, 1, 2, 3),
          Leaf(1, 0, 0x00a20f10, 0x07100800, 0x00000201, 0x078bfbff),
          Leaf(4, 0, (1 << 5) | 1 | (7 << 14) | (31u << 26), 0, 0, 0),
          Leaf(4, 3, (3 << 5) | 3, 0, 0, 0),
          Leaf(0x1f, 0, 0, 0, 0, 99),
          Leaf(0x80000008, 0, 0x3030, 0, 0x500f, 0),
          Leaf(0x8000001e, 0, 9, 0x0905, 0x101, 0)};
}

TEST(CpuidTest, EachVcpuHasItsOwnApicIdEverywhere) {
  for (uint32_t vcpu = 0; vcpu < 6; ++vcpu) {
    const CpuidTable table = MakeVcpuCpuid(AHost(), {.vcpus = 6}, vcpu);
    EXPECT_EQ(FindCpuid(table, 1)->ebx >> 24, vcpu);
    EXPECT_EQ(FindCpuid(table, 0xb, 0)->edx, vcpu);
    EXPECT_EQ(FindCpuid(table, 0xb, 1)->edx, vcpu);
    EXPECT_EQ(FindCpuid(table, 0x1f, 0)->edx, vcpu);
    EXPECT_EQ(FindCpuid(table, 0x8000001e)->eax, vcpu);
  }
}

TEST(CpuidTest, TheHypervisorBitIsSetAndFeaturesAreKept) {
  const CpuidTable table = MakeVcpuCpuid(AHost(), {.vcpus = 1}, 0);
  EXPECT_EQ(FindCpuid(table, 1)->ecx, 0x80000201u);
  EXPECT_EQ(FindCpuid(table, 1)->edx, 0x078bfbffu) << "HTT stays clear with one vCPU";
  EXPECT_EQ(FindCpuid(table, 1)->ebx & 0xffff, 0x0800u) << "CLFLUSH size is kept";
  EXPECT_EQ(FindCpuid(MakeVcpuCpuid(AHost(), {.tsc_deadline_timer = true}, 0), 1)->ecx, 0x81000201u);
}

TEST(CpuidTest, TheTopologyIsOnePackageOfCoresAndThreads) {
  const CpuidTable table = MakeVcpuCpuid(AHost(), {.vcpus = 4, .threads_per_core = 2}, 3);
  EXPECT_EQ(FindCpuid(table, 1)->ebx >> 16 & 0xff, 4u);
  EXPECT_NE(FindCpuid(table, 1)->edx & (1u << 28), 0u) << "HTT";
  const auto* thread = FindCpuid(table, 0xb, 0);
  EXPECT_EQ(thread->eax, 1u) << "one bit names the thread";
  EXPECT_EQ(thread->ebx, 2u);
  EXPECT_EQ(thread->ecx, 0x100u);
  const auto* core = FindCpuid(table, 0xb, 1);
  EXPECT_EQ(core->eax, 2u) << "two bits name core and thread";
  EXPECT_EQ(core->ebx, 4u);
  EXPECT_EQ(core->ecx, 0x201u);
  EXPECT_EQ(FindCpuid(table, 0xb, 2)->ecx, 2u) << "and no further level";
  EXPECT_EQ(FindCpuid(table, 0xb, 2)->ebx, 0u);
  EXPECT_EQ(FindCpuid(table, 4, 0)->eax >> 14 & 0xfff, 1u) << "the L1 is shared by 2";
  EXPECT_EQ(FindCpuid(table, 4, 3)->eax >> 14 & 0xfff, 3u) << "the L3 is shared by all";
  EXPECT_EQ(FindCpuid(table, 4, 0)->eax >> 26, 1u) << "two cores";
  EXPECT_EQ(FindCpuid(table, 0x80000008)->ecx, 0x2003u);
  EXPECT_EQ(FindCpuid(table, 0x8000001e)->ebx, 0x0101u) << "core 1, 2 threads";
}

TEST(CpuidTest, LeavesThatTheHostDoesNotReachAreNotMade) {
  const CpuidTable table = MakeVcpuCpuid({Leaf(0, 0, 7, 0, 0, 0), Leaf(1, 0, 0, 0, 0, 0)}, {.vcpus = 2}, 1);
  EXPECT_EQ(FindCpuid(table, 0xb), nullptr);
  EXPECT_EQ(table.size(), 2u);
}

// --- exits as text ---

TEST(DescribeExitTest, NamesWhatHappened) {
  const uint8_t data[] = {0x41, 0x0a};
  EXPECT_EQ(DescribeExit(exits::IoOut{0x3f8, 1, 2, data}), "out to port 0x3f8, 2 x 1 bytes: 41 0a");
  EXPECT_EQ(DescribeExit(exits::MmioWrite{GuestAddress(0xfee00000), data}), "MMIO write at 0xfee00000: 41 0a");
  exits::InternalError error = {};
  error.suberror = 1;
  error.instruction = {0x0f, 0x38, 0xf0};
  error.instruction_size = 3;
  EXPECT_EQ(DescribeExit(error), "internal error 1 (emulation failed): instruction 0f 38 f0");
  EXPECT_EQ(DescribeExit(exits::Shutdown{}), "shutdown (triple fault)");
  EXPECT_EQ(DescribeExit(exits::Unknown{77, 0}), "unknown exit 77, hardware reason 0x0");
}

TEST(BinaryStatsTest, RefusesWhatIsNoStatisticsFile) {
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(zero.valid());
  auto copy = zero.Duplicate();
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(BinaryStats::FromFd(*std::move(copy)).status().code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(BinaryStats::FromFd(UniqueFd()).ok());
}

}  // namespace
}  // namespace sluice::kvm
