#include "icd/loader/instance.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "flatbuf/guest/entry.h"
#include "icd/loader/advertise.h"
#include "icd/loader/copy_out.h"
#include "icd/loader/entry.h"
#include "icd/loader/extensions.h"
#include "icd/loader/physical.h"
#include "icd/loader/procs.h"
#include "icd/loader/state.h"
#include "icd/loader/wsi_entry.h"
#include "icd/transport/source.h"

namespace sluice::icd {
namespace {

constexpr uint8_t kNewestMinor = 3;

// The extensions named, if `offered` says yes to each of them. False: one is not there.
template <typename F>
bool Enable(const char* const* names, uint32_t count, ExtensionSet* set, F offered) {
  for (uint32_t i = 0; i < count; i++) {
    const int index = FindExtension(names[i]);
    if (index < 0 || !offered(static_cast<size_t>(index))) return false;
    set->set(static_cast<size_t>(index));
  }
  return true;
}

bool Enabled(const ExtensionSet& set, const char* name) {
  const int index = FindExtension(name);
  return index >= 0 && set[static_cast<size_t>(index)];
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL EnumerateInstanceExtensionProperties(const char* layer, uint32_t* count,
                                                                    VkExtensionProperties* properties) {
  if (layer != nullptr) return VK_ERROR_LAYER_NOT_PRESENT;
  return CopyOut(InstanceExtensions(), count, properties);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                              VkInstance* instance) {
  if (info->enabledLayerCount != 0) return VK_ERROR_LAYER_NOT_PRESENT;
  auto state = std::make_unique<InstanceState>();
  const uint32_t version = info->pApplicationInfo != nullptr ? info->pApplicationInfo->apiVersion : 0;
  state->minor = static_cast<uint8_t>(std::min<uint32_t>(VK_API_VERSION_MINOR(version), kNewestMinor));
  // A loader of interface 4 or older knows Vulkan 1.0 only.
  if (NegotiatedInterface() < 5 && version >= VK_API_VERSION_1_1) return VK_ERROR_INCOMPATIBLE_DRIVER;
  if (!Enable(info->ppEnabledExtensionNames, info->enabledExtensionCount, &state->extensions,
              OffersInstanceExtension)) {
    return VK_ERROR_EXTENSION_NOT_PRESENT;
  }
  state->debug.TakeFromChain(info->pNext);
  // All of them are served here.
  VkInstanceCreateInfo wire = *info;
  wire.pNext = nullptr;
  wire.enabledExtensionCount = 0;
  wire.ppEnabledExtensionNames = nullptr;
  const VkResult result = ::vkCreateInstance(&wire, allocator, instance);
  if (result != VK_SUCCESS) {
    state->debug.Report(VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT, "SLUICE-no-domain",
                        "no GPU Domain behind SLUICE_SOCKET serves this program; SLUICE_LOG=1 shows why",
                        VK_OBJECT_TYPE_INSTANCE, 0, /*chain=*/true);
    return result;
  }
  InstanceState* raw = state.release();
  guest::State(*instance)->above = raw;
  PlatformOf(guest::ChannelOf(*instance)).SetLostListener(raw);
  wsi::LoadInstanceFunctions(*instance, GetInstanceProcAddr, &raw->wsi);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (instance == VK_NULL_HANDLE) return;
  const std::unique_ptr<InstanceState> state(StateOf(instance));
  PlatformOf(guest::ChannelOf(instance)).SetLostListener(nullptr);
  DetachPhysical(instance);
  ::vkDestroyInstance(instance, allocator);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name) {
  if (name == nullptr) return nullptr;
  return InstanceProc(instance == VK_NULL_HANDLE ? nullptr : StateOf(instance), name);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* device) {
  auto state = std::make_unique<DeviceState>();
  state->instance = StateOf(physical);
  const PhysicalState::Facts& facts = PhysicalOf(physical).facts();
  VkPhysicalDeviceProperties properties;
  GetPhysicalDeviceProperties(physical, &properties);
  state->minor = std::min(state->instance->minor, static_cast<uint8_t>(VK_API_VERSION_MINOR(properties.apiVersion)));
  const auto offered = [&](size_t extension) {
    return std::any_of(facts.extensions.begin(), facts.extensions.end(), [&](const VkExtensionProperties& e) {
      return strcmp(e.extensionName, kExtensions[extension].name) == 0;
    });
  };
  if (!Enable(info->ppEnabledExtensionNames, info->enabledExtensionCount, &state->extensions, offered)) {
    return VK_ERROR_EXTENSION_NOT_PRESENT;
  }
  if (const VkResult checked = CheckFeatures(facts.features, *info); checked != VK_SUCCESS) return checked;
  std::vector<const char*> crossing;
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
    const char* name = info->ppEnabledExtensionNames[i];
    if (!IsOwnDeviceExtension(static_cast<size_t>(FindExtension(name)))) crossing.push_back(name);
  }
  VkDeviceCreateInfo wire = *info;
  wire.enabledExtensionCount = static_cast<uint32_t>(crossing.size());
  wire.ppEnabledExtensionNames = crossing.data();
  const VkResult result = ::vkCreateDevice(physical, &wire, allocator, device);
  if (result != VK_SUCCESS) return result;
  DeviceState* raw = state.release();
  guest::State(*device)->above = raw;
  if (Enabled(raw->extensions, VK_KHR_SWAPCHAIN_EXTENSION_NAME) && !AttachWsi(*device, *info, raw)) {
    DestroyDevice(*device, allocator);
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (device == VK_NULL_HANDLE) return;
  const std::unique_ptr<DeviceState> state(StateOf(device));
  state->wsi.reset();
  ::vkDestroyDevice(device, allocator);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name) {
  if (name == nullptr) return nullptr;
  return DeviceProc(*StateOf(device), name);
}

}  // namespace sluice::icd
