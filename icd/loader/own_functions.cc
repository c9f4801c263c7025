// The driver's own entry points by name.
#include "icd/loader/entry.h"
#include "icd/loader/instance.h"
#include "icd/loader/procs.h"
#include "icd/loader/sparse.h"

namespace sluice::icd {

#define SLUICE_OWN(name) \
  { "vk" #name, AsVoidFunction(name) }

// Sorted by name.
const OwnFunction kOwnFunctions[] = {
    SLUICE_OWN(CreateDevice),
    SLUICE_OWN(CreateInstance),
    SLUICE_OWN(DestroyDevice),
    SLUICE_OWN(DestroyInstance),
    SLUICE_OWN(EnumerateDeviceExtensionProperties),
    SLUICE_OWN(EnumerateInstanceExtensionProperties),
    SLUICE_OWN(GetDeviceImageSparseMemoryRequirements),
    SLUICE_OWN(GetDeviceProcAddr),
    SLUICE_OWN(GetImageSparseMemoryRequirements),
    SLUICE_OWN(GetImageSparseMemoryRequirements2),
    SLUICE_OWN(GetInstanceProcAddr),
    SLUICE_OWN(GetPhysicalDeviceSparseImageFormatProperties),
    SLUICE_OWN(GetPhysicalDeviceSparseImageFormatProperties2),
    SLUICE_OWN(QueueBindSparse),
};
const size_t kOwnFunctionCount = sizeof(kOwnFunctions) / sizeof(kOwnFunctions[0]);

#undef SLUICE_OWN

}  // namespace sluice::icd
