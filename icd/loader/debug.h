// File: debug.h
//
// VK_EXT_debug_utils and VK_EXT_debug_report, served in the driver: the program's messengers, what the driver has to
// tell them (a lost device, with the reason), names and labels. Nothing of it crosses the wire, except labels in
// command buffers where the runtime records them.
//
//   state->debug.Report(VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT, "SLUICE-device-lost", text);
#ifndef SLUICE_ICD_LOADER_DEBUG_H_
#define SLUICE_ICD_LOADER_DEBUG_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "icd/transport/futex.h"

namespace sluice::icd {

// The messengers and report callbacks of an instance. Any thread.
class Messengers {
 public:
  struct Messenger {
    // Of debug utils; `callback` null: of debug report.
    VkDebugUtilsMessageSeverityFlagsEXT severities = 0;
    VkDebugUtilsMessageTypeFlagsEXT types = 0;
    PFN_vkDebugUtilsMessengerCallbackEXT callback = nullptr;
    VkDebugReportFlagsEXT report_flags = 0;
    PFN_vkDebugReportCallbackEXT report = nullptr;
    void* user = nullptr;
  };

  // The messengers in a VkInstanceCreateInfo's chain: they hear of the instance's creation and destruction only.
  void TakeFromChain(const void* next);
  Messenger* Add(const Messenger& messenger);
  void Remove(Messenger* messenger);
  // Tells all that want to hear it. `object`: a dispatchable handle, or 0. `chain`: also those of TakeFromChain.
  // Called without any lock of the driver, since callbacks may call Vulkan.
  void Report(VkDebugUtilsMessageSeverityFlagBitsEXT severity, const char* id, const char* text,
              VkObjectType object_type, uint64_t object, bool chain);

 private:
  FutexLock lock_;
  std::vector<std::unique_ptr<Messenger>> messengers_;
  std::vector<Messenger> chained_;
};

VKAPI_ATTR VkResult VKAPI_CALL CreateDebugUtilsMessengerEXT(VkInstance instance,
                                                            const VkDebugUtilsMessengerCreateInfoEXT* info,
                                                            const VkAllocationCallbacks*,
                                                            VkDebugUtilsMessengerEXT* messenger);
VKAPI_ATTR void VKAPI_CALL DestroyDebugUtilsMessengerEXT(VkInstance instance, VkDebugUtilsMessengerEXT messenger,
                                                         const VkAllocationCallbacks*);
// The loader calls the program's messengers itself after the driver has seen the message; a driver that did so too
// would show it twice.
VKAPI_ATTR void VKAPI_CALL SubmitDebugUtilsMessageEXT(VkInstance, VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                      VkDebugUtilsMessageTypeFlagsEXT,
                                                      const VkDebugUtilsMessengerCallbackDataEXT*);
VKAPI_ATTR VkResult VKAPI_CALL CreateDebugReportCallbackEXT(VkInstance instance,
                                                            const VkDebugReportCallbackCreateInfoEXT* info,
                                                            const VkAllocationCallbacks*,
                                                            VkDebugReportCallbackEXT* callback);
VKAPI_ATTR void VKAPI_CALL DestroyDebugReportCallbackEXT(VkInstance instance, VkDebugReportCallbackEXT callback,
                                                         const VkAllocationCallbacks*);
// As SubmitDebugUtilsMessageEXT.
VKAPI_ATTR void VKAPI_CALL DebugReportMessageEXT(VkInstance, VkDebugReportFlagsEXT, VkDebugReportObjectTypeEXT,
                                                 uint64_t object, size_t location, int32_t code, const char* layer,
                                                 const char* text);

// Accepted; layers above keep what they need of it.
VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectNameEXT(VkDevice, const VkDebugUtilsObjectNameInfoEXT*);
VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectTagEXT(VkDevice, const VkDebugUtilsObjectTagInfoEXT*);
VKAPI_ATTR void VKAPI_CALL QueueBeginDebugUtilsLabelEXT(VkQueue, const VkDebugUtilsLabelEXT*);
VKAPI_ATTR void VKAPI_CALL QueueEndDebugUtilsLabelEXT(VkQueue);
VKAPI_ATTR void VKAPI_CALL QueueInsertDebugUtilsLabelEXT(VkQueue, const VkDebugUtilsLabelEXT*);
VKAPI_ATTR void VKAPI_CALL CmdBeginDebugUtilsLabelEXT(VkCommandBuffer, const VkDebugUtilsLabelEXT*);
VKAPI_ATTR void VKAPI_CALL CmdEndDebugUtilsLabelEXT(VkCommandBuffer);
VKAPI_ATTR void VKAPI_CALL CmdInsertDebugUtilsLabelEXT(VkCommandBuffer, const VkDebugUtilsLabelEXT*);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_DEBUG_H_
