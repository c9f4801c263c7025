// The probes that need a KVM: a guest of a few instructions runs, and its speed is one of the two kinds that there are.
#include <cstdio>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/hostcheck/execution.h"
#include "vmm/hostcheck/kvm_probe.h"
#include "vmm/kvm/testing/need_kvm.h"

namespace sluice::hostcheck {
namespace {

using ::testing::HasSubstr;

TEST(KvmProbe, AUsableKvmIsOkAndOpen) {
  SLUICE_NEEDS_KVM();
  std::optional<kvm::System> system;
  const Finding finding = ProbeKvm("/dev/kvm", &system);
  EXPECT_EQ(finding.level, Finding::Level::kOk) << FindingLine(finding);
  ASSERT_TRUE(system.has_value());
  const Finding extras = ProbeCapabilities([&](kvm::Capability capability) { return system->Check(capability); });
  EXPECT_THAT(extras.found, HasSubstr("processors"));
}

TEST(Execution, AGuestRunsAtBothLevelsAndItsKindIsTold) {
  SLUICE_NEEDS_KVM();
  auto system = kvm::System::Open();
  ASSERT_TRUE(system.ok()) << system.status();
  const auto rates = MeasureExecution(*system);
  ASSERT_TRUE(rates.ok()) << rates.status();
  const CpuFacts cpu = ReadCpuFacts(HostFiles());
  const Finding finding = DescribeExecution(*rates, cpu);
  std::printf("%s\n", FindingLine(finding).c_str());
  // At CPL3 every KVM that we know runs natively; a guest kernel does wherever the processor has SVM or VMX.
  EXPECT_GT(rates->user_mips, kInterpretedMips);
  if (cpu.svm || cpu.vmx) {
    EXPECT_EQ(Classify(*rates), Execution::kHardware);
    EXPECT_THAT(finding.found, HasSubstr(cpu.svm ? "hardware (SVM)" : "hardware (VMX)"));
  }
}

TEST(Execution, ImpatienceIsAnErrorAndNotAGuess) {
  SLUICE_NEEDS_KVM();
  auto system = kvm::System::Open();
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(MeasureExecution(*system, absl::ZeroDuration()).status()));
}

}  // namespace
}  // namespace sluice::hostcheck
