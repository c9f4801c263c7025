// Instances, physical devices and devices: property caches and the objects behind dispatchable handles.
#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/feedback.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/vk/extensions.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

// Enumeration proposes this many ids; more devices than that are not seen.
constexpr size_t kMaxPhysicalDevices = 16;

// What the entry points cover.
constexpr uint32_t kApiVersion = VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION);

VkResult CopyOut(const void* from, uint32_t have, size_t element, uint32_t* count, void* to) {
  if (to == nullptr) {
    *count = have;
    return VK_SUCCESS;
  }
  const uint32_t copied = *count < have ? *count : have;
  if (copied != 0) memcpy(to, from, copied * element);
  *count = copied;
  return copied < have ? VK_INCOMPLETE : VK_SUCCESS;
}

bool LoadPhysicalDevices(GuestChannel& channel, VkInstance instance) {
  GuestInstance* state = State(instance);
  if (state->enumerated) return true;
  uint64_t ids[kMaxPhysicalDevices];
  for (uint64_t& id : ids) id = channel.ids().New();
  const auto* reply = Call_vkEnumeratePhysicalDevices(channel, instance, ids, kMaxPhysicalDevices);
  if (reply == nullptr) return false;
  for (size_t i = 0; i < kMaxPhysicalDevices; i++) {
    if (reply->made() != nullptr && i < reply->made()->size() &&
        reply->made()->Get(static_cast<uint32_t>(i)) == ids[i]) {
      auto* physical = new GuestPhysicalDevice;
      physical->id = ids[i];
      physical->channel = &channel;
      physical->instance = state;
      state->physical_devices.Push(physical);
    } else {
      channel.ids().Free(ids[i]);
    }
  }
  state->enumerated = true;
  return true;
}

VkResult CreateInstance(GuestChannel& channel, const VkInstanceCreateInfo* info, uint64_t* id) {
  ChannelLock lock(channel);
  *id = channel.ids().New();
  if (*id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkCreateInstance(channel, info, *id);
  const VkResult result = reply == nullptr ? VK_ERROR_INITIALIZATION_FAILED : static_cast<VkResult>(reply->result());
  if (result < 0) channel.ids().Free(*id);
  return result;
}

// Tells the worker and frees what the guest holds for the instance; its channel stays open.
void DestroyInstance(GuestChannel& channel, VkInstance instance) {
  ChannelLock lock(channel);
  Send_vkDestroyInstance(channel, instance);
  GuestInstance* state = State(instance);
  for (size_t i = 0; i < state->physical_devices.size(); i++) {
    channel.ids().Free(state->physical_devices[i]->id);
    delete state->physical_devices[i];
  }
  channel.ids().Free(state->id);
  delete state;
}

}  // namespace

namespace sluice::guest {

bool LoadProperties(GuestChannel& channel, VkPhysicalDevice device) {
  GuestPhysicalDevice* state = State(device);
  if (state->have_properties) return true;
  const auto* reply = Call_vkGetPhysicalDeviceProperties(channel, device);
  if (reply == nullptr || reply->properties() == nullptr) return false;
  state->properties = vk::CopyAs<VkPhysicalDeviceProperties>(reply->properties());
  if (state->properties.apiVersion > kApiVersion) state->properties.apiVersion = kApiVersion;
  state->have_properties = true;
  return true;
}

bool LoadMemoryProperties(GuestChannel& channel, VkPhysicalDevice device) {
  GuestPhysicalDevice* state = State(device);
  if (state->have_memory) return true;
  const auto* reply = Call_vkGetPhysicalDeviceMemoryProperties(channel, device);
  if (reply == nullptr || reply->memory_properties() == nullptr) return false;
  state->memory = vk::CopyAs<VkPhysicalDeviceMemoryProperties>(reply->memory_properties());
  state->have_memory = true;
  return true;
}

}  // namespace sluice::guest

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceVersion(uint32_t* pApiVersion) {
  *pApiVersion = kApiVersion;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceExtensionProperties(const char* pLayerName, uint32_t* pPropertyCount,
                                                                      VkExtensionProperties* pProperties) {
  if (pLayerName != nullptr) return VK_ERROR_LAYER_NOT_PRESENT;
  *pPropertyCount = 0;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceLayerProperties(uint32_t* pPropertyCount, VkLayerProperties*) {
  *pPropertyCount = 0;
  return VK_SUCCESS;
}

// Those of the driver behind that cross the wire. Asked for each time: a driver around this runtime keeps the answer.
VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateDeviceExtensionProperties(VkPhysicalDevice physicalDevice,
                                                                    const char* pLayerName, uint32_t* pPropertyCount,
                                                                    VkExtensionProperties* pProperties) {
  if (pLayerName != nullptr) return VK_ERROR_LAYER_NOT_PRESENT;
  ChannelLock lock(physicalDevice);
  const auto* reply = Call_vkEnumerateDeviceExtensionProperties(lock.channel(), physicalDevice);
  if (reply == nullptr || reply->result() < 0 || reply->properties() == nullptr) {
    *pPropertyCount = 0;
    return reply == nullptr ? VK_ERROR_INITIALIZATION_FAILED : static_cast<VkResult>(reply->result());
  }
  return CopyOut(reply->properties()->Data(), reply->properties()->size(), sizeof(VkExtensionProperties),
                 pPropertyCount, pProperties);
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateDeviceLayerProperties(VkPhysicalDevice, uint32_t* pPropertyCount,
                                                                VkLayerProperties*) {
  *pPropertyCount = 0;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateInstance(const VkInstanceCreateInfo* pCreateInfo, const VkAllocationCallbacks*,
                                                VkInstance* pInstance) {
  if (pCreateInfo->enabledLayerCount != 0) return VK_ERROR_LAYER_NOT_PRESENT;
  for (uint32_t i = 0; i < pCreateInfo->enabledExtensionCount; i++) {
    const sluice::vk::Extension* extension = sluice::vk::FindExtension(pCreateInfo->ppEnabledExtensionNames[i]);
    if (extension == nullptr || extension->guest || !extension->instance) return VK_ERROR_EXTENSION_NOT_PRESENT;
  }
  ChannelSource* source = CurrentChannelSource();
  GuestChannel* channel = source == nullptr ? nullptr : source->Open();
  if (channel == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  uint64_t id = 0;
  const VkResult result = CreateInstance(*channel, pCreateInfo, &id);
  if (result < 0) {
    source->Close(channel);
    return result;
  }
  auto* state = new GuestInstance;
  state->id = id;
  state->channel = channel;
  *pInstance = FromState<VkInstance>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks*) {
  if (instance == VK_NULL_HANDLE) return;
  GuestChannel& channel = ChannelOf(instance);
  DestroyInstance(channel, instance);
  CurrentChannelSource()->Close(&channel);
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumeratePhysicalDevices(VkInstance instance, uint32_t* pPhysicalDeviceCount,
                                                          VkPhysicalDevice* pPhysicalDevices) {
  ChannelLock lock(instance);
  if (!LoadPhysicalDevices(lock.channel(), instance)) return VK_ERROR_INITIALIZATION_FAILED;
  const Buffer<GuestPhysicalDevice*>& devices = State(instance)->physical_devices;
  return CopyOut(devices.data(), static_cast<uint32_t>(devices.size()), sizeof(VkPhysicalDevice), pPhysicalDeviceCount,
                 pPhysicalDevices);
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties(VkPhysicalDevice physicalDevice,
                                                         VkPhysicalDeviceProperties* pProperties) {
  ChannelLock lock(physicalDevice);
  *pProperties = {};
  if (LoadProperties(lock.channel(), physicalDevice)) *pProperties = State(physicalDevice)->properties;
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceFeatures(VkPhysicalDevice physicalDevice,
                                                       VkPhysicalDeviceFeatures* pFeatures) {
  ChannelLock lock(physicalDevice);
  GuestPhysicalDevice* state = State(physicalDevice);
  if (!state->have_features) {
    const auto* reply = Call_vkGetPhysicalDeviceFeatures(lock.channel(), physicalDevice);
    if (reply == nullptr || reply->features() == nullptr) {
      *pFeatures = {};
      return;
    }
    state->features = sluice::vk::CopyAs<VkPhysicalDeviceFeatures>(reply->features());
    // Sparse memory is not on the wire.
    state->features.sparseBinding = VK_FALSE;
    state->features.sparseResidencyBuffer = state->features.sparseResidencyImage2D = VK_FALSE;
    state->features.sparseResidencyImage3D = state->features.sparseResidencyAliased = VK_FALSE;
    state->features.sparseResidency2Samples = state->features.sparseResidency4Samples = VK_FALSE;
    state->features.sparseResidency8Samples = state->features.sparseResidency16Samples = VK_FALSE;
    state->have_features = true;
  }
  *pFeatures = state->features;
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physicalDevice,
                                                               VkPhysicalDeviceMemoryProperties* pMemoryProperties) {
  ChannelLock lock(physicalDevice);
  if (LoadMemoryProperties(lock.channel(), physicalDevice)) {
    *pMemoryProperties = State(physicalDevice)->memory;
  } else {
    *pMemoryProperties = {};
  }
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice physicalDevice,
                                                                    uint32_t* pQueueFamilyPropertyCount,
                                                                    VkQueueFamilyProperties* pQueueFamilyProperties) {
  ChannelLock lock(physicalDevice);
  GuestPhysicalDevice* state = State(physicalDevice);
  if (!state->have_queues) {
    const auto* reply = Call_vkGetPhysicalDeviceQueueFamilyProperties(lock.channel(), physicalDevice);
    if (reply == nullptr || reply->queue_family_properties() == nullptr) {
      *pQueueFamilyPropertyCount = 0;
      return;
    }
    for (const auto* family : *reply->queue_family_properties()) {
      VkQueueFamilyProperties properties = sluice::vk::CopyAs<VkQueueFamilyProperties>(family);
      properties.queueFlags &= ~static_cast<VkQueueFlags>(VK_QUEUE_SPARSE_BINDING_BIT);
      state->queues.Push(properties);
    }
    state->have_queues = true;
  }
  CopyOut(state->queues.data(), static_cast<uint32_t>(state->queues.size()), sizeof(VkQueueFamilyProperties),
          pQueueFamilyPropertyCount, pQueueFamilyProperties);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDevice(VkPhysicalDevice physicalDevice, const VkDeviceCreateInfo* pCreateInfo,
                                              const VkAllocationCallbacks*, VkDevice* pDevice) {
  for (uint32_t i = 0; i < pCreateInfo->enabledExtensionCount; i++) {
    const sluice::vk::Extension* extension = sluice::vk::FindExtension(pCreateInfo->ppEnabledExtensionNames[i]);
    if (extension == nullptr || extension->guest || extension->instance) return VK_ERROR_EXTENSION_NOT_PRESENT;
  }
  VkDeviceCreateInfo info = *pCreateInfo;
  info.enabledLayerCount = 0;  // device layers are deprecated and ignored
  ChannelLock lock(physicalDevice);
  GuestChannel& channel = lock.channel();
  const uint64_t id = channel.ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const auto* reply = Call_vkCreateDevice(channel, physicalDevice, &info, id);
  const VkResult result = reply == nullptr ? VK_ERROR_DEVICE_LOST : static_cast<VkResult>(reply->result());
  if (result < 0) {
    channel.ids().Free(id);
    return result;
  }
  auto* state = new GuestDevice;
  state->id = id;
  state->channel = &channel;
  state->physical = State(physicalDevice);
  *pDevice = FromState<VkDevice>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDevice(VkDevice device, const VkAllocationCallbacks*) {
  if (device == VK_NULL_HANDLE) return;
  FreeFeedback(device);
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Send_vkDestroyDevice(channel, device);
  GuestDevice* state = State(device);
  for (size_t i = 0; i < state->queues.size(); i++) DeleteQueue(channel, state->queues[i]);
  channel.ids().Free(state->id);
  delete state;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance, const char* pName) {
  for (size_t low = 0, high = kFunctionCount; low < high;) {
    const size_t middle = low + (high - low) / 2;
    const char *a = kFunctions[middle].name, *b = pName;
    while (*a != 0 && *a == *b) a++, b++;
    if (*a == *b) return kFunctions[middle].function;
    if (static_cast<unsigned char>(*a) < static_cast<unsigned char>(*b)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice, const char* pName) {
  return vkGetInstanceProcAddr(VK_NULL_HANDLE, pName);
}

}  // extern "C"
