// File: procs.h
//
// Which entry point a program gets for a name: the rules of vkGetInstanceProcAddr and vkGetDeviceProcAddr over the
// registry's table, the runtime's entry points (flatbuf/guest) and the driver's own.
#ifndef SLUICE_ICD_LOADER_PROCS_H_
#define SLUICE_ICD_LOADER_PROCS_H_

#include <vulkan/vulkan_core.h>

#include <cstddef>

#include "icd/loader/command_table.h"
#include "icd/loader/state.h"

namespace sluice::icd {

// Entry points that the driver has itself, beside or instead of the runtime's. Sorted by name.
struct OwnFunction {
  const char* name;
  PFN_vkVoidFunction function;
};
extern const OwnFunction kOwnFunctions[];
extern const size_t kOwnFunctionCount;
// Those that count only where the runtime has none.
extern const OwnFunction kFallbackFunctions[];
extern const size_t kFallbackFunctionCount;

// The function behind a command, whatever the rules say. Null: not implemented.
PFN_vkVoidFunction Implementation(const CommandInfo& command);

// By the specification's rules. `instance` null: global commands only.
PFN_vkVoidFunction InstanceProc(const InstanceState* instance, const char* name);
PFN_vkVoidFunction DeviceProc(const DeviceState& device, const char* name);
// vk_icdGetPhysicalDeviceProcAddr: commands whose first parameter is a VkPhysicalDevice.
PFN_vkVoidFunction PhysicalDeviceProc(const InstanceState& instance, const char* name);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_PROCS_H_
