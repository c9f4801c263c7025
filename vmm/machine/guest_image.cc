#include "vmm/machine/guest_image.h"

#include <algorithm>
#include <utility>

#include "vmm/base/status_macros.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/linux_boot.h"
#include "vmm/machine/platform.h"

namespace sluice::machine {

using memory::GuestRange;

absl::StatusOr<GuestImage> GuestImage::Create(MachineOptions& options) {
  if (options.kernel.has_value() && !options.firmware.empty()) {
    return absl::InvalidArgumentError("a machine boots either a firmware image or a kernel, not both");
  }
  GuestImage image;
  image.cmdline_ = options.cmdline;
  image.vcpus_ = options.vcpus;
  if (options.gpu.has_value()) image.window_bytes_ = options.gpu->window_bytes;
  image.firmware_ = std::move(options.firmware);
  if (!options.kernel.has_value()) return image;

  const auto open = [](UniqueFd fd, uint64_t limit, const char* what) -> absl::StatusOr<boot::FdImage> {
    absl::StatusOr<boot::FdImage> file = boot::FdImage::Open(std::move(fd), limit);
    return file.ok() ? std::move(file) : Annotate(file.status(), what);
  };
  SLUICE_ASSIGN_OR_RETURN(image.kernel_, open(std::move(options.kernel->image), boot::kMaxKernelBytes, "kernel"));
  if (options.kernel->initramfs) {
    SLUICE_ASSIGN_OR_RETURN(image.initramfs_,
                            open(std::move(options.kernel->initramfs), boot::kMaxInitramfsBytes, "initramfs"));
  }
  return image;
}

absl::StatusOr<boot::VcpuState> GuestImage::Load(const memory::GuestMemory& ram) {
  return kernel_.has_value() ? LoadKernel(ram) : LoadFirmware(ram);
}

absl::StatusOr<boot::VcpuState> GuestImage::LoadFirmware(const memory::GuestMemory& ram) {
  absl::StatusOr<boot::LoadedElf> loaded = boot::LoadElf(firmware_, ram);
  if (!loaded.ok()) return Annotate(loaded.status(), "firmware image");
  std::vector<uint8_t>().swap(firmware_);
  boot::DirectBootOptions options;
  options.entry = loaded->entry;
  options.cmdline = cmdline_;
  options.identity_ranges.push_back(*GuestRange::Create(kDeviceHoleStart, 4 * kGiB - kDeviceHoleStart.value()));
  if (window_bytes_ != 0) {
    options.identity_ranges.push_back(*GuestRange::Create(kBar64Start, std::max(window_bytes_, 2 * kMiB)));
  }
  options.reserved_ranges.push_back(*GuestRange::Create(kEcamStart, kEcamBytes));
  return boot::PrepareDirectBoot(ram, options);
}

absl::StatusOr<boot::VcpuState> GuestImage::LoadKernel(const memory::GuestMemory& ram) const {
  boot::LinuxBootOptions options;
  options.kernel = &*kernel_;
  options.initramfs = initramfs_.has_value() ? &*initramfs_ : nullptr;
  options.cmdline = cmdline_;
  options.reset_port = kResetPort;
  options.reset_value = kResetValue;
  options.reserved_ranges.push_back(*GuestRange::Create(kEcamStart, kEcamBytes));
  SLUICE_ASSIGN_OR_RETURN(options.rsdp, WriteAcpiTables(ram, vcpus_));
  absl::StatusOr<boot::VcpuState> state = boot::PrepareLinuxBoot(ram, options);
  return state.ok() ? std::move(state) : Annotate(state.status(), "kernel");
}

}  // namespace sluice::machine
