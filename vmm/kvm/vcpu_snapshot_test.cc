#include "vmm/kvm/vcpu_snapshot.h"

#include <gtest/gtest.h>

#include "vmm/kvm/testing/guest_rig.h"

namespace sluice::kvm {
namespace {

using testing::GuestRig;
using testing::RigOptions;

constexpr uint32_t kKernelGsBase = 0xc0000102;

// wrmsr(KERNEL_GS_BASE, 0x1234); other registers change on the way.
GUEST_CODE(ChangeState,
           "mov $0xc0000102, %ecx; mov $0x1234, %eax; xor %edx, %edx; wrmsr; mov $7, %rbx; out %al, $0x10; hlt")

TEST(VcpuSnapshotTest, PutsBackRegistersAndMsrs) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kSplitIrqchip});
  rig.Load(ChangeState());
  const auto indices = rig.system.MsrIndices();
  ASSERT_TRUE(indices.ok()) << indices.status();
  const auto fresh = VcpuSnapshot::Take(*rig.vcpu, *indices);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  for (int round = 0; round < 2; ++round) {
    const auto exit = rig.Run();
    ASSERT_TRUE(exit.ok()) << exit.status();
    const auto* out = std::get_if<exits::IoOut>(&*exit);
    ASSERT_NE(out, nullptr) << DescribeExit(*exit);
    EXPECT_EQ(out->data[0], 0x34);
    EXPECT_EQ(rig.vcpu->GetRegs()->rbx, 7u);
    EXPECT_EQ((*rig.vcpu->GetMsrs({&kKernelGsBase, 1}))[0].data, 0x1234u);
    const absl::Status restored = fresh->Restore(*rig.vcpu);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(rig.vcpu->GetRegs()->rbx, 0u);
    EXPECT_EQ(rig.vcpu->GetRegs()->rip, GuestRig::kCode);
    EXPECT_EQ((*rig.vcpu->GetMsrs({&kKernelGsBase, 1}))[0].data, 0u);
  }
}

TEST(VcpuSnapshotTest, AWaitingProcessorWaitsAgain) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kSplitIrqchip});
  auto second = rig.vm.CreateVcpu(1);
  ASSERT_TRUE(second.ok()) << second.status();
  const auto fresh = VcpuSnapshot::Take(**second, {});
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  ASSERT_TRUE((*second)->SetMpState(KVM_MP_STATE_RUNNABLE).ok());
  ASSERT_TRUE(fresh->Restore(**second).ok());
  EXPECT_EQ(*(*second)->GetMpState(), static_cast<uint32_t>(KVM_MP_STATE_UNINITIALIZED));
}

}  // namespace
}  // namespace sluice::kvm
