#include "icd/loader/advertise.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "flatbuf/schema_hash.h"
#include "icd/loader/command_table.h"

namespace sluice::icd {
namespace {

constexpr uint32_t kNewestVersion = VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION);

// Another UUID for every one, the same each time.
void Stamp(uint8_t (&uuid)[VK_UUID_SIZE]) {
  constexpr char kMask[] = "Sluice driver id";
  static_assert(sizeof(kMask) == VK_UUID_SIZE + 1);
  for (size_t i = 0; i < VK_UUID_SIZE; i++) uuid[i] ^= static_cast<uint8_t>(kMask[i]);
}

template <typename T>
void NameDriver(T* properties, char (&name)[VK_MAX_DRIVER_NAME_SIZE], char (&info)[VK_MAX_DRIVER_INFO_SIZE]) {
  char behind[VK_MAX_DRIVER_INFO_SIZE];
  snprintf(behind, sizeof(behind), "%.100s: %.140s", name, info);
  snprintf(name, sizeof(name), "Sluice");
  memcpy(info, behind, sizeof(behind));
  properties->conformanceVersion = {};
}

void CutLimits(VkPhysicalDeviceLimits* limits) {
  limits->maxViewports = std::min(limits->maxViewports, 16u);
  limits->maxBoundDescriptorSets = std::min(limits->maxBoundDescriptorSets, 32u);
  limits->maxVertexInputBindings = std::min(limits->maxVertexInputBindings, 32u);
  limits->maxColorAttachments = std::min(limits->maxColorAttachments, 32u);
  limits->maxPushConstantsSize = std::min(limits->maxPushConstantsSize, 4096u);
  limits->sparseAddressSpaceSize = 0;
}

// Whether all features that `wanted` sets are set in `have`.
bool Covers(const void* have, const void* wanted, size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    VkBool32 a, b;
    memcpy(&a, static_cast<const uint8_t*>(have) + first + i * sizeof(VkBool32), sizeof(a));
    memcpy(&b, static_cast<const uint8_t*>(wanted) + first + i * sizeof(VkBool32), sizeof(b));
    if (b != VK_FALSE && a == VK_FALSE) return false;
  }
  return true;
}

}  // namespace

void CutProperties(Blocks* blocks) {
  VkPhysicalDeviceProperties& p = blocks->root<VkPhysicalDeviceProperties2>()->properties;
  p.apiVersion = std::min(p.apiVersion, kNewestVersion);
  char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
  snprintf(name, sizeof(name), "%.200s", p.deviceName);
  snprintf(p.deviceName, sizeof(p.deviceName), "Sluice (%.200s)", name);
  CutLimits(&p.limits);
  p.sparseProperties = {};
  if (auto* d = blocks->Find<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)) {
    NameDriver(d, d->driverName, d->driverInfo);
  }
  if (auto* v =
          blocks->Find<VkPhysicalDeviceVulkan12Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES)) {
    NameDriver(v, v->driverName, v->driverInfo);
  }
  if (auto* id = blocks->Find<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)) {
    Stamp(id->deviceUUID);
    Stamp(id->driverUUID);
    memset(id->deviceLUID, 0, sizeof(id->deviceLUID));
    id->deviceNodeMask = 0;
    id->deviceLUIDValid = VK_FALSE;
  }
  if (auto* v =
          blocks->Find<VkPhysicalDeviceVulkan11Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES)) {
    Stamp(v->deviceUUID);
    Stamp(v->driverUUID);
    memset(v->deviceLUID, 0, sizeof(v->deviceLUID));
    v->deviceNodeMask = 0;
    v->deviceLUIDValid = VK_FALSE;
    v->protectedNoFault = VK_FALSE;
  }
  if (auto* v = blocks->Find<VkPhysicalDeviceProtectedMemoryProperties>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROTECTED_MEMORY_PROPERTIES)) {
    v->protectedNoFault = VK_FALSE;
  }
}

void CutFeatures(Blocks* blocks) {
  VkPhysicalDeviceFeatures& f = blocks->root<VkPhysicalDeviceFeatures2>()->features;
  f.sparseBinding = f.sparseResidencyBuffer = f.sparseResidencyImage2D = f.sparseResidencyImage3D = VK_FALSE;
  f.sparseResidency2Samples = f.sparseResidency4Samples = f.sparseResidency8Samples = VK_FALSE;
  f.sparseResidency16Samples = f.sparseResidencyAliased = VK_FALSE;
  if (auto* v = blocks->Find<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES)) {
    v->protectedMemory = VK_FALSE;
  }
  if (auto* v = blocks->Find<VkPhysicalDeviceProtectedMemoryFeatures>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROTECTED_MEMORY_FEATURES)) {
    v->protectedMemory = VK_FALSE;
  }
  // Served here.
  if (auto* v =
          blocks->Find<VkPhysicalDevicePrivateDataFeatures>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PRIVATE_DATA_FEATURES)) {
    v->privateData = VK_TRUE;
  }
}

VkResult CheckFeatures(const Blocks& features, const VkDeviceCreateInfo& info) {
  const auto* root =
      static_cast<const VkPhysicalDeviceFeatures2*>(features.Bytes(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2));
  if (info.pEnabledFeatures != nullptr &&
      !Covers(&root->features, info.pEnabledFeatures, 0, sizeof(VkPhysicalDeviceFeatures) / sizeof(VkBool32))) {
    return VK_ERROR_FEATURE_NOT_PRESENT;
  }
  for (const auto* s = static_cast<const VkBaseInStructure*>(info.pNext); s != nullptr; s = s->pNext) {
    const void* have = features.Bytes(s->sType);
    if (have == nullptr) continue;
    const size_t size = features.SizeOf(s->sType) - sizeof(VkBaseInStructure);
    // The last word may be padding.
    const size_t count = std::min(size / sizeof(VkBool32), FeatureCount(static_cast<int32_t>(s->sType)));
    if (!Covers(have, s, sizeof(VkBaseInStructure), count)) return VK_ERROR_FEATURE_NOT_PRESENT;
  }
  return VK_SUCCESS;
}

}  // namespace sluice::icd
