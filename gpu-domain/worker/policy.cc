#include "gpu-domain/worker/policy.h"

#include <algorithm>

#include "flatbuf/vkgen/semantics.h"

namespace sluice::worker {
namespace {

constexpr VkMemoryPropertyFlags kShareable = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kHostBits = kShareable | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

// True if the chain holds a structure of this type.
bool Chained(const void* next, VkStructureType type) {
  for (const auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType == type) return true;
  }
  return false;
}

}  // namespace

WorkerPolicy::WorkerPolicy(const WorkerPolicyOptions& options, const VulkanDriver* driver, FenceTracker* fences,
                           PolicyHost* host, QueueListener* listener)
    : options_(options), driver_(driver), fences_(fences), host_(host), listener_(listener) {}

WorkerPolicy::~WorkerPolicy() = default;

VkResult WorkerPolicy::vkCreateInstance(exec::Call&, const VkInstanceCreateInfo* info, const VkAllocationCallbacks*,
                                        VkInstance* instance) {
  if (info->enabledLayerCount > 0) return VK_ERROR_LAYER_NOT_PRESENT;
  // Contexts share the worker's instance: it has no state besides the list of devices. The executor let only names of
  // extensions pass that are part of its version.
  *instance = driver_->instance();
  return VK_SUCCESS;
}

void WorkerPolicy::vkDestroyInstance(exec::Call&, VkInstance, const VkAllocationCallbacks*) {}

VkResult WorkerPolicy::vkEnumeratePhysicalDevices(exec::Call&, VkInstance, uint32_t* count, VkPhysicalDevice* devices) {
  const auto available = static_cast<uint32_t>(driver_->devices().size());
  if (devices == nullptr) {
    *count = available;
    return VK_SUCCESS;
  }
  const uint32_t given = std::min(*count, available);
  for (uint32_t i = 0; i < given; ++i) devices[i] = driver_->devices()[i].handle;
  *count = given;
  return given < available ? VK_INCOMPLETE : VK_SUCCESS;
}

void WorkerPolicy::vkGetPhysicalDeviceProperties(exec::Call& call, VkPhysicalDevice device,
                                                 VkPhysicalDeviceProperties* properties) {
  DriverPolicy::vkGetPhysicalDeviceProperties(call, device, properties);
  properties->apiVersion = std::min(properties->apiVersion, VulkanDriver::kApiVersion);
  // No sparse resources on the wire.
  properties->limits.sparseAddressSpaceSize = 0;
  properties->sparseProperties = {};
}

void WorkerPolicy::vkGetPhysicalDeviceMemoryProperties(exec::Call& call, VkPhysicalDevice device,
                                                       VkPhysicalDeviceMemoryProperties* properties) {
  DriverPolicy::vkGetPhysicalDeviceMemoryProperties(call, device, properties);
  const DriverDevice* physical = driver_->Find(device);
  const uint32_t import_types = physical != nullptr ? physical->import_types : 0;
  for (uint32_t i = 0; i < std::min<uint32_t>(properties->memoryTypeCount, VK_MAX_MEMORY_TYPES); ++i) {
    VkMemoryPropertyFlags& flags = properties->memoryTypes[i].propertyFlags;
    // A guest maps what it shares with the worker: memory that can be imported (or, with drivers that import none, be
    // kept equal by copies) and needs no flushes. The rest is for the GPU.
    const bool shareable =
        (flags & kShareable) == kShareable && (import_types == 0 || (import_types & (uint32_t{1} << i)) != 0);
    if (!shareable) flags &= ~kHostBits;
  }
  for (uint32_t i = 0; i < std::min<uint32_t>(properties->memoryHeapCount, VK_MAX_MEMORY_HEAPS); ++i) {
    properties->memoryHeaps[i].size = std::min<VkDeviceSize>(properties->memoryHeaps[i].size, options_.memory_bytes);
  }
}

VkResult WorkerPolicy::vkCreateDevice(exec::Call& call, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkDevice* device) {
  const DriverDevice* known = driver_->Find(physical);
  if (known == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  // Those that the guest asks for (the executor let only names pass that cross) and those that the worker needs.
  std::vector<const char*> extensions = known->extra_extensions;
  for (uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
    extensions.push_back(info->ppEnabledExtensionNames[i]);
  }
  VkDeviceCreateInfo copy = *info;
  copy.enabledLayerCount = 0;
  copy.ppEnabledLayerNames = nullptr;
  copy.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  copy.ppEnabledExtensionNames = extensions.data();
  // Shaders of a guest that read or write outside their buffers must not reach the worker's memory.
  VkPhysicalDeviceFeatures features{};
  if (const auto* chained =
          vk::FindInChain<VkPhysicalDeviceFeatures2>(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)) {
    // The chain is the executor's, in memory of this command.
    const_cast<VkPhysicalDeviceFeatures2*>(chained)->features.robustBufferAccess = known->features.robustBufferAccess;
  } else {
    if (info->pEnabledFeatures != nullptr) features = *info->pEnabledFeatures;
    features.robustBufferAccess = known->features.robustBufferAccess;
    copy.pEnabledFeatures = &features;
  }
  const VkResult result = DriverPolicy::vkCreateDevice(call, physical, &copy, allocator, device);
  if (result != VK_SUCCESS) return result;
  Device state;
  state.physical = known;
  if (!DeviceFunctions::Load(driver_->get_device_proc_addr(), *device, &state.vk)) {
    DriverPolicy::vkDestroyDevice(call, *device, allocator);
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  for (uint32_t i = 0; i < info->queueCreateInfoCount; ++i) {
    state.queue_counts[info->pQueueCreateInfos[i].queueFamilyIndex] = info->pQueueCreateInfos[i].queueCount;
  }
  devices_[*device] = std::move(state);
  return VK_SUCCESS;
}

WorkerPolicy::Device* WorkerPolicy::FindDevice(VkDevice device) {
  const auto it = devices_.find(device);
  return it != devices_.end() ? &it->second : nullptr;
}

void WorkerPolicy::vkDestroyDevice(exec::Call& call, VkDevice device, const VkAllocationCallbacks* allocator) {
  if (Device* state = FindDevice(device); state != nullptr) {
    for (const VkQueue queue : state->queues) {
      const std::shared_ptr<QueueTracker> tracker = queues_[queue];
      if (!tracker->Stop()) host_->OnHung("GPU work does not end");  // see vkDeviceWaitIdle: it came first
      fences_->OnQueueGone(tracker->progress().get());
      queues_.erase(queue);
    }
    devices_.erase(device);
  }
  DriverPolicy::vkDestroyDevice(call, device, allocator);
  if (devices_.empty()) host_->DropAll();
}

VkResult WorkerPolicy::vkCreateBuffer(exec::Call& call, VkDevice device, const VkBufferCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  const Device* state = FindDevice(device);
  VkBufferCreateInfo copy = *info;
  VkExternalMemoryBufferCreateInfo external{};
  if (state != nullptr && state->physical->import_types != 0 &&
      !Chained(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO)) {
    external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
    external.pNext = info->pNext;
    external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    copy.pNext = &external;
  }
  return DriverPolicy::vkCreateBuffer(call, device, &copy, allocator, buffer);
}

VkResult WorkerPolicy::vkCreateImage(exec::Call& call, VkDevice device, const VkImageCreateInfo* info,
                                     const VkAllocationCallbacks* allocator, VkImage* image) {
  const Device* state = FindDevice(device);
  VkImageCreateInfo copy = *info;
  VkExternalMemoryImageCreateInfo external{};
  // An image whose contents count from the beginning may not say that it wants imported memory (Vulkan 1.3,
  // VUID-VkImageCreateInfo-pNext-01443).
  if (state != nullptr && state->physical->import_types != 0 && info->initialLayout == VK_IMAGE_LAYOUT_UNDEFINED &&
      (info->tiling == VK_IMAGE_TILING_LINEAR || state->physical->imports_images) &&
      !Chained(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO)) {
    external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO;
    external.pNext = info->pNext;
    external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    copy.pNext = &external;
  }
  return DriverPolicy::vkCreateImage(call, device, &copy, allocator, image);
}

}  // namespace sluice::worker
