#include "icd/wsi/functions.h"

#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::wsi {

bool LoadInstanceFunctions(VkInstance instance, PFN_vkGetInstanceProcAddr get, InstanceFunctions* functions) {
#define SLUICE_WSI_LOAD(name)                                                  \
  functions->name = vk::FunctionCast<PFN_vk##name>(get(instance, "vk" #name)); \
  if (functions->name == nullptr) return false;
  SLUICE_WSI_INSTANCE_FUNCTIONS(SLUICE_WSI_LOAD)
#undef SLUICE_WSI_LOAD
  return true;
}

bool LoadDeviceFunctions(VkDevice device, PFN_vkGetDeviceProcAddr get, DeviceFunctions* functions) {
#define SLUICE_WSI_LOAD(name)                                                \
  functions->name = vk::FunctionCast<PFN_vk##name>(get(device, "vk" #name)); \
  if (functions->name == nullptr) return false;
  SLUICE_WSI_DEVICE_FUNCTIONS(SLUICE_WSI_LOAD)
#undef SLUICE_WSI_LOAD
  return true;
}

}  // namespace sluice::wsi
