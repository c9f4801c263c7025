// File: driver.h
//
// The Vulkan driver of a worker process: one VkInstance that all contexts of the front-end share (so that the loader
// opens its libraries once, before the jail closes) and the physical devices that the front-end may use, with what was
// found out about importing host memory.
//
//   SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<VulkanDriver> driver, VulkanDriver::Create({.gpus = {"llvmpipe"}}));
#ifndef SLUICE_GPU_DOMAIN_WORKER_DRIVER_H_
#define SLUICE_GPU_DOMAIN_WORKER_DRIVER_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/base/checked.h"

namespace sluice::worker {

struct DriverDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;
  uint32_t api_version = 0;
  bool is_cpu = false;
  VkPhysicalDeviceFeatures features{};
  // Memory types through which host memory can be imported (VK_EXT_external_memory_host), as a bit mask; 0: none. Then
  // host-visible memory is kept equal by copies (host_copies.h).
  uint32_t import_types = 0;
  bool imports_images = false;       // memory of optimal images may be such, too
  uint64_t import_alignment = 4096;  // of pointers and sizes; a power of two
  // Extensions that the worker enables behind the guest's back.
  std::vector<const char*> extra_extensions;
};

struct DriverOptions {
  // Parts of device names, case ignored; empty: all devices.
  std::vector<std::string> gpus;
  // No device that is a CPU.
  bool require_hardware = false;
  // False: as if no driver could import host memory. For tests.
  bool import_host_memory = true;
  // Puts VK_LAYER_KHRONOS_validation above the driver; what it says goes to the log, errors as errors. For development.
  bool validate = false;
};

// Immutable after Create; thread-safe.
class VulkanDriver {
 public:
  // The version that the wire speaks, and the most that guests are told.
  static constexpr uint32_t kApiVersion = VK_API_VERSION_1_3;
  // Devices of older versions are not opened.
  static constexpr uint32_t kLeastDeviceVersion = VK_API_VERSION_1_1;

  // Loads Vulkan and makes the instance and, for a moment, a device of each selected GPU: what drivers load lazily is
  // loaded when this returns. Errors: NOT_FOUND: no loader, no driver, or no such device (the message lists those there
  // are).
  static absl::StatusOr<std::unique_ptr<VulkanDriver>> Create(const DriverOptions& options);
  ~VulkanDriver();
  VulkanDriver(const VulkanDriver&) = delete;
  VulkanDriver& operator=(const VulkanDriver&) = delete;

  VkInstance instance() const { return instance_; }
  const std::vector<DriverDevice>& devices() const { return devices_; }
  bool has_cpu_device() const;
  // Null for a handle that is not one of devices().
  const DriverDevice* Find(VkPhysicalDevice handle) const;
  // What ranges of shared memory are aligned to, so that every device can import them; at least a page.
  uint64_t memory_alignment() const { return memory_alignment_; }
  PFN_vkGetDeviceProcAddr get_device_proc_addr() const { return get_device_proc_addr_; }

 private:
  VulkanDriver() = default;
  bool ImportsImages(const DriverDevice& device) const;
  absl::Status Probe(DriverDevice& device, bool import_host_memory);

  VkInstance instance_ = VK_NULL_HANDLE;
  bool has_surface_ = false;
  PFN_vkGetInstanceProcAddr get_ = nullptr;
  PFN_vkGetDeviceProcAddr get_device_proc_addr_ = nullptr;
  PFN_vkDestroyInstance destroy_instance_ = nullptr;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<DriverDevice> devices_;
  uint64_t memory_alignment_ = kPageSize;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_DRIVER_H_
