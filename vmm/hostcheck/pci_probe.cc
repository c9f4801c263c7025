#include "vmm/hostcheck/pci_probe.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice::hostcheck {
namespace {

constexpr uint32_t kDisplay = 0x03, kBridge = 0x06, kAccelerator = 0x12;  // base classes (PCI Code and ID Assignment)

std::string VfioGroup(const HostFiles& host, const std::string& group) {
  return absl::StrCat(host.dev, "/vfio/", group);
}

// What gives a function to vfio-pci until the next start of the host.
std::string BindCommands(const std::vector<PciFunction>& functions) {
  std::vector<std::string> commands = {"modprobe vfio-pci"};
  for (const PciFunction& function : functions) {
    const std::string device = absl::StrCat("/sys/bus/pci/devices/", function.address);
    commands.push_back(absl::StrCat("echo vfio-pci > ", device, "/driver_override"));
    if (!function.driver.empty())
      commands.push_back(absl::StrCat("echo ", function.address, " > ", device, "/driver/unbind"));
    commands.push_back(absl::StrCat("echo ", function.address, " > /sys/bus/pci/drivers_probe"));
  }
  return absl::StrJoin(commands, "; ");
}

Finding DescribeGpu(const HostFiles& host, const PciFunction& gpu, const std::vector<PciFunction>& all) {
  const std::string subject = absl::StrCat("GPU ", gpu.address);
  std::string found =
      absl::StrCat(gpu.id, ", ", gpu.driver.empty() ? "no driver" : absl::StrCat("driver ", gpu.driver));
  if (gpu.boot_display) absl::StrAppend(&found, ", the host's console");
  const std::string process = gpu.driver.empty() || gpu.driver == "vfio-pci"
                                  ? "GPU Domains as processes cannot use it"
                                  : "GPU Domains as processes can use it if it has a Vulkan driver";
  if (gpu.iommu_group.empty()) {
    return Note(subject, absl::StrCat(found, ", in no IOMMU group"),
                absl::StrCat("it cannot be given to a VM; ", process), "See IOMMU.");
  }
  absl::StrAppend(&found, ", IOMMU group ", gpu.iommu_group);
  // Whoever shares the group must not be driven by the host.
  std::vector<PciFunction> to_bind;
  std::vector<std::string> mates;
  for (const PciFunction& other : all) {
    if (other.iommu_group != gpu.iommu_group || other.IsBridge()) continue;
    if (other.address != gpu.address) mates.push_back(absl::StrCat(other.address, " (", other.id, ")"));
    const bool is_free = other.driver == "vfio-pci" || (other.driver.empty() && other.address != gpu.address);
    if (!is_free) to_bind.push_back(other);
  }
  if (!mates.empty()) absl::StrAppend(&found, " together with ", absl::StrJoin(mates, ", "));
  if (!to_bind.empty()) {
    const bool driven =
        std::any_of(to_bind.begin(), to_bind.end(), [](const PciFunction& f) { return !f.driver.empty(); });
    absl::string_view warning;
    if (driven) warning = "Whatever uses it on the host must end first. ";
    if (gpu.boot_display) warning = "The host's console goes dark with it. ";
    return Note(subject, found, absl::StrCat("it cannot be given to a VM as it is; ", process),
                absl::StrCat(warning, "As root: ", BindCommands(to_bind)));
  }
  const int error = HostFiles::OpenError(VfioGroup(host, gpu.iommu_group));
  // EBUSY: somebody has it open, for instance a VM.
  if (error == EBUSY) {
    return Note(subject, absl::StrCat(found, ", in use"), "it is another VM's now", "End that VM to free it.");
  }
  if (error != 0) {
    return Note(subject, found,
                absl::StrCat("it is ready for a VM, but this user may not use it: ", VfioGroup(host, gpu.iommu_group),
                             ": ", std::strerror(error)),
                absl::StrCat("As root: chown $USER ", VfioGroup(host, gpu.iommu_group)));
  }
  return Ok(subject, found, "it can be given to a VM");
}

}  // namespace

bool PciFunction::IsGpu() const {
  return class_code >> 16 == kDisplay || class_code >> 16 == kAccelerator;
}
bool PciFunction::IsBridge() const {
  return class_code >> 16 == kBridge;
}

std::vector<PciFunction> ListPci(const HostFiles& host) {
  std::vector<PciFunction> functions;
  const std::string directory = host.sys + "/bus/pci/devices";
  for (const std::string& name : HostFiles::List(directory)) {
    const std::string path = absl::StrCat(directory, "/", name, "/");
    const std::optional<uint64_t> class_code = HostFiles::ReadNumber(path + "class");
    if (!class_code.has_value()) continue;
    PciFunction function;
    function.address = name;
    function.class_code = static_cast<uint32_t>(*class_code & 0xffffff);
    function.id = absl::StrFormat("%04x:%04x", HostFiles::ReadNumber(path + "vendor").value_or(0) & 0xffff,
                                  HostFiles::ReadNumber(path + "device").value_or(0) & 0xffff);
    function.driver = HostFiles::LinkName(path + "driver");
    function.iommu_group = HostFiles::LinkName(path + "iommu_group");
    function.boot_display = HostFiles::ReadNumber(path + "boot_vga").value_or(0) == 1;
    functions.push_back(std::move(function));
  }
  return functions;
}

Finding ProbeIommu(const HostFiles& host) {
  const size_t groups = HostFiles::List(host.sys + "/kernel/iommu_groups").size();
  if (groups != 0)
    return Ok("IOMMU", absl::StrCat(groups, groups == 1 ? " group" : " groups"), "devices can be given to VMs");
  return Note("IOMMU", "no groups", "no device can be given to a VM; GPU Domains as processes do not need that",
              "Enable VT-d or AMD-Vi in the firmware settings; with Intel also start the kernel with intel_iommu=on. A "
              "virtual machine needs an IOMMU from its own hypervisor.");
}

Finding ProbeVfio(const HostFiles& host) {
  const std::string device = host.dev + "/vfio/vfio";
  const int error = HostFiles::OpenError(device);
  if (error == ENOENT || error == ENODEV) {
    return Note("VFIO", absl::StrCat("no ", device), "no device can be given to a VM yet",
                "As root: modprobe vfio-pci");
  }
  if (error != 0) {
    return Note("VFIO", absl::StrCat(device, ": ", std::strerror(error)), "this user can give no device to a VM",
                "Run as root, or let this user open it (a udev rule for the vfio subsystem).");
  }
  // "Max locked memory  SOFT  HARD  bytes", columns of blanks.
  std::string locked = "unknown";
  for (const absl::string_view line : absl::StrSplit(HostFiles::Read(host.proc + "/self/limits").value_or(""), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() >= 5 && words[0] == "Max" && words[1] == "locked") locked = std::string(words[3]);
  }
  uint64_t bytes = 0;
  if (absl::SimpleAtoi(locked, &bytes)) {
    return Warning("VFIO",
                   absl::StrCat(device, " is there and permitted, ", bytes >> 20, " MiB of memory may be locked"),
                   "a VM with a device needs all of its memory locked, and a VM process has no capability to go past "
                   "the limit",
                   "Raise it: ulimit -l unlimited (as root, or memlock in /etc/security/limits.conf).");
  }
  return Ok("VFIO", absl::StrCat(device, " is there and permitted, lockable memory: ", locked));
}

std::vector<Finding> ProbeGpus(const HostFiles& host) {
  std::vector<Finding> findings;
  const std::vector<PciFunction> all = ListPci(host);
  for (const PciFunction& function : all) {
    if (function.IsGpu()) findings.push_back(DescribeGpu(host, function, all));
  }
  if (findings.empty()) {
    findings.push_back(
        Note("GPUs", "none on this host's PCI buses", "GPU Domains run on the processor (Mesa's lavapipe), if at all"));
  }
  return findings;
}

std::vector<Finding> ProbePassthrough(const HostFiles& host) {
  std::vector<Finding> findings = {ProbeIommu(host), ProbeVfio(host)};
  for (Finding& finding : ProbeGpus(host)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace sluice::hostcheck
