// File: pci_probe.h
//
// Can GPUs of this host be given to GPU Domain VMs? That takes an IOMMU, the vfio-pci driver, and that everything in
// the GPU's IOMMU group is given away with it or left without a driver (kernel: Documentation/driver-api/vfio.rst).
//
//   for (Finding& f : ProbePassthrough(HostFiles())) ...
#ifndef SLUICE_VMM_HOSTCHECK_PCI_PROBE_H_
#define SLUICE_VMM_HOSTCHECK_PCI_PROBE_H_

#include <string>
#include <vector>

#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"

namespace sluice::hostcheck {

// One PCI function, from sys/bus/pci/devices.
struct PciFunction {
  std::string address;        // "0000:01:00.0"
  std::string id;             // "10de:2204"
  uint32_t class_code = 0;    // 24 bits: base class, subclass, interface
  std::string driver;         // bound driver, or empty
  std::string iommu_group;    // number, or empty without an IOMMU
  bool boot_display = false;  // the firmware's console is on it

  bool IsGpu() const;     // display controller, or processing accelerator
  bool IsBridge() const;  // stays with the host; the rest of its group may go all the same
};

// All functions, by address.
std::vector<PciFunction> ListPci(const HostFiles& host);

// "IOMMU": whether there are groups.
Finding ProbeIommu(const HostFiles& host);
// "VFIO": whether this process may use VFIO at all; also how much memory it may lock, since a VM's memory is locked for
// the device.
Finding ProbeVfio(const HostFiles& host);
// "GPU ADDRESS" for each GPU, or one "GPUs" if there is none: whether it can be passed through as it is now, and if
// not, the commands that change that.
std::vector<Finding> ProbeGpus(const HostFiles& host);

// All three.
std::vector<Finding> ProbePassthrough(const HostFiles& host);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_PCI_PROBE_H_
