// The driver's own entry points by name.
#include "icd/loader/debug.h"
#include "icd/loader/entry.h"
#include "icd/loader/instance.h"
#include "icd/loader/physical.h"
#include "icd/loader/private_data.h"
#include "icd/loader/procs.h"
#include "icd/loader/queries.h"
#include "icd/loader/sparse.h"
#include "icd/loader/wsi_entry.h"

namespace sluice::icd {

#define SLUICE_OWN(name) \
  { "vk" #name, AsVoidFunction(name) }

// Sorted by name.
const OwnFunction kOwnFunctions[] = {
    SLUICE_OWN(AcquireNextImage2KHR),
    SLUICE_OWN(AcquireNextImageKHR),
    SLUICE_OWN(BindImageMemory2),
    SLUICE_OWN(CreateDebugReportCallbackEXT),
    SLUICE_OWN(CreateDebugUtilsMessengerEXT),
    SLUICE_OWN(CreateDevice),
    SLUICE_OWN(CreateHeadlessSurfaceEXT),
    SLUICE_OWN(CreateImage),
    SLUICE_OWN(CreateInstance),
    SLUICE_OWN(CreatePrivateDataSlot),
    SLUICE_OWN(CreateSwapchainKHR),
    SLUICE_OWN(CreateWaylandSurfaceKHR),
    SLUICE_OWN(CreateXcbSurfaceKHR),
    SLUICE_OWN(CreateXlibSurfaceKHR),
    SLUICE_OWN(DebugReportMessageEXT),
    SLUICE_OWN(DestroyDebugReportCallbackEXT),
    SLUICE_OWN(DestroyDebugUtilsMessengerEXT),
    SLUICE_OWN(DestroyDevice),
    SLUICE_OWN(DestroyFence),
    SLUICE_OWN(DestroyInstance),
    SLUICE_OWN(DestroyPrivateDataSlot),
    SLUICE_OWN(DestroySurfaceKHR),
    SLUICE_OWN(DestroySwapchainKHR),
    SLUICE_OWN(EnumerateDeviceExtensionProperties),
    SLUICE_OWN(EnumerateInstanceExtensionProperties),
    SLUICE_OWN(EnumeratePhysicalDeviceGroups),
    SLUICE_OWN(EnumeratePhysicalDevices),
    SLUICE_OWN(GetDeviceGroupPresentCapabilitiesKHR),
    SLUICE_OWN(GetDeviceGroupSurfacePresentModesKHR),
    SLUICE_OWN(GetDeviceImageSparseMemoryRequirements),
    SLUICE_OWN(GetDeviceProcAddr),
    SLUICE_OWN(GetImageSparseMemoryRequirements),
    SLUICE_OWN(GetImageSparseMemoryRequirements2),
    SLUICE_OWN(GetInstanceProcAddr),
    SLUICE_OWN(GetPhysicalDeviceExternalBufferProperties),
    SLUICE_OWN(GetPhysicalDeviceExternalFenceProperties),
    SLUICE_OWN(GetPhysicalDeviceExternalSemaphoreProperties),
    SLUICE_OWN(GetPhysicalDeviceFeatures),
    SLUICE_OWN(GetPhysicalDeviceFeatures2),
    SLUICE_OWN(GetPhysicalDeviceFormatProperties),
    SLUICE_OWN(GetPhysicalDeviceFormatProperties2),
    SLUICE_OWN(GetPhysicalDeviceImageFormatProperties),
    SLUICE_OWN(GetPhysicalDeviceImageFormatProperties2),
    SLUICE_OWN(GetPhysicalDeviceMemoryProperties),
    SLUICE_OWN(GetPhysicalDeviceMemoryProperties2),
    SLUICE_OWN(GetPhysicalDevicePresentRectanglesKHR),
    SLUICE_OWN(GetPhysicalDeviceProperties),
    SLUICE_OWN(GetPhysicalDeviceProperties2),
    SLUICE_OWN(GetPhysicalDeviceQueueFamilyProperties),
    SLUICE_OWN(GetPhysicalDeviceQueueFamilyProperties2),
    SLUICE_OWN(GetPhysicalDeviceSparseImageFormatProperties),
    SLUICE_OWN(GetPhysicalDeviceSparseImageFormatProperties2),
    SLUICE_OWN(GetPhysicalDeviceSurfaceCapabilities2KHR),
    SLUICE_OWN(GetPhysicalDeviceSurfaceCapabilitiesKHR),
    SLUICE_OWN(GetPhysicalDeviceSurfaceFormats2KHR),
    SLUICE_OWN(GetPhysicalDeviceSurfaceFormatsKHR),
    SLUICE_OWN(GetPhysicalDeviceSurfacePresentModesKHR),
    SLUICE_OWN(GetPhysicalDeviceSurfaceSupportKHR),
    SLUICE_OWN(GetPhysicalDeviceToolProperties),
    SLUICE_OWN(GetPhysicalDeviceWaylandPresentationSupportKHR),
    SLUICE_OWN(GetPhysicalDeviceXcbPresentationSupportKHR),
    SLUICE_OWN(GetPhysicalDeviceXlibPresentationSupportKHR),
    SLUICE_OWN(GetPrivateData),
    SLUICE_OWN(GetSwapchainImagesKHR),
    SLUICE_OWN(QueueBeginDebugUtilsLabelEXT),
    SLUICE_OWN(QueueBindSparse),
    SLUICE_OWN(QueueEndDebugUtilsLabelEXT),
    SLUICE_OWN(QueueInsertDebugUtilsLabelEXT),
    SLUICE_OWN(QueuePresentKHR),
    SLUICE_OWN(SetDebugUtilsObjectNameEXT),
    SLUICE_OWN(SetDebugUtilsObjectTagEXT),
    SLUICE_OWN(SetPrivateData),
    SLUICE_OWN(SubmitDebugUtilsMessageEXT),
};
// Where the runtime does not record labels.
const OwnFunction kFallbackFunctions[] = {
    SLUICE_OWN(CmdBeginDebugUtilsLabelEXT),
    SLUICE_OWN(CmdEndDebugUtilsLabelEXT),
    SLUICE_OWN(CmdInsertDebugUtilsLabelEXT),
};
const size_t kFallbackFunctionCount = sizeof(kFallbackFunctions) / sizeof(kFallbackFunctions[0]);

const size_t kOwnFunctionCount = sizeof(kOwnFunctions) / sizeof(kOwnFunctions[0]);

#undef SLUICE_OWN

}  // namespace sluice::icd
