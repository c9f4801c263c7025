// What the Vulkan loader sees of this library: three functions, and what vkGet*ProcAddr hands out.
#include "icd/loader/entry.h"

#include <vulkan/vk_icd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "icd/loader/procs.h"
#include "icd/transport/log.h"
#include "icd/transport/source.h"

namespace sluice::icd {
namespace {

constexpr uint32_t kNewestInterface = 7;
// Before that, the loader finds the functions by other means than vk_icdGetInstanceProcAddr.
constexpr uint32_t kOldestInterface = 2;
std::atomic<uint32_t> negotiated{kNewestInterface};

__attribute__((constructor)) void Load() {
  guest::SetChannelSource(&ProcessChannels());
}

}  // namespace

uint32_t NegotiatedInterface() {
  return negotiated.load(std::memory_order_relaxed);
}

}  // namespace sluice::icd

extern "C" {

SLUICE_ICD_EXPORT VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t* pVersion) {
  if (*pVersion < sluice::icd::kOldestInterface) return VK_ERROR_INCOMPATIBLE_DRIVER;
  *pVersion = std::min(*pVersion, sluice::icd::kNewestInterface);
  sluice::icd::negotiated.store(*pVersion, std::memory_order_relaxed);
  return VK_SUCCESS;
}

SLUICE_ICD_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance,
                                                                                     const char* pName) {
  if (pName == nullptr) return nullptr;
  if (strcmp(pName, "vk_icdNegotiateLoaderICDInterfaceVersion") == 0) {
    return sluice::icd::AsVoidFunction(vk_icdNegotiateLoaderICDInterfaceVersion);
  }
  if (strcmp(pName, "vk_icdGetPhysicalDeviceProcAddr") == 0) {
    return sluice::icd::AsVoidFunction(vk_icdGetPhysicalDeviceProcAddr);
  }
  return sluice::icd::InstanceProc(instance == VK_NULL_HANDLE ? nullptr : sluice::icd::StateOf(instance), pName);
}

SLUICE_ICD_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetPhysicalDeviceProcAddr(VkInstance instance,
                                                                                           const char* pName) {
  if (instance == VK_NULL_HANDLE || pName == nullptr) return nullptr;
  return sluice::icd::PhysicalDeviceProc(*sluice::icd::StateOf(instance), pName);
}

}  // extern "C"
