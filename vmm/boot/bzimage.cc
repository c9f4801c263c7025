#include "vmm/boot/bzimage.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::Hex;
using Header = std::array<uint8_t, kHdrMaxEnd - kHdrStart>;

template <typename... Ts>
absl::Status Bad(const Ts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("not a usable bzImage: ", parts...));
}

template <typename T>
T Field(const Header& header, uint32_t offset) {
  T value;
  std::memcpy(&value, header.data() + (offset - kHdrStart), sizeof(T));
  return value;
}

bool HasMagic(const Header& header) {
  return Field<uint16_t>(header, kHdrBootFlag) == kBootFlag && Field<uint32_t>(header, kHdrMagic) == kHdrS;
}

// The header's file bytes, as many as the format can have.
absl::StatusOr<Header> ReadSetupHeader(const ImageSource& file) {
  if (file.size() < kHdrMaxEnd) return Bad(file.size(), " bytes, too short for a setup header");
  return ReadHeader<Header>(file, kHdrStart);
}

absl::Status CheckFields(const BzImage& kernel, const ImageSource& file) {
  if (kernel.payload_size <= kEntry64Offset) {
    return Bad("the file ends at ", Hex(file.size()), ", before the kernel's 64-bit entry point");
  }
  if (!IsPowerOfTwo(kernel.alignment) || kernel.alignment < kPageSize || kernel.alignment > memory::kGiB) {
    return Bad("kernel_alignment is ", Hex(kernel.alignment), ", want a power of two, 4 KiB to 1 GiB");
  }
  if (kernel.init_size < kernel.payload_size) {
    return Bad("init_size ", Hex(kernel.init_size), " is less than the kernel's ", Hex(kernel.payload_size), " bytes");
  }
  if (kernel.preferred_address < kFirmwareStart || kernel.preferred_address % kPageSize != 0 ||
      kernel.preferred_address >= 4 * memory::kGiB) {
    return Bad("pref_address is ", Hex(kernel.preferred_address), ", want a page from 1 MiB to 4 GiB");
  }
  if (kernel.initramfs_max < kFirmwareStart) return Bad("initrd_addr_max is ", Hex(kernel.initramfs_max));
  if (kernel.cmdline_max == 0) return Bad("cmdline_size is 0");
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeBzImage(const ImageSource& file) {
  const absl::StatusOr<Header> header = ReadSetupHeader(file);
  return header.ok() && HasMagic(*header);
}

absl::StatusOr<BzImage> ParseBzImage(const ImageSource& file) {
  SLUICE_ASSIGN_OR_RETURN(const Header header, ReadSetupHeader(file));
  if (!HasMagic(header)) return Bad("no 'HdrS' magic");
  const auto version = Field<uint16_t>(header, kHdrVersion);
  if (version < kMinProtocol) {
    return Bad("boot protocol ", version >> 8, ".", version & 0xff, ", want 2.12 or later");
  }
  if ((Field<uint8_t>(header, kHdrLoadFlags) & kLoadedHigh) == 0) return Bad("it is a zImage, loaded low");
  if ((Field<uint16_t>(header, kHdrXloadFlags) & kXlfKernel64) == 0) {
    return Bad("it has no 64-bit entry point (xloadflags bit 0); only x86-64 kernels can be booted");
  }
  const uint32_t end = kHdrMagic + (Field<uint16_t>(header, kHdrJump) >> 8);
  if (end < kHdrHandoverEnd || end > kHdrMaxEnd) return Bad("its setup header ends at ", Hex(end));

  BzImage kernel;
  kernel.header = header;
  kernel.header_bytes = end - kHdrStart;
  const auto sectors = Field<uint8_t>(header, kHdrSetupSects);
  kernel.payload_offset = (uint64_t{sectors == 0 ? uint8_t{4} : sectors} + 1) * kSectorBytes;
  kernel.payload_size = file.size() > kernel.payload_offset ? file.size() - kernel.payload_offset : 0;
  kernel.preferred_address = Field<uint64_t>(header, kHdrPrefAddress);
  kernel.alignment = Field<uint32_t>(header, kHdrKernelAlignment);
  kernel.relocatable = Field<uint8_t>(header, kHdrRelocatable) != 0;
  kernel.init_size = Field<uint32_t>(header, kHdrInitSize);
  kernel.initramfs_max = Field<uint32_t>(header, kHdrInitrdAddrMax);
  kernel.cmdline_max = Field<uint32_t>(header, kHdrCmdlineSize);
  SLUICE_RETURN_IF_ERROR(CheckFields(kernel, file));
  return kernel;
}

absl::StatusOr<GuestAddress> LoadBzImage(const ImageSource& file, const BzImage& kernel, const GuestMemory& ram) {
  std::optional<GuestAddress> load;
  if (ram.Contains(GuestAddress(kernel.preferred_address), kernel.init_size)) {
    load = GuestAddress(kernel.preferred_address);
  } else if (kernel.relocatable) {
    for (const memory::Region& region : ram.regions()) {
      const auto low = CheckedAlignUp(std::max(region.start().value(), kFirmwareStart), kernel.alignment);
      if (!low.has_value() || *low >= 4 * memory::kGiB || !ram.Contains(GuestAddress(*low), kernel.init_size)) continue;
      load = GuestAddress(*low);
      break;
    }
  }
  if (!load.has_value()) {
    return absl::OutOfRangeError(absl::StrCat("the kernel wants ", Hex(kernel.init_size), " bytes of RAM at ",
                                              Hex(kernel.preferred_address), "; give the VM more memory"));
  }
  SLUICE_RETURN_IF_ERROR(CopyImage(file, kernel.payload_offset, kernel.payload_size, ram, *load));
  return *load;
}

}  // namespace sluice::boot
