// File: state.h
//
// What the driver keeps for instances and devices beside the runtime's state (flatbuf/guest/handle.h): the version and
// the extensions that the program asked for.
#ifndef SLUICE_ICD_LOADER_STATE_H_
#define SLUICE_ICD_LOADER_STATE_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <memory>
#include <string>

#include "flatbuf/guest/handle.h"
#include "icd/loader/command_table.h"
#include "icd/loader/debug.h"
#include "icd/loader/private_data.h"
#include "icd/transport/platform.h"
#include "icd/wsi/wsi.h"

namespace sluice::icd {

struct InstanceState final : LostListener {
  void OnContextLost(const std::string& reason) override {
    debug.Report(VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT, "SLUICE-device-lost",
                 ("the GPU Domain ended this instance's context: " + reason).c_str(), VK_OBJECT_TYPE_UNKNOWN, 0,
                 /*chain=*/false);
  }

  uint8_t minor = 0;  // of Vulkan 1, as requested
  ExtensionSet extensions;
  FutexLock lock;  // of what physical devices have
  Messengers debug;
  wsi::InstanceFunctions wsi;
};
struct DeviceState {
  InstanceState* instance = nullptr;
  uint8_t minor = 0;  // the lower one of the instance's and the physical device's
  ExtensionSet extensions;
  PrivateDataSlots private_data;
  std::unique_ptr<wsi::Device> wsi;  // with VK_KHR_swapchain
};

// Null for an instance or device that the driver did not make.
inline InstanceState* StateOf(VkInstance instance) {
  return static_cast<InstanceState*>(guest::State(instance)->above);
}
inline InstanceState* StateOf(VkPhysicalDevice device) {
  return static_cast<InstanceState*>(guest::State(device)->instance->above);
}
inline DeviceState* StateOf(VkDevice device) {
  return static_cast<DeviceState*>(guest::State(device)->above);
}

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_STATE_H_
