// Threat model: kernel files come from whoever configures the VM, perhaps from an image registry; they must at most be
// refused. Input: the bytes of a bzImage or of an ELF kernel with a PVH note. Checked: what the parsers accept lies
// inside the file; a kernel that is loaded starts inside RAM, and nothing is written over the ACPI range or outside
// what the boot data and the kernel may use.
#include <cstdlib>

#include "vmm/boot/bzimage.h"
#include "vmm/boot/linux_boot.h"
#include "vmm/boot/pvh.h"

namespace {

using sluice::memory::GuestAddress;
using sluice::memory::GuestMemory;
using sluice::memory::kMiB;
namespace boot = sluice::boot;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const GuestMemory ram = [] {
    auto memory = GuestMemory::CreateSimple(4 * kMiB);
    Require(memory.ok());
    Require(memory->Fill(GuestAddress(boot::kAcpiStart), 0x5a, boot::kAcpiEnd - boot::kAcpiStart).ok());
    Require(memory->Fill(GuestAddress(0), 0x5a, boot::kBootDataStart).ok());
    return *std::move(memory);
  }();
  static const uint8_t initramfs_bytes[100] = {};
  const boot::BytesImage file({data, size});
  const boot::BytesImage initramfs(initramfs_bytes);
  if (const auto kernel = boot::ParseBzImage(file); kernel.ok()) {
    Require(kernel->payload_offset < size && kernel->payload_size == size - kernel->payload_offset);
    Require(kernel->header_bytes <= kernel->header.size() && kernel->init_size >= kernel->payload_size);
  }
  if (const auto kernel = boot::ParsePvhKernel(file); kernel.ok()) {
    bool inside = false;
    for (const auto& s : kernel->segments) {
      Require(s.file_size <= s.memory_size && s.file_offset <= size && s.file_size <= size - s.file_offset);
      inside |= kernel->entry >= s.address && kernel->entry.value() - s.address.value() < s.memory_size;
    }
    Require(inside);
  }
  boot::LinuxBootOptions options;
  options.kernel = &file;
  options.initramfs = &initramfs;
  options.cmdline = "quiet";
  options.rsdp = GuestAddress(boot::kAcpiStart);
  const auto state = boot::PrepareLinuxBoot(ram, options);
  if (state.ok()) Require(ram.Contains(GuestAddress(state->regs.rip), 1));
  Require(*ram.Read<uint64_t>(GuestAddress(boot::kBootDataStart - 8)) == 0x5a5a5a5a5a5a5a5a);
  Require(*ram.Read<uint64_t>(GuestAddress(boot::kAcpiStart)) == 0x5a5a5a5a5a5a5a5a);
  Require(*ram.Read<uint64_t>(GuestAddress(boot::kAcpiEnd - 8)) == 0x5a5a5a5a5a5a5a5a);
  return 0;
}
