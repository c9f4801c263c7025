// File: vm_process.h
//
// One front-end machine in a process of its own, jailed: what "sluice vm-process" does, and how a supervisor starts it.
//
//   // supervisor
//   SLUICE_ASSIGN_OR_RETURN(auto control, CreateSeqPacketPair());
//   VmProcessConfig config{.name = "web-0", .mem_mib = 64, .cmdline = "seed=1"};
//   VmProcessFds fds{.control = control.second.get(), .kvm = kvm, .firmware = elf, .channel = channel, .stats = stats,
//   .serial = log}; SLUICE_ASSIGN_OR_RETURN(jail::ChildProcess child, StartVmProcess("/usr/bin/sluice", config, fds));
//   // then: control socket speaks flatbuf/control.fbs, VmMessage out, VmEvent in; poll child.pidfd() for its end
//
//   // main() of sluice
//   if (argc > 1 && std::strcmp(argv[1], kVmProcessVerb) == 0) return VmProcessMain(argc - 2, argv + 2);
//
// Events, in this order: VmRunning (at the guest's first mark, if it makes one), VmScanout (answers to VmScreenshot;
// one more when the guest has ended), VmExited (last; then the process ends). A process that ends without VmExited
// crashed or was killed: see its exit status. If the supervisor's socket closes, the machine is stopped.
#ifndef SLUICE_VMM_MACHINE_VM_PROCESS_H_
#define SLUICE_VMM_MACHINE_VM_PROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vmm/base/log.h"
#include "vmm/jail/spawn.h"
#include "vmm/machine/address_map.h"

namespace sluice::machine {

inline constexpr char kVmProcessVerb[] = "vm-process";

// Everything about the machine that is not a descriptor.
struct VmProcessConfig {
  std::string name = "vm";
  uint64_t mem_mib = 64;
  uint32_t vcpus = 1;
  std::string cmdline;
  bool gpu = true;
  std::string os = "linux";
  uint32_t display_width = 1024;
  uint32_t display_height = 768;
  uint64_t window_bytes = kDefaultWindowBytes;
  bool kernel = false;   // the image is a Linux kernel
  bool restart = false;  // a guest that asks for a reset boots again (kernels only); else the machine ends
  LogLevel log_level = LogLevel::kWarn;

  bool operator==(const VmProcessConfig&) const = default;
};

// Descriptors of the supervisor's; it keeps them open and may close them once the child has started. -1: not given.
struct VmProcessFds {
  int control = -1;    // SOCK_SEQPACKET, required
  int kvm = -1;        // /dev/kvm, required
  int firmware = -1;   // ELF image, or with VmProcessConfig::kernel a kernel; required
  int channel = -1;    // service channel to the worker; without it the gpu is 2D only
  int stats = -1;      // one page for wire::VmStats
  int serial = -1;     // what the guest writes to its serial port goes here
  int initramfs = -1;  // with a kernel
  int error = -1;      // standard error of the process; -1: the supervisor's own
};

// Starts the jailed process: own namespaces where permitted, descriptors at fixed numbers, nothing else. `program`
// understands kVmProcessVerb. From a thread that lives as long as the machine (vmm/jail/spawn.h).
absl::StatusOr<jail::ChildProcess> StartVmProcess(const std::string& program, const VmProcessConfig& config,
                                                  const VmProcessFds& fds);

// Exit codes of the process itself (the guest's own code is in VmExited).
enum VmProcessExit : int {
  kVmProcessOk = 0,        // VmExited was sent
  kVmProcessUsage = 2,     // arguments or descriptors make no sense: not started by StartVmProcess
  kVmProcessHost = 5,      // the host refused something: VmExited was sent with cause "host error"
  kVmProcessOrphaned = 6,  // the supervisor is gone
};

// The body of the process; `argv` after the verb. Returns its exit code; leaves with _exit from inside where the jail
// wants it so.
int VmProcessMain(int argc, char** argv);

// argv for VmProcessMain, and back. INVALID_ARGUMENT names the argument.
std::vector<std::string> EncodeVmProcessArguments(const VmProcessConfig& config, uint64_t start_time_ns);
struct VmProcessArguments {
  VmProcessConfig config;
  uint64_t start_time_ns = 0;
};
absl::StatusOr<VmProcessArguments> DecodeVmProcessArguments(const std::vector<absl::string_view>& arguments);

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_VM_PROCESS_H_
