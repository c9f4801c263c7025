// File: firmware.h
//
// Finds the guest image that a configuration names.
//
//   "triangle"            -> <directory of the program>/../firmware/triangle.elf
//   "guests/mine.elf"     -> relative to the directory of the configuration file
//   "/opt/guests/a.elf"   -> as it is
#ifndef SLUICE_VMM_TOPOLOGY_FIRMWARE_H_
#define SLUICE_VMM_TOPOLOGY_FIRMWARE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "vmm/topology/plan.h"

namespace sluice::topology {

struct FirmwareSearch {
  std::string config_directory;    // of the configuration file; "" is the working directory
  std::string firmware_directory;  // where shipped firmware lies
};

// <directory of this program>/../firmware.
std::string ShippedFirmwareDirectory();

// The path that `name` stands for. Nothing is opened.
std::string ResolveFirmware(absl::string_view name, const FirmwareSearch& search);

// Replaces each machine's `firmware` by its path and checks that it is a readable regular file that the machine can
// boot (vmm/boot/elf.h: size, headers, all in RAM). False: `problems` grew; the message names what shipped firmware
// there is.
bool ResolveFirmwareFiles(const FirmwareSearch& search, Plan* plan, Problems* problems);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_FIRMWARE_H_
