#include "icd/loader/extensions.h"

#include <cstring>
#include <iterator>

#include "flatbuf/vk/extensions.h"
#include "icd/wsi/wsi.h"

namespace sluice::icd {
namespace {

// Served here. Their structures and commands are in icd/.
constexpr const char* kInstanceNames[] = {
    VK_EXT_DEBUG_REPORT_EXTENSION_NAME,
    VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
    VK_KHR_DEVICE_GROUP_CREATION_EXTENSION_NAME,
    VK_KHR_EXTERNAL_FENCE_CAPABILITIES_EXTENSION_NAME,
    VK_KHR_EXTERNAL_MEMORY_CAPABILITIES_EXTENSION_NAME,
    VK_KHR_EXTERNAL_SEMAPHORE_CAPABILITIES_EXTENSION_NAME,
    VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME,
};
constexpr const char* kOwnDeviceNames[] = {
    VK_EXT_MEMORY_BUDGET_EXTENSION_NAME,
    VK_EXT_PRIVATE_DATA_EXTENSION_NAME,
    VK_EXT_TOOLING_INFO_EXTENSION_NAME,
};

struct Lists {
  std::vector<VkExtensionProperties> instance, own_device;
  ExtensionSet instance_set, own_device_set;
};

void Add(const char* name, std::vector<VkExtensionProperties>* list, ExtensionSet* set) {
  const int index = FindExtension(name);
  if (index < 0) return;
  VkExtensionProperties properties{};
  strncpy(properties.extensionName, name, sizeof(properties.extensionName) - 1);
  properties.specVersion = kExtensions[index].spec_version;
  list->push_back(properties);
  set->set(static_cast<size_t>(index));
}

const Lists& All() {
  static const Lists lists = [] {
    Lists l;
    for (const char* name : kInstanceNames) Add(name, &l.instance, &l.instance_set);
    for (const VkExtensionProperties& e : wsi::InstanceExtensions()) Add(e.extensionName, &l.instance, &l.instance_set);
    for (const VkExtensionProperties& e : wsi::DeviceExtensions())
      Add(e.extensionName, &l.own_device, &l.own_device_set);
    for (const char* name : kOwnDeviceNames) Add(name, &l.own_device, &l.own_device_set);
    return l;
  }();
  return lists;
}

}  // namespace

const std::vector<VkExtensionProperties>& InstanceExtensions() {
  return All().instance;
}
bool OffersInstanceExtension(size_t extension) {
  return All().instance_set[extension];
}
const std::vector<VkExtensionProperties>& OwnDeviceExtensions() {
  return All().own_device;
}
bool IsOwnDeviceExtension(size_t extension) {
  return All().own_device_set[extension];
}
bool OffersDeviceExtension(size_t extension) {
  const vk::Extension* known = vk::FindExtension(kExtensions[extension].name);
  return IsOwnDeviceExtension(extension) || (known != nullptr && !known->instance && !known->guest);
}

}  // namespace sluice::icd
