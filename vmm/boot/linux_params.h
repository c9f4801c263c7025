// File: linux_params.h
//
// What the x86 Linux boot protocol fixes: offsets in a bzImage's setup header and in boot_params ("the zero page").
// Source: Documentation/arch/x86/boot.rst and zero-page.rst of Linux 6.12; <asm/bootparam.h> has the same as structs.
//
// A bzImage is (setup_sects + 1) * 512 bytes of real-mode code, whose header starts at kHdrStart, then the
// protected-mode kernel. Its 64-bit entry point is 0x200 bytes into the latter.
#ifndef SLUICE_VMM_BOOT_LINUX_PARAMS_H_
#define SLUICE_VMM_BOOT_LINUX_PARAMS_H_

#include <cstdint>

namespace sluice::boot {

inline constexpr uint64_t kZeroPageBytes = 0x1000;
inline constexpr uint64_t kSectorBytes = 512;

// --- the setup header: the same offsets in the file and in the zero page ---
inline constexpr uint32_t kHdrStart = 0x1f1;
inline constexpr uint32_t kHdrSetupSects = 0x1f1;       // u8; 0 means 4
inline constexpr uint32_t kHdrBootFlag = 0x1fe;         // u16, kBootFlag
inline constexpr uint32_t kHdrJump = 0x200;             // u16; its high byte + 0x202 is the header's end
inline constexpr uint32_t kHdrMagic = 0x202;            // u32, kHdrS
inline constexpr uint32_t kHdrVersion = 0x206;          // u16
inline constexpr uint32_t kHdrTypeOfLoader = 0x210;     // u8, written by the loader
inline constexpr uint32_t kHdrLoadFlags = 0x211;        // u8
inline constexpr uint32_t kHdrCode32Start = 0x214;      // u32
inline constexpr uint32_t kHdrRamdiskImage = 0x218;     // u32, written by the loader
inline constexpr uint32_t kHdrRamdiskSize = 0x21c;      // u32, written by the loader
inline constexpr uint32_t kHdrCmdLinePtr = 0x228;       // u32, written by the loader
inline constexpr uint32_t kHdrInitrdAddrMax = 0x22c;    // u32, last byte that the initramfs may occupy
inline constexpr uint32_t kHdrKernelAlignment = 0x230;  // u32
inline constexpr uint32_t kHdrRelocatable = 0x234;      // u8
inline constexpr uint32_t kHdrXloadFlags = 0x236;       // u16
inline constexpr uint32_t kHdrCmdlineSize = 0x238;      // u32, without the NUL
inline constexpr uint32_t kHdrPrefAddress = 0x258;      // u64
inline constexpr uint32_t kHdrInitSize = 0x260;         // u32, bytes of RAM from the load address on
inline constexpr uint32_t kHdrHandoverEnd = 0x264;      // the end of what is read here
inline constexpr uint32_t kHdrMaxEnd = 0x290;           // where the zero page goes on with other things

inline constexpr uint16_t kBootFlag = 0xaa55;
inline constexpr uint32_t kHdrS = 0x53726448;
inline constexpr uint16_t kMinProtocol = 0x020c;  // 2.12: xloadflags
inline constexpr uint8_t kLoadedHigh = 1 << 0;
inline constexpr uint16_t kXlfKernel64 = 1 << 0;
inline constexpr uint8_t kLoaderUndefined = 0xff;
inline constexpr uint64_t kEntry64Offset = 0x200;

// --- the rest of the zero page ---
inline constexpr uint32_t kZpAcpiRsdp = 0x070;     // u64
inline constexpr uint32_t kZpE820Entries = 0x1e8;  // u8
inline constexpr uint32_t kZpE820Table = 0x2d0;    // E820Entry[kMaxE820Entries]
inline constexpr uint32_t kMaxE820Entries = 128;

struct __attribute__((packed)) E820Entry {
  uint64_t addr;
  uint64_t size;
  uint32_t type;  // as in HvmMemmapEntry (start_info.h)
};
static_assert(sizeof(E820Entry) == 20);

// Selectors that the 64-bit protocol wants: __BOOT_CS and __BOOT_DS.
inline constexpr uint16_t kLinuxCodeSelector = 0x10;
inline constexpr uint16_t kLinuxDataSelector = 0x18;
inline constexpr uint16_t kLinuxTssSelector = 0x20;

}  // namespace sluice::boot

#endif  // SLUICE_VMM_BOOT_LINUX_PARAMS_H_
