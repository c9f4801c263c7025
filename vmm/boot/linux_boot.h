// File: linux_boot.h
//
// Starts a stock Linux kernel without any firmware: finds out what the file is, loads it and its initramfs, writes
// command line, memory map and start structures, and says what the boot vCPU's registers must be.
//
//   LinuxBootOptions options;
//   options.kernel = &kernel;            // bzImage, or vmlinux with a PVH note
//   options.initramfs = &initramfs;
//   options.cmdline = "console=ttyS0";
//   options.rsdp = rsdp;                 // acpi.h
//   SLUICE_ASSIGN_OR_RETURN(VcpuState state, PrepareLinuxBoot(ram, options));
//   SLUICE_RETURN_IF_ERROR(ApplyVcpuState(*vcpu, state));
//
// A bzImage is entered by the 64-bit boot protocol (boot.rst): long mode, identity page tables over the first 4 GiB,
// rsi = zero page. A vmlinux is entered by PVH: 32-bit protected mode without paging, rbx = hvm_start_info. It starts
// faster, because nothing is to be decompressed. Other processors start by INIT/SIPI in both.
//
// Low memory, as the guest's memory map has it: [0, 640 KiB) RAM, of which [kBootDataStart, kBootDataEnd) is written
// here and read by the kernel before it takes memory; [kAcpiStart, 1 MiB) reserved, for ACPI tables and the reset
// vector; RAM from 1 MiB.
#ifndef SLUICE_VMM_BOOT_LINUX_BOOT_H_
#define SLUICE_VMM_BOOT_LINUX_BOOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/boot/direct_boot.h"
#include "vmm/boot/image_source.h"
#include "vmm/boot/start_info.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::boot {

inline constexpr uint64_t kMaxKernelBytes = 256 * memory::kMiB;
inline constexpr uint64_t kMaxInitramfsBytes = 2 * memory::kGiB;
inline constexpr uint64_t kLowRamEnd = 0xa0000;
inline constexpr uint64_t kAcpiStart = 0xe0000;
inline constexpr uint64_t kAcpiEnd = 0xff000;
// Behind the tables, up to 1 MiB: where a PC's firmware would be entered at reset.
inline constexpr uint64_t kResetVector = 0xffff0;
inline constexpr uint64_t kExtendedRamStart = 0x100000;
// What every kernel takes as a command line, bytes without the NUL (COMMAND_LINE_SIZE of x86).
inline constexpr uint64_t kMaxLinuxCmdline = 2047;

enum class KernelKind { kBzImage, kPvh };

struct LinuxBootOptions {
  const ImageSource* kernel = nullptr;
  const ImageSource* initramfs = nullptr;  // nullptr: none
  std::string cmdline;                     // no NUL inside
  // Ranges to list as reserved, e.g. the ECAM; outside RAM.
  std::vector<memory::GuestRange> reserved_ranges;
  // ACPI's root pointer, in [kAcpiStart, kAcpiEnd). 0: no tables.
  memory::GuestAddress rsdp;
  // A byte written to this port resets the machine; 0: none. A kernel that was built with EFI and finds
  // hardware-reduced ACPI does not use the reset register of the FADT: it jumps to the reset vector in real mode, where
  // a few instructions that write this port are put.
  uint16_t reset_port = 0;
  uint8_t reset_value = 0;
};

// By the file's magic numbers; INVALID_ARGUMENT: neither.
absl::StatusOr<KernelKind> DetectKernel(const ImageSource& kernel);

// The guest's memory map: RAM without the hole below 1 MiB, the ACPI range, `reserved_ranges`; ascending.
// INVALID_ARGUMENT: a reserved range overlaps RAM.
absl::StatusOr<std::vector<HvmMemmapEntry>> LinuxMemoryMap(const memory::GuestMemory& ram,
                                                           const std::vector<memory::GuestRange>& reserved_ranges);

// Writes everything that the kernel finds and returns the boot vCPU's registers. Errors: INVALID_ARGUMENT for a file or
// option that is wrong, OUT_OF_RANGE for what does not fit into RAM, each with its name.
absl::StatusOr<VcpuState> PrepareLinuxBoot(const memory::GuestMemory& ram, const LinuxBootOptions& options);

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_LINUX_BOOT_H_
