#include "vmm/boot/linux_boot.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/bzimage.h"
#include "vmm/boot/entry_state.h"
#include "vmm/boot/linux_params.h"
#include "vmm/boot/pvh.h"

namespace sluice::boot {
namespace {

using internal::Mode;
using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using memory::Hex;
using memory::kGiB;
using memory::kMiB;

constexpr internal::Selectors kSelectors = {kLinuxCodeSelector, kLinuxDataSelector, kLinuxTssSelector};
// PVH: behind the start structure, in its page.
constexpr uint64_t kPvhModule = kBootStartInfo + 0x40;
constexpr uint64_t kPvhMemmap = kBootStartInfo + 0x80;
constexpr uint64_t kIdentityGib = 4;
static_assert(kBootPageTables + (2 + kIdentityGib) * kPageSize <= kBootDataEnd);

// Where the initramfs went; size 0: there is none.
struct Placed {
  uint64_t address = 0;
  uint64_t size = 0;
};

absl::Status WriteCmdline(const GuestMemory& ram, const std::string& cmdline, uint64_t most) {
  if (cmdline.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the command line has ", cmdline.size(), " bytes, this kernel takes at most ", most));
  }
  if (cmdline.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the command line holds a NUL byte");
  }
  const std::vector<uint8_t> bytes(cmdline.c_str(), cmdline.c_str() + cmdline.size() + 1);  // with its NUL
  return ram.CopyTo(GuestAddress(kBootCmdline), bytes);
}

// As high as it may lie, so that the kernel finds room above itself; `kernel` is not touched.
absl::StatusOr<Placed> PlaceInitramfs(const GuestMemory& ram, const ImageSource* image, GuestRange kernel,
                                      uint64_t last_allowed) {
  if (image == nullptr) return Placed{};
  const uint64_t size = image->size();
  std::optional<uint64_t> best;
  for (const memory::Region& region : ram.regions()) {
    const uint64_t low = std::max(region.start().value(), kFirmwareStart);
    const uint64_t high = std::min(region.range().last().value(), std::min(last_allowed, 4 * kGiB - 1)) + 1;
    if (high <= low || high - low < size) continue;
    const uint64_t start = (high - size) & ~(kPageSize - 1);
    if (start < low || GuestRange::Create(GuestAddress(start), size)->Overlaps(kernel)) continue;
    best = start;
  }
  if (!best.has_value()) {
    return absl::OutOfRangeError(absl::StrCat("the initramfs of ", size, " bytes does not fit beside the kernel below ",
                                              Hex(last_allowed), "; give the VM more memory"));
  }
  SLUICE_RETURN_IF_ERROR(Annotate(CopyImage(*image, 0, size, ram, GuestAddress(*best)), "initramfs"));
  return Placed{*best, size};
}

absl::Status WriteResetVector(const GuestMemory& ram, uint16_t port, uint8_t value) {
  if (port == 0) return absl::OkStatus();
  // mov $port, %dx; mov $value, %al; out %al, (%dx); cli; 1: hlt; jmp 1b
  const std::array<uint8_t, 10> code = {
      0xba, static_cast<uint8_t>(port), static_cast<uint8_t>(port >> 8), 0xb0, value, 0xee, 0xfa, 0xf4, 0xeb, 0xfd};
  return ram.Write(GuestAddress(kResetVector), code);
}

absl::Status WriteIdentityMap(const GuestMemory& ram) {
  // Page table entries (Intel SDM vol. 3A, 4.5): present, writable; 2 MiB pages.
  constexpr uint64_t kTable = 3, kPage = 0x83;
  std::array<uint64_t, 512> table = {};
  table[0] = (kBootPageTables + kPageSize) | kTable;
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootPageTables), table));
  table = {};
  for (uint64_t gib = 0; gib < kIdentityGib; ++gib) table[gib] = (kBootPageTables + (2 + gib) * kPageSize) | kTable;
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootPageTables + kPageSize), table));
  for (uint64_t gib = 0; gib < kIdentityGib; ++gib) {
    for (uint64_t i = 0; i < table.size(); ++i) table[i] = (gib * kGiB + i * 2 * kMiB) | kPage;
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootPageTables + (2 + gib) * kPageSize), table));
  }
  return absl::OkStatus();
}

absl::Status WriteZeroPage(const GuestMemory& ram, const BzImage& kernel, GuestAddress load,
                           const LinuxBootOptions& options, const Placed& initramfs,
                           const std::vector<HvmMemmapEntry>& map) {
  std::array<uint8_t, kZeroPageBytes> page = {};
  const auto put = [&page](uint32_t offset, auto value) { std::memcpy(page.data() + offset, &value, sizeof(value)); };
  std::copy_n(kernel.header.begin(), kernel.header_bytes, page.begin() + kHdrStart);
  put(kHdrTypeOfLoader, kLoaderUndefined);
  put(kHdrCode32Start, static_cast<uint32_t>(load.value()));
  put(kHdrCmdLinePtr, static_cast<uint32_t>(kBootCmdline));
  // Both below 4 GiB: PlaceInitramfs.
  put(kHdrRamdiskImage, static_cast<uint32_t>(initramfs.address));
  put(kHdrRamdiskSize, static_cast<uint32_t>(initramfs.size));
  put(kZpAcpiRsdp, options.rsdp.value());
  if (map.size() > kMaxE820Entries) {
    return absl::InvalidArgumentError(absl::StrCat("the memory map has ", map.size(), " entries, too many"));
  }
  put(kZpE820Entries, static_cast<uint8_t>(map.size()));
  for (size_t i = 0; i < map.size(); ++i) {
    put(kZpE820Table + static_cast<uint32_t>(i * sizeof(E820Entry)), E820Entry{map[i].addr, map[i].size, map[i].type});
  }
  return ram.Write(GuestAddress(kBootStartInfo), page);
}

absl::Status WriteStartInfo(const GuestMemory& ram, const LinuxBootOptions& options, const Placed& initramfs,
                            const std::vector<HvmMemmapEntry>& map) {
  if (map.size() * sizeof(HvmMemmapEntry) > kBootCmdline - kPvhMemmap) {
    return absl::InvalidArgumentError(absl::StrCat("the memory map has ", map.size(), " entries, too many"));
  }
  HvmStartInfo info = {};
  info.magic = kStartInfoMagic;
  info.version = 1;
  info.cmdline_paddr = kBootCmdline;
  info.rsdp_paddr = options.rsdp.value();
  info.memmap_paddr = kPvhMemmap;
  info.memmap_entries = static_cast<uint32_t>(map.size());
  if (initramfs.size != 0) {
    info.nr_modules = 1;
    info.modlist_paddr = kPvhModule;
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kPvhModule), HvmModule{initramfs.address, initramfs.size, 0, 0}));
  }
  for (size_t i = 0; i < map.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kPvhMemmap + i * sizeof(HvmMemmapEntry)), map[i]));
  }
  return ram.Write(GuestAddress(kBootStartInfo), info);
}

absl::StatusOr<VcpuState> PrepareBzImage(const GuestMemory& ram, const LinuxBootOptions& options,
                                         const std::vector<HvmMemmapEntry>& map) {
  SLUICE_ASSIGN_OR_RETURN(const BzImage kernel, ParseBzImage(*options.kernel));
  SLUICE_RETURN_IF_ERROR(
      WriteCmdline(ram, options.cmdline, std::min<uint64_t>(kernel.cmdline_max, kMaxCmdlineBytes - 1)));
  SLUICE_ASSIGN_OR_RETURN(const GuestAddress load, LoadBzImage(*options.kernel, kernel, ram));
  const auto used = GuestRange::Create(load, kernel.init_size);
  SLUICE_ASSIGN_OR_RETURN(const Placed initramfs, PlaceInitramfs(ram, options.initramfs, *used, kernel.initramfs_max));
  SLUICE_RETURN_IF_ERROR(WriteZeroPage(ram, kernel, load, options, initramfs, map));
  SLUICE_RETURN_IF_ERROR(WriteIdentityMap(ram));
  SLUICE_RETURN_IF_ERROR(internal::WriteGdtAndTss(ram, kSelectors, Mode::kLong));
  VcpuState state = internal::FlatState(kSelectors, Mode::kLong);
  state.regs.rip = load.value() + kEntry64Offset;
  state.regs.rsi = kBootStartInfo;
  return state;
}

absl::StatusOr<VcpuState> PreparePvh(const GuestMemory& ram, const LinuxBootOptions& options,
                                     const std::vector<HvmMemmapEntry>& map) {
  SLUICE_ASSIGN_OR_RETURN(const PvhKernel kernel, ParsePvhKernel(*options.kernel));
  SLUICE_RETURN_IF_ERROR(WriteCmdline(ram, options.cmdline, kMaxLinuxCmdline));
  SLUICE_RETURN_IF_ERROR(LoadPvhKernel(*options.kernel, kernel, ram));
  const auto used = GuestRange::Create(GuestAddress(kFirmwareStart), kernel.end.value() - kFirmwareStart);
  SLUICE_ASSIGN_OR_RETURN(const Placed initramfs, PlaceInitramfs(ram, options.initramfs, *used, 4 * kGiB - 1));
  SLUICE_RETURN_IF_ERROR(WriteStartInfo(ram, options, initramfs, map));
  SLUICE_RETURN_IF_ERROR(internal::WriteGdtAndTss(ram, kSelectors, Mode::kProtected32));
  VcpuState state = internal::FlatState(kSelectors, Mode::kProtected32);
  state.regs.rip = kernel.entry.value();
  state.regs.rbx = kBootStartInfo;
  return state;
}

}  // namespace

absl::StatusOr<KernelKind> DetectKernel(const ImageSource& kernel) {
  if (LooksLikeBzImage(kernel)) return KernelKind::kBzImage;
  if (LooksLikeElf(kernel)) return KernelKind::kPvh;
  return absl::InvalidArgumentError("neither a bzImage (vmlinuz) nor an ELF kernel (vmlinux)");
}

absl::StatusOr<std::vector<HvmMemmapEntry>> LinuxMemoryMap(const GuestMemory& ram,
                                                           const std::vector<GuestRange>& reserved_ranges) {
  std::vector<HvmMemmapEntry> map;
  const auto add = [&map](uint64_t start, uint64_t end, uint32_t type) {
    if (start < end) map.push_back({start, end - start, type, 0});
  };
  add(kAcpiStart, kExtendedRamStart, kMemmapReserved);
  for (const memory::Region& region : ram.regions()) {
    const uint64_t start = region.start().value(), end = start + region.size();
    add(start, std::min(end, kLowRamEnd), kMemmapRam);
    add(std::max(start, kExtendedRamStart), end, kMemmapRam);
    for (const GuestRange& range : reserved_ranges) {
      if (range.Overlaps(region.range())) {
        return absl::InvalidArgumentError(absl::StrCat("reserved range ", range.ToString(), " overlaps RAM"));
      }
    }
  }
  for (const GuestRange& range : reserved_ranges) {
    map.push_back({range.start().value(), range.size(), kMemmapReserved, 0});
  }
  std::sort(map.begin(), map.end(), [](const auto& a, const auto& b) { return a.addr < b.addr; });
  return map;
}

absl::StatusOr<VcpuState> PrepareLinuxBoot(const GuestMemory& ram, const LinuxBootOptions& options) {
  if (options.kernel == nullptr) return absl::InvalidArgumentError("no kernel");
  if (!ram.Contains(GuestAddress(0), kExtendedRamStart)) return absl::OutOfRangeError("the first MiB is not RAM");
  SLUICE_ASSIGN_OR_RETURN(const KernelKind kind, DetectKernel(*options.kernel));
  SLUICE_ASSIGN_OR_RETURN(const auto map, LinuxMemoryMap(ram, options.reserved_ranges));
  SLUICE_RETURN_IF_ERROR(WriteResetVector(ram, options.reset_port, options.reset_value));
  return kind == KernelKind::kBzImage ? PrepareBzImage(ram, options, map) : PreparePvh(ram, options, map);
}

}  // namespace sluice::boot
