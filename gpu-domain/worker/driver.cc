#include "gpu-domain/worker/driver.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gpu-domain/exec/policy.h"
#include "gpu-domain/worker/vulkan_raw.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/mapping.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker {
namespace {

// More GPUs than anybody has in one domain; bounds what a strange driver may say.
constexpr uint32_t kMaxDevices = 64;

bool Selected(const std::string& name, const std::vector<std::string>& gpus) {
  const std::string lower = absl::AsciiStrToLower(name);
  return gpus.empty() || std::any_of(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
           return absl::StrContains(lower, absl::AsciiStrToLower(gpu));
         });
}

bool Has(const std::vector<VkExtensionProperties>& extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const VkExtensionProperties& e) { return std::strcmp(e.extensionName, name) == 0; });
}

VKAPI_ATTR VkBool32 VKAPI_CALL OnValidation(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                            VkDebugUtilsMessageTypeFlagsEXT,
                                            const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  const std::string text = Printable(data->pMessage == nullptr ? "" : data->pMessage);
  if ((severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) != 0) {
    SLUICE_LOG(error, "validation: {}", text);
  } else {
    SLUICE_LOG(warn, "validation: {}", text);
  }
  return VK_FALSE;
}

absl::Status VulkanError(absl::string_view what, VkResult result) {
  return absl::NotFoundError(absl::StrCat(what, " failed: VkResult ", static_cast<int>(result)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VulkanDriver>> VulkanDriver::Create(const DriverOptions& options) {
  const std::vector<std::string>& gpus = options.gpus;
  const bool require_hardware = options.require_hardware;
  std::unique_ptr<VulkanDriver> driver(new VulkanDriver());
  driver->get_ = exec::LoadVulkan();
  if (driver->get_ == nullptr) {
    return absl::NotFoundError("no Vulkan loader (libvulkan.so.1); install the package libvulkan1");
  }
  PFN_vkCreateInstance create_instance = nullptr;
  if (!LoadFunction(driver->get_, VkInstance{VK_NULL_HANDLE}, "vkCreateInstance", &create_instance)) {
    return absl::NotFoundError("the Vulkan loader has no vkCreateInstance");
  }
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "sluice-worker";
  application.apiVersion = kApiVersion;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  // Guests present by themselves, but name VK_IMAGE_LAYOUT_PRESENT_SRC_KHR: where there is VK_KHR_swapchain, it is
  // enabled so that the layout means something to the driver.
  const char* surface = VK_KHR_SURFACE_EXTENSION_NAME;
  PFN_vkEnumerateInstanceExtensionProperties enumerate_instance = nullptr;
  if (LoadFunction(driver->get_, VkInstance{VK_NULL_HANDLE}, "vkEnumerateInstanceExtensionProperties",
                   &enumerate_instance)) {
    uint32_t count = 0;
    enumerate_instance(nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> have(count);
    enumerate_instance(nullptr, &count, have.data());
    driver->has_surface_ = Has(have, surface);
  }
  std::vector<const char*> instance_extensions;
  if (driver->has_surface_) instance_extensions.push_back(surface);
  const char* const layers[] = {"VK_LAYER_KHRONOS_validation"};
  VkDebugUtilsMessengerCreateInfoEXT messenger{};
  messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = &OnValidation;
  if (options.validate) {
    info.pNext = &messenger;  // for the creation itself
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = layers;
    instance_extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  info.enabledExtensionCount = static_cast<uint32_t>(instance_extensions.size());
  info.ppEnabledExtensionNames = instance_extensions.data();
  VkResult result = create_instance(&info, nullptr, &driver->instance_);
  if (result == VK_ERROR_LAYER_NOT_PRESENT) {
    return absl::NotFoundError("no validation layer; install the package vulkan-validationlayers");
  }
  if (result != VK_SUCCESS) {
    return absl::NotFoundError(absl::StrCat("no Vulkan driver: vkCreateInstance says ", static_cast<int>(result),
                                            "; install one, e.g. the package mesa-vulkan-drivers"));
  }
  PFN_vkEnumeratePhysicalDevices enumerate = nullptr;
  PFN_vkGetPhysicalDeviceProperties get_properties = nullptr;
  PFN_vkGetPhysicalDeviceFeatures get_features = nullptr;
  const VkInstance instance = driver->instance_;
  PFN_vkCreateDebugUtilsMessengerEXT create_messenger = nullptr;
  if (options.validate && LoadFunction(driver->get_, instance, "vkCreateDebugUtilsMessengerEXT", &create_messenger)) {
    create_messenger(instance, &messenger, nullptr, &driver->messenger_);
  }
  if (!LoadFunction(driver->get_, instance, "vkDestroyInstance", &driver->destroy_instance_) ||
      !LoadFunction(driver->get_, instance, "vkGetDeviceProcAddr", &driver->get_device_proc_addr_) ||
      !LoadFunction(driver->get_, instance, "vkEnumeratePhysicalDevices", &enumerate) ||
      !LoadFunction(driver->get_, instance, "vkGetPhysicalDeviceProperties", &get_properties) ||
      !LoadFunction(driver->get_, instance, "vkGetPhysicalDeviceFeatures", &get_features)) {
    return absl::NotFoundError("the Vulkan loader lacks a core entry point");
  }
  uint32_t count = kMaxDevices;
  std::vector<VkPhysicalDevice> handles(count);
  result = enumerate(instance, &count, handles.data());
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return VulkanError("vkEnumeratePhysicalDevices", result);
  handles.resize(std::min(count, kMaxDevices));
  std::vector<std::string> seen;
  for (const VkPhysicalDevice handle : handles) {
    VkPhysicalDeviceProperties properties{};
    get_properties(handle, &properties);
    DriverDevice device;
    device.handle = handle;
    device.name = properties.deviceName;
    device.is_cpu = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    device.api_version = properties.apiVersion;
    seen.push_back(device.name);
    if (!Selected(device.name, gpus) || device.api_version < kLeastDeviceVersion) continue;
    if (require_hardware && properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) continue;
    get_features(handle, &device.features);
    if (const absl::Status status = driver->Probe(device, options.import_host_memory); !status.ok())
      return Annotate(status, device.name);
    driver->memory_alignment_ = std::max(driver->memory_alignment_, device.import_alignment);
    driver->devices_.push_back(std::move(device));
  }
  if (driver->devices_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no Vulkan 1.1 device ", require_hardware ? "that is hardware " : "",
                     gpus.empty() ? "" : absl::StrCat("whose name contains \"", absl::StrJoin(gpus, "\" or \""), "\" "),
                     "among: ", seen.empty() ? "none" : absl::StrJoin(seen, ", ")));
  }
  return driver;
}

VulkanDriver::~VulkanDriver() {
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger = nullptr;
  if (messenger_ != VK_NULL_HANDLE &&
      LoadFunction(get_, instance_, "vkDestroyDebugUtilsMessengerEXT", &destroy_messenger)) {
    destroy_messenger(instance_, messenger_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE && destroy_instance_ != nullptr) destroy_instance_(instance_, nullptr);
}

bool VulkanDriver::has_cpu_device() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const DriverDevice& device) { return device.is_cpu; });
}

const DriverDevice* VulkanDriver::Find(VkPhysicalDevice handle) const {
  for (const DriverDevice& device : devices_) {
    if (device.handle == handle) return &device;
  }
  return nullptr;
}

bool VulkanDriver::ImportsImages(const DriverDevice& device) const {
  PFN_vkGetPhysicalDeviceImageFormatProperties2 get = nullptr;
  if (!LoadFunction(get_, instance_, "vkGetPhysicalDeviceImageFormatProperties2", &get)) return false;
  VkPhysicalDeviceExternalImageFormatInfo external{};
  external.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO;
  external.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkPhysicalDeviceImageFormatInfo2 info{};
  info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2;
  info.pNext = &external;
  info.format = VK_FORMAT_R8G8B8A8_UNORM;
  info.type = VK_IMAGE_TYPE_2D;
  info.tiling = VK_IMAGE_TILING_OPTIMAL;
  info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
  VkExternalImageFormatProperties out{};
  out.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES;
  VkImageFormatProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2;
  properties.pNext = &out;
  return get(device.handle, &info, &properties) == VK_SUCCESS &&
         (out.externalMemoryProperties.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0;
}

absl::Status VulkanDriver::Probe(DriverDevice& device, bool import_host_memory) {
  PFN_vkEnumerateDeviceExtensionProperties enumerate_extensions = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 get_properties = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties get_families = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  if (!LoadFunction(get_, instance_, "vkEnumerateDeviceExtensionProperties", &enumerate_extensions) ||
      !LoadFunction(get_, instance_, "vkGetPhysicalDeviceProperties2", &get_properties) ||
      !LoadFunction(get_, instance_, "vkGetPhysicalDeviceQueueFamilyProperties", &get_families) ||
      !LoadFunction(get_, instance_, "vkCreateDevice", &create_device)) {
    return absl::NotFoundError("the driver lacks a core entry point");
  }
  uint32_t count = 0;
  enumerate_extensions(device.handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  enumerate_extensions(device.handle, nullptr, &count, extensions.data());
  extensions.resize(std::min<size_t>(count, extensions.size()));
  if (has_surface_ && Has(extensions, VK_KHR_SWAPCHAIN_EXTENSION_NAME)) {
    device.extra_extensions.push_back(VK_KHR_SWAPCHAIN_EXTENSION_NAME);
  }
  const bool can_import = import_host_memory && Has(extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (can_import) device.extra_extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);

  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{};
  host.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = can_import ? &host : nullptr;
  get_properties(device.handle, &properties);
  if (can_import) device.import_alignment = std::max<uint64_t>(host.minImportedHostPointerAlignment, kPageSize);

  count = 0;
  get_families(device.handle, &count, nullptr);
  if (count == 0) return absl::NotFoundError("the device has no queues");
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(device.extra_extensions.size());
  info.ppEnabledExtensionNames = device.extra_extensions.data();
  VkDevice probe = VK_NULL_HANDLE;
  if (const VkResult result = create_device(device.handle, &info, nullptr, &probe); result != VK_SUCCESS) {
    return VulkanError("vkCreateDevice", result);
  }
  PFN_vkDestroyDevice destroy_device = nullptr;
  PFN_vkGetMemoryHostPointerPropertiesEXT get_pointer_properties = nullptr;
  if (can_import &&
      LoadFunction(get_device_proc_addr_, probe, "vkGetMemoryHostPointerPropertiesEXT", &get_pointer_properties)) {
    // What a blob will be: a shared mapping of a memfd.
    const uint64_t size = CheckedAlignUp(device.import_alignment, kPageSize).value_or(kPageSize);
    absl::StatusOr<UniqueFd> fd = CreateMemFd("sluice-probe", size);
    if (fd.ok()) {
      absl::StatusOr<Mapping> mapping = Mapping::MapShared(fd->get(), 0, size, Mapping::kReadWrite);
      VkMemoryHostPointerPropertiesEXT pointer{};
      pointer.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
      if (mapping.ok() && get_pointer_properties(probe, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                                                 mapping->data(), &pointer) == VK_SUCCESS) {
        device.import_types = pointer.memoryTypeBits;
      }
    }
  }
  device.imports_images = device.import_types != 0 && ImportsImages(device);
  if (LoadFunction(get_device_proc_addr_, probe, "vkDestroyDevice", &destroy_device)) destroy_device(probe, nullptr);
  return absl::OkStatus();
}

}  // namespace sluice::worker
