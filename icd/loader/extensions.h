// File: extensions.h
//
// Which extensions the driver offers, and who serves them.
#ifndef SLUICE_ICD_LOADER_EXTENSIONS_H_
#define SLUICE_ICD_LOADER_EXTENSIONS_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <vector>

#include "icd/loader/command_table.h"

namespace sluice::icd {

// Instance extensions: all served by the driver itself; nothing of them crosses the wire.
const std::vector<VkExtensionProperties>& InstanceExtensions();
bool OffersInstanceExtension(size_t extension);

// Device extensions that the driver serves itself, whatever the GPU behind can do.
const std::vector<VkExtensionProperties>& OwnDeviceExtensions();
bool IsOwnDeviceExtension(size_t extension);
// Whether some GPU may offer it: own ones, and those that can cross the wire.
bool OffersDeviceExtension(size_t extension);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_EXTENSIONS_H_
