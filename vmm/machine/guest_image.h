// File: guest_image.h
//
// What a machine boots: a firmware image, or a Linux kernel with its initramfs. Knows how to put it into RAM, a kernel
// as often as the guest restarts.
//
//   SLUICE_ASSIGN_OR_RETURN(GuestImage image, GuestImage::Create(options));
//   SLUICE_ASSIGN_OR_RETURN(boot::VcpuState state, image.Load(ram));
#ifndef SLUICE_VMM_MACHINE_GUEST_IMAGE_H_
#define SLUICE_VMM_MACHINE_GUEST_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/boot/direct_boot.h"
#include "vmm/boot/image_source.h"
#include "vmm/machine/machine.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::machine {

class GuestImage {
 public:
  // Takes firmware or kernel, and the command line, out of `options`. INVALID_ARGUMENT: both or neither is there, or a
  // file is not one that could be booted.
  static absl::StatusOr<GuestImage> Create(MachineOptions& options);

  // A kernel can be loaded again; a firmware image is given up once it is in RAM.
  bool can_restart() const { return kernel_.has_value(); }

  // Writes everything that the guest finds in RAM, and says what the boot vCPU starts with.
  absl::StatusOr<boot::VcpuState> Load(const memory::GuestMemory& ram);

 private:
  GuestImage() = default;
  absl::StatusOr<boot::VcpuState> LoadFirmware(const memory::GuestMemory& ram);
  absl::StatusOr<boot::VcpuState> LoadKernel(const memory::GuestMemory& ram) const;

  std::string cmdline_;
  uint32_t vcpus_ = 1;
  uint64_t window_bytes_ = 0;  // 0: no window
  std::vector<uint8_t> firmware_;
  std::optional<boot::FdImage> kernel_;
  std::optional<boot::FdImage> initramfs_;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_GUEST_IMAGE_H_
