#include "vmm/boot/direct_boot.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/entry_state.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using memory::kGiB;
using memory::kMiB;

// Page table entries (Intel SDM vol. 3A, 4.5).
constexpr uint64_t kPresent = 1, kWrite = 2, kUser = 4, kLarge = 0x80;
constexpr uint64_t kTableFlags = kPresent | kWrite | kUser;
constexpr uint64_t kLargePage = 2 * kMiB;
constexpr uint64_t kMappable = 512 * kGiB;  // one PML4 entry
constexpr size_t kMaxDirectories = (kBootDataEnd - kBootPageTables) / kPageSize - 2;
using Table = std::array<uint64_t, 512>;

constexpr internal::Selectors kSelectors = {kBootCodeSelector, kBootDataSelector, kBootTssSelector};

GuestRange BootData() {
  return *GuestRange::Create(GuestAddress(kBootDataStart), kBootDataEnd - kBootDataStart);
}

absl::Status Check(const GuestMemory& ram, const DirectBootOptions& options) {
  if (!ram.Contains(GuestAddress(kBootDataStart), kBootDataEnd - kBootDataStart)) {
    return absl::OutOfRangeError(absl::StrCat("the boot data's place ", BootData().ToString(), " is not RAM"));
  }
  if (!ram.Contains(options.entry, 1)) {
    return absl::OutOfRangeError(absl::StrCat("the entry point ", options.entry.ToString(), " is not in RAM"));
  }
  if (options.cmdline.size() >= kMaxCmdlineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the command line has ", options.cmdline.size(), " bytes, at most ", kMaxCmdlineBytes - 1));
  }
  if (options.cmdline.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the command line holds a NUL byte");
  }
  return absl::OkStatus();
}

absl::Status MapRange(const GuestRange& range, std::map<uint64_t, Table>& directories) {
  if (range.last().value() >= kMappable) {
    return absl::InvalidArgumentError(
        absl::StrCat("range ", range.ToString(), " is not below 512 GiB; it cannot be mapped"));
  }
  const uint64_t first = range.start().value() & ~(kLargePage - 1);
  for (uint64_t page = first; page <= range.last().value(); page += kLargePage) {
    if (directories.size() == kMaxDirectories && directories.count(page / kGiB) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("RAM and identity ranges touch more than ", kMaxDirectories,
                                                     " different GiB, no page table is left for ", range.ToString()));
    }
    directories[page / kGiB][page % kGiB / kLargePage] = page | kTableFlags | kLarge;
  }
  return absl::OkStatus();
}

absl::Status WritePageTables(const GuestMemory& ram, const DirectBootOptions& options) {
  std::map<uint64_t, Table> directories;  // by GiB
  for (const memory::Region& region : ram.regions()) SLUICE_RETURN_IF_ERROR(MapRange(region.range(), directories));
  for (const GuestRange& range : options.identity_ranges) SLUICE_RETURN_IF_ERROR(MapRange(range, directories));
  Table pml4 = {}, pdpt = {};
  uint64_t at = kBootPageTables;
  pml4[0] = (at + kPageSize) | kTableFlags;
  at += 2 * kPageSize;
  for (const auto& [gib, directory] : directories) {
    pdpt[gib] = at | kTableFlags;
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(at), directory));
    at += kPageSize;
  }
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootPageTables), pml4));
  return ram.Write(GuestAddress(kBootPageTables + kPageSize), pdpt);
}

std::vector<HvmMemmapEntry> MemoryMap(const GuestMemory& ram, const DirectBootOptions& options) {
  std::vector<HvmMemmapEntry> map;
  const auto add = [&map](uint64_t start, uint64_t end, uint32_t type) {
    if (start < end) map.push_back({start, end - start, type, 0});
  };
  for (const memory::Region& region : ram.regions()) {
    const uint64_t start = region.start().value(), end = start + region.size();
    // The boot data may span regions; each gives its own part.
    add(start, std::min(end, kBootDataStart), kMemmapRam);
    add(std::max(start, kBootDataStart), std::min(end, kBootDataEnd), kMemmapReserved);
    add(std::max(start, kBootDataEnd), end, kMemmapRam);
  }
  for (const GuestRange& range : options.reserved_ranges) {
    map.push_back({range.start().value(), range.size(), kMemmapReserved, 0});
  }
  std::sort(map.begin(), map.end(), [](const auto& a, const auto& b) { return a.addr < b.addr; });
  return map;
}

absl::Status WriteStartInfo(const GuestMemory& ram, const DirectBootOptions& options) {
  for (const GuestRange& range : options.reserved_ranges) {
    for (const memory::Region& region : ram.regions()) {
      if (range.Overlaps(region.range())) {
        return absl::InvalidArgumentError(absl::StrCat("reserved range ", range.ToString(), " overlaps RAM"));
      }
    }
  }
  constexpr uint64_t kMemmap = kBootStartInfo + 64;
  const std::vector<HvmMemmapEntry> map = MemoryMap(ram, options);
  if (map.size() * sizeof(HvmMemmapEntry) > kBootCmdline - kMemmap) {
    return absl::InvalidArgumentError(absl::StrCat("the memory map has ", map.size(), " entries, too many"));
  }
  HvmStartInfo info = {};
  info.magic = kStartInfoMagic;
  info.version = 1;
  info.cmdline_paddr = kBootCmdline;
  info.memmap_paddr = kMemmap;
  info.memmap_entries = static_cast<uint32_t>(map.size());
  SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootStartInfo), info));
  for (size_t i = 0; i < map.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kMemmap + i * sizeof(HvmMemmapEntry)), map[i]));
  }
  // With its NUL.
  const std::vector<uint8_t> cmdline(options.cmdline.c_str(), options.cmdline.c_str() + options.cmdline.size() + 1);
  return ram.CopyTo(GuestAddress(kBootCmdline), cmdline);
}

}  // namespace

absl::StatusOr<VcpuState> PrepareDirectBoot(const GuestMemory& ram, const DirectBootOptions& options) {
  SLUICE_RETURN_IF_ERROR(Check(ram, options));
  SLUICE_RETURN_IF_ERROR(WritePageTables(ram, options));
  SLUICE_RETURN_IF_ERROR(internal::WriteGdtAndTss(ram, kSelectors, internal::Mode::kLong));
  SLUICE_RETURN_IF_ERROR(WriteStartInfo(ram, options));
  VcpuState state = internal::FlatState(kSelectors, internal::Mode::kLong);
  state.regs.rip = options.entry.value();
  state.regs.rbx = kBootStartInfo;
  return state;
}

absl::Status ApplyVcpuState(kvm::Vcpu& vcpu, const VcpuState& state) {
  SLUICE_ASSIGN_OR_RETURN(const kvm_sregs current, vcpu.GetSregs());
  kvm_sregs sregs = state.sregs;
  sregs.apic_base = current.apic_base;
  std::copy(std::begin(current.interrupt_bitmap), std::end(current.interrupt_bitmap),
            std::begin(sregs.interrupt_bitmap));
  SLUICE_RETURN_IF_ERROR(vcpu.SetSregs(sregs));
  SLUICE_RETURN_IF_ERROR(vcpu.SetRegs(state.regs));
  SLUICE_RETURN_IF_ERROR(vcpu.SetFpu(state.fpu));
  return vcpu.SetMsrs(state.msrs);
}

}  // namespace sluice::boot
