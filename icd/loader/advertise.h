// File: advertise.h
//
// What programs are told of a physical device: the driver behind's word, cut to what Sluice carries, and named so that
// people can see what they have.
#ifndef SLUICE_ICD_LOADER_ADVERTISE_H_
#define SLUICE_ICD_LOADER_ADVERTISE_H_

#include <vulkan/vulkan_core.h>

#include "icd/loader/blocks.h"

namespace sluice::icd {

// Both change the blocks in place.
//  * apiVersion: at most what the entry points cover.
//  * deviceName: "Sluice (NAME)" with the name of the device behind. driverName "Sluice", driverInfo: driver and
//  version
//    behind. driverID stays: programs that work around a driver's faults meet the same faults here.
//  * deviceUUID and driverUUID differ from the host's, since nothing can be shared with it; no LUID, no node mask.
//  * conformanceVersion 0: nobody has certified this driver.
//  * Limits beyond what the worker accepts are lowered; nothing sparse, nothing protected.
void CutProperties(Blocks* properties);
void CutFeatures(Blocks* features);

// VK_ERROR_FEATURE_NOT_PRESENT if the chain of a VkDeviceCreateInfo, or its pEnabledFeatures, asks for a feature that
// `features` does not have.
VkResult CheckFeatures(const Blocks& features, const VkDeviceCreateInfo& info);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_ADVERTISE_H_
