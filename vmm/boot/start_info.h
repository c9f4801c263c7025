// File: start_info.h
//
// What a guest finds when it is started directly: the PVH start structure (layout: Xen public headers,
// arch-x86/hvm/start_info.h, version 1) and the fixed places of the boot data. Freestanding; firmware includes it too.
//
// Entry state (PrepareDirectBoot): 64-bit long mode, CPL0, interrupts off, rbx = address of HvmStartInfo, identity page
// tables of 2 MiB pages with the user bit set. rsp is 0: the firmware brings its own stack, GDT, TSS and IDT.
//
//   extern "C" void Main(const sluice::boot::HvmStartInfo* info) {   // crt0: mov %rbx, %rdi
//     if (info->magic != sluice::boot::kStartInfoMagic) ...
//   }
#ifndef SLUICE_VMM_BOOT_START_INFO_H_
#define SLUICE_VMM_BOOT_START_INFO_H_

#include <stdint.h>

namespace sluice::boot {

inline constexpr uint32_t kStartInfoMagic = 0x336ec578;  // "xEn3" with bit 7 of the E set

struct HvmStartInfo {
  uint32_t magic;           // kStartInfoMagic
  uint32_t version;         // 1
  uint32_t flags;           // 0
  uint32_t nr_modules;      // entries at modlist_paddr
  uint64_t modlist_paddr;   // HvmModule[], 0 when there are none
  uint64_t cmdline_paddr;   // NUL-terminated command line, always present (may be empty)
  uint64_t rsdp_paddr;      // ACPI RSDP, 0 when there is none
  uint64_t memmap_paddr;    // HvmMemmapEntry[]
  uint32_t memmap_entries;  // entries at memmap_paddr
  uint32_t reserved;        // 0
};
static_assert(sizeof(HvmStartInfo) == 56);

struct HvmModule {
  uint64_t paddr;
  uint64_t size;
  uint64_t cmdline_paddr;
  uint64_t reserved;
};
static_assert(sizeof(HvmModule) == 32);

// Types as in ACPI's address range descriptors.
enum : uint32_t { kMemmapRam = 1, kMemmapReserved = 2 };

struct HvmMemmapEntry {
  uint64_t addr;
  uint64_t size;
  uint32_t type;  // kMemmapRam or kMemmapReserved
  uint32_t reserved;
};
static_assert(sizeof(HvmMemmapEntry) == 24);

// Boot data: [kBootDataStart, kBootDataEnd), written before the first instruction. The memory map calls it reserved
// until the guest has its own page tables; after that it is ordinary RAM.
inline constexpr uint64_t kBootDataStart = 0x1000;
inline constexpr uint64_t kBootGdt = 0x1000;  // GDT, then a TSS at +0x800
inline constexpr uint64_t kBootTss = 0x1800;
inline constexpr uint64_t kBootStartInfo = 0x2000;  // HvmStartInfo, then the memory map
inline constexpr uint64_t kBootCmdline = 0x3000;    // at most kMaxCmdlineBytes with the NUL
inline constexpr uint64_t kMaxCmdlineBytes = 0x1000;
inline constexpr uint64_t kBootPageTables = 0x4000;  // PML4 first; room for 12 tables
inline constexpr uint64_t kBootDataEnd = 0x10000;
// Lowest address of a firmware image.
inline constexpr uint64_t kFirmwareStart = 0x100000;

// Selectors in the initial GDT.
inline constexpr uint16_t kBootCodeSelector = 0x08;
inline constexpr uint16_t kBootDataSelector = 0x10;
inline constexpr uint16_t kBootTssSelector = 0x18;

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_START_INFO_H_
