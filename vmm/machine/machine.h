// File: machine.h
//
// A front-end virtual machine put together: RAM, KVM VM, vCPU threads, serial port, PCI bus, gpu-front, other virtio
// devices. It boots a firmware image (ELF64) straight into 64-bit mode, or a stock Linux kernel, and runs until the
// guest ends itself, breaks itself, or is stopped.
//
//   asio::io_context loop;
//   MachineOptions options;
//   options.kvm = std::move(kvm_fd);
//   options.firmware = bytes;
//   options.serial = [](absl::string_view text) { std::cout << text; };
//   SLUICE_ASSIGN_OR_RETURN(auto machine, Machine::Create(loop, std::move(options)));
//   SLUICE_RETURN_IF_ERROR(machine->Start([&](const MachineEnd& end) { loop.stop(); }));
//   loop.run();
//
// Threads. One loop thread (the caller's io_context) runs the queue side of devices, the service channel and the end
// callback. One thread per vCPU runs KVM_RUN and register accesses. Create, Start, the destructor and every other
// method belong to the loop thread unless said otherwise.
#ifndef SLUICE_VMM_MACHINE_MACHINE_H_
#define SLUICE_VMM_MACHINE_MACHINE_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "devices/gpu-front/scanout.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"
#include "vmm/machine/address_map.h"
#include "vmm/machine/end.h"
#include "vmm/virtio/device.h"

namespace sluice::machine {

struct GpuOptions {
  // The display that the guest is told of, pixels.
  uint32_t width = 1024;
  uint32_t height = 768;
  // Host-visible window, bytes: a power of two, 1 MiB .. kMaxWindowBytes.
  uint64_t window_bytes = kDefaultWindowBytes;
  // The front-end's end of a service channel (SOCK_SEQPACKET). Invalid: no GPU Domain, the device offers 2D only.
  UniqueFd channel;
  // OS type, said to the domain in Hello.
  std::string os = "linux";
};

// What a device may use; outlives it.
struct DeviceContext {
  asio::io_context& loop;  // runs its queue side
};

// One more virtio device. It gets a PCI slot of its own (kFirstDeviceSlot on, in the order given), an MSI-X vector and
// an ioeventfd per queue.
struct VirtioDeviceOptions {
  std::string name;  // for logs and errors: "disk0"
  // Called once, in Create, on the loop thread.
  std::function<absl::StatusOr<std::unique_ptr<virtio::Device>>(const DeviceContext&)> create;
};

// A Linux guest.
struct KernelOptions {
  UniqueFd image;      // bzImage (vmlinuz), or ELF kernel with a PVH note (vmlinux); a regular file
  UniqueFd initramfs;  // invalid: none
};

// What follows when a guest asks for a reset.
enum class ResetAction {
  kEnd,      // the machine ends (EndCause::kGuestReset)
  kRestart,  // it boots again: same devices, RAM as it was, kernel and initramfs loaded anew. Kernels only
};

// A guest's write to the marker port.
struct Mark {
  uint32_t value = 0;
  uint64_t nanoseconds = 0;  // since MachineOptions::start_time_ns
};

struct MachineOptions {
  std::string name = "vm";
  UniqueFd kvm;                         // open /dev/kvm
  std::vector<uint8_t> firmware;        // ELF64 image; or
  std::optional<KernelOptions> kernel;  // a kernel
  ResetAction on_reset = ResetAction::kEnd;
  uint64_t mem_mib = 64;  // kMinRamMib .. kMaxRamMib; with a kernel .. kMaxKernelRamMib
  uint32_t vcpus = 1;     // 1..64; vCPU 0 boots, the others wait for INIT/SIPI
  // Firmware: shorter than boot::kMaxCmdlineBytes. Kernel: what that kernel takes, usually 2,047 bytes.
  std::string cmdline;
  std::optional<GpuOptions> gpu;             // none: no display device
  std::vector<VirtioDeviceOptions> devices;  // at most kMaxDevices
  // A page for wire::VmStats (flatbuf/stats.h). Invalid: private counters.
  Mapping stats;
  // What the guest writes to its serial port. vCPU threads, one call at a time; may be called until the destructor
  // returns.
  std::function<void(absl::string_view)> serial;
  // Called by Start when everything is built and every vCPU thread exists, before the first guest instruction: where a
  // VM process installs its last system call filter. An error ends Start.
  std::function<absl::Status()> confine;
  // CLOCK_MONOTONIC, ns, that first_instruction_ns counts from. 0: the call of Create.
  uint64_t start_time_ns = 0;
};

// Marks that a machine reports.
inline constexpr uint32_t kMaxMarks = 256;

class Machine {
 public:
  // Builds the machine up to, not including, its first instruction. Errors: INVALID_ARGUMENT (options, images),
  // what /dev/kvm said, with the step that failed.
  static absl::StatusOr<std::unique_ptr<Machine>> Create(asio::io_context& loop, MachineOptions options);
  // Stops and joins vCPU threads (each is kicked until it ends; a thread that does not for 30 s is our bug and aborts).
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Starts the vCPUs. Once. `on_end` is called once, on the loop, when the last vCPU has ended and the device queues
  // have been drained; not called when the machine is destroyed before.
  virtual absl::Status Start(std::function<void(const MachineEnd&)> on_end) = 0;
  // Ends the machine (EndCause::kStopped, unless it is ending already). Any thread; returns at once; `on_end` follows.
  virtual void Stop() = 0;

  // Calls `on_first_mark` once, on the loop, after the guest's first write to the marker port, with nanoseconds since
  // MachineOptions::start_time_ns. Call before Start.
  virtual void OnFirstMark(std::function<void(uint64_t)> on_first_mark) = 0;
  // Calls `on_mark` on the loop for each write to the marker port, the first kMaxMarks of a machine. Call before Start.
  virtual void OnMark(std::function<void(const Mark&)> on_mark) = 0;
  // Calls `on_restart` on the loop each time that the guest is about to boot again (ResetAction::kRestart), with how
  // often that was. Call before Start.
  virtual void OnRestart(std::function<void(uint64_t)> on_restart) = 0;
  // Types on the guest's serial port; returns how many bytes it took (the rest finds no room, yet). Any thread.
  virtual size_t SerialInput(absl::string_view bytes) = 0;

  // What the display shows, or showed last: guests that shut down reset their devices. Width 0 when nothing was ever
  // shown or there is no gpu.
  virtual absl::StatusOr<gpu_front::ScanoutImage> SnapshotScanout() = 0;

  // Bytes of guest RAM that are resident, from mincore(2): what to subtract from a process's resident set. Any thread.
  virtual uint64_t ResidentRamBytes() const = 0;

 protected:
  Machine() = default;
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_MACHINE_H_
