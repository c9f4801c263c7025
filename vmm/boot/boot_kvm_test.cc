#include <gtest/gtest.h>

#include <cstring>

#include "vmm/boot/direct_boot.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/start_info.h"
#include "vmm/boot/testing/tiny_elf.h"
#include "vmm/kvm/testing/need_kvm.h"
#include "vmm/kvm/vm.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using memory::kMiB;
namespace exits = kvm::exits;

// On real KVM: the guest proves its own entry state by what it prints.
TEST(DirectBootOnKvmTest, AGuestRunsInLongModeAndFindsItsCommandLine) {
  SLUICE_NEEDS_KVM();
  const auto system = kvm::System::Open();
  ASSERT_TRUE(system.ok()) << system.status();
  constexpr uint8_t kPrint[] = {
      0x48, 0x8b, 0x73, 0x18,                                // mov 24(%rbx), %rsi
      0xba, 0xf8, 0x03, 0x00, 0x00,                          // mov $0x3f8, %edx
      0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8,        // print up to the NUL
      0x48, 0xb8, 0x10, 0,    0,    0,    0x40, 0,    0, 0,  // mov $0x4000000010, %rax
      0x48, 0xc7, 0x00, 0x21, 0x43, 0x65, 0x07,              // movq $0x07654321, (%rax)
      0x8c, 0xc8, 0xe6, 0xf4,                                // mov %cs, %eax; out %al, $0xf4
  };
  const auto ram_or = GuestMemory::CreateSimple(16 * kMiB);
  ASSERT_TRUE(ram_or.ok()) << ram_or.status();
  const GuestMemory& ram = *ram_or;
  const auto image = LoadElf(testing::TinyElf(kPrint).Build(), ram);
  ASSERT_TRUE(image.ok()) << image.status();
  DirectBootOptions options;
  options.entry = image->entry;
  options.cmdline = "cmdline";
  options.identity_ranges = {*GuestRange::Create(GuestAddress(0x4000000000), 2 * kMiB)};
  const auto state = PrepareDirectBoot(ram, options);
  ASSERT_TRUE(state.ok()) << state.status();

  auto vm = kvm::Vm::Create(*system);
  ASSERT_TRUE(vm.ok()) << vm.status();
  ASSERT_TRUE(vm->CreateIrqchip().ok());
  ASSERT_TRUE(vm->AddGuestMemory(ram).ok());
  auto vcpu = vm->CreateVcpu(0);
  ASSERT_TRUE(vcpu.ok()) << vcpu.status();
  ASSERT_TRUE((*vcpu)->SetCpuid(kvm::MakeVcpuCpuid(*system->SupportedCpuid(), {}, 0)).ok());
  const absl::Status applied = ApplyVcpuState(**vcpu, *state);
  ASSERT_TRUE(applied.ok()) << applied;
  constexpr uint32_t kMtrrDefType = 0x2ff;
  EXPECT_EQ((*(*vcpu)->GetMsrs({&kMtrrDefType, 1}))[0].data, 0xc06u);

  std::string printed;
  uint64_t mmio = 0;
  for (;;) {
    const auto exit = (*vcpu)->Run();
    ASSERT_TRUE(exit.ok()) << exit.status();
    if (const auto* write = std::get_if<exits::MmioWrite>(&*exit)) {
      EXPECT_EQ(write->address.value(), 0x4000000010u);
      ASSERT_EQ(write->data.size(), 8u);
      std::memcpy(&mmio, write->data.data(), 8);
      continue;
    }
    const auto* out = std::get_if<exits::IoOut>(&*exit);
    ASSERT_NE(out, nullptr) << kvm::DescribeExit(*exit);
    if (out->port == 0xf4) {
      EXPECT_EQ(out->data[0], kBootCodeSelector);
      break;
    }
    printed += static_cast<char>(out->data[0]);
  }
  EXPECT_EQ(printed, "cmdline");
  EXPECT_EQ(mmio, 0x07654321u);
}

}  // namespace
}  // namespace sluice::boot
