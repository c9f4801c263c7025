// Starts a guest directly in 64-bit mode: the ELF file named on the command line, or a built-in one that prints its
// command line. Ports: 0x3f8 prints, 0xf4 ends.
//
//   boot_example [FIRMWARE.elf [COMMAND-LINE]]
#include <fcntl.h>

#include <cstdio>

#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"
#include "vmm/boot/direct_boot.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/testing/tiny_elf.h"
#include "vmm/kvm/vm.h"

namespace {

using namespace sluice;  // NOLINT: an example may
namespace exits = kvm::exits;

constexpr uint8_t kPrintCommandLine[] = {
    0x48, 0x8b, 0x73, 0x18,        // mov 24(%rbx), %rsi     HvmStartInfo::cmdline_paddr
    0xba, 0xf8, 0x03, 0x00, 0x00,  // mov $0x3f8, %edx
    0xac,                          // next: lodsb
    0x84, 0xc0,                    // test %al, %al
    0x74, 0x03,                    // je done
    0xee,                          // out %al, (%dx)
    0xeb, 0xf8,                    // jmp next
    0xe6, 0xf4,                    // done: out %al, $0xf4
    0xf4,                          // hlt
};

absl::Status Run(int argc, char** argv) {
  SLUICE_ASSIGN_OR_RETURN(const kvm::System system, kvm::System::Open());
  SLUICE_ASSIGN_OR_RETURN(const auto ram, memory::GuestMemory::CreateSimple(64 * memory::kMiB));
  std::vector<uint8_t> file = boot::testing::TinyElf(kPrintCommandLine).Build();
  if (argc > 1) {
    const UniqueFd fd(open(argv[1], O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoToStatus(errno, argv[1]);
    SLUICE_ASSIGN_OR_RETURN(file, boot::ReadImage(fd.get()));
  }
  SLUICE_ASSIGN_OR_RETURN(const boot::LoadedElf image, boot::LoadElf(file, ram));
  std::printf("loaded %s to %s, entry %s\n", image.low.ToString().c_str(), image.end.ToString().c_str(),
              image.entry.ToString().c_str());

  boot::DirectBootOptions options;
  options.entry = image.entry;
  options.cmdline = argc > 2 ? argv[2] : "hello from the command line\n";
  SLUICE_ASSIGN_OR_RETURN(const boot::VcpuState state, boot::PrepareDirectBoot(ram, options));

  SLUICE_ASSIGN_OR_RETURN(const kvm::Vm vm, kvm::Vm::Create(system));
  SLUICE_RETURN_IF_ERROR(vm.AddGuestMemory(ram).status());
  SLUICE_ASSIGN_OR_RETURN(const auto vcpu, vm.CreateVcpu(0));
  SLUICE_ASSIGN_OR_RETURN(const kvm::CpuidTable cpuid, system.SupportedCpuid());
  SLUICE_RETURN_IF_ERROR(vcpu->SetCpuid(kvm::MakeVcpuCpuid(cpuid, {}, 0)));
  SLUICE_RETURN_IF_ERROR(boot::ApplyVcpuState(*vcpu, state));
  for (;;) {
    SLUICE_ASSIGN_OR_RETURN(const kvm::VcpuExit exit, vcpu->Run());
    if (std::holds_alternative<exits::Interrupted>(exit)) continue;
    const auto* out = std::get_if<exits::IoOut>(&exit);
    if (out != nullptr && out->port == 0x3f8) {
      std::fwrite(out->data.data(), 1, out->data.size(), stdout);
      continue;
    }
    if (out != nullptr && out->port == 0xf4) {
      return out->data[0] == 0 ? absl::OkStatus()
                               : absl::InternalError(absl::StrCat("the guest ended with ", out->data[0]));
    }
    return absl::InternalError(kvm::DescribeExit(exit));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc, argv);
  if (status.ok()) return 0;
  // 77: skipped. Without KVM there is nothing to show.
  const bool no_kvm =
      absl::IsPermissionDenied(status) || absl::IsUnavailable(status) || (argc == 1 && absl::IsNotFound(status));
  std::fprintf(stderr, "%s%s\n", no_kvm ? "needs KVM: " : "", status.ToString().c_str());
  return no_kvm ? 77 : 1;
}
