// File: functions.h
//
// The Vulkan functions that the window-system code needs from the driver that it presents for: a table that the caller
// fills. The driver passes its own entry points; tests pass those of any other driver.
//
//   wsi::DeviceFunctions vk;
//   if (!wsi::LoadDeviceFunctions(device, get_device_proc_addr, &vk)) return VK_ERROR_INITIALIZATION_FAILED;
#ifndef SLUICE_ICD_WSI_FUNCTIONS_H_
#define SLUICE_ICD_WSI_FUNCTIONS_H_

#include <vulkan/vulkan_core.h>

namespace sluice::wsi {

// X(name): member `name` of type PFN_vk##name. All are core Vulkan 1.0.
#define SLUICE_WSI_INSTANCE_FUNCTIONS(X) \
  X(GetPhysicalDeviceProperties)         \
  X(GetPhysicalDeviceFormatProperties)   \
  X(GetPhysicalDeviceQueueFamilyProperties)

#define SLUICE_WSI_DEVICE_FUNCTIONS(X) \
  X(AllocateCommandBuffers)            \
  X(AllocateMemory)                    \
  X(BeginCommandBuffer)                \
  X(BindBufferMemory)                  \
  X(BindImageMemory)                   \
  X(CmdCopyImageToBuffer)              \
  X(CmdPipelineBarrier)                \
  X(CreateBuffer)                      \
  X(CreateCommandPool)                 \
  X(CreateFence)                       \
  X(CreateImage)                       \
  X(DestroyBuffer)                     \
  X(DestroyCommandPool)                \
  X(DestroyFence)                      \
  X(DestroyImage)                      \
  X(EndCommandBuffer)                  \
  X(FreeMemory)                        \
  X(GetBufferMemoryRequirements)       \
  X(GetImageMemoryRequirements)        \
  X(InvalidateMappedMemoryRanges)      \
  X(MapMemory)                         \
  X(QueueSubmit)                       \
  X(ResetFences)                       \
  X(WaitForFences)

#define SLUICE_WSI_MEMBER(name) PFN_vk##name name = nullptr;
struct InstanceFunctions {
  SLUICE_WSI_INSTANCE_FUNCTIONS(SLUICE_WSI_MEMBER)
};
struct DeviceFunctions {
  SLUICE_WSI_DEVICE_FUNCTIONS(SLUICE_WSI_MEMBER)
};
#undef SLUICE_WSI_MEMBER

// Fill the whole table by name. False: a function is missing.
bool LoadInstanceFunctions(VkInstance instance, PFN_vkGetInstanceProcAddr get, InstanceFunctions* functions);
bool LoadDeviceFunctions(VkDevice device, PFN_vkGetDeviceProcAddr get, DeviceFunctions* functions);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_FUNCTIONS_H_
