#include "icd/loader/debug.h"

#include <algorithm>
#include <mutex>

#include "flatbuf/vkgen/cast_raw.h"
#include "icd/loader/state.h"

namespace sluice::icd {
namespace {

VkDebugReportFlagsEXT ReportFlag(VkDebugUtilsMessageSeverityFlagBitsEXT severity) {
  switch (severity) {
    case VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT:
      return VK_DEBUG_REPORT_ERROR_BIT_EXT;
    case VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT:
      return VK_DEBUG_REPORT_WARNING_BIT_EXT;
    case VK_DEBUG_UTILS_MESSAGE_SEVERITY_INFO_BIT_EXT:
      return VK_DEBUG_REPORT_INFORMATION_BIT_EXT;
    default:
      return VK_DEBUG_REPORT_DEBUG_BIT_EXT;
  }
}

VkDebugReportObjectTypeEXT ReportObject(VkObjectType type) {
  // The values of the objects of Vulkan 1.0 are the same in both enumerations.
  return type <= VK_OBJECT_TYPE_COMMAND_POOL ? static_cast<VkDebugReportObjectTypeEXT>(type)
                                             : VK_DEBUG_REPORT_OBJECT_TYPE_UNKNOWN_EXT;
}

Messengers::Messenger From(const VkDebugUtilsMessengerCreateInfoEXT& info) {
  Messengers::Messenger m;
  m.severities = info.messageSeverity;
  m.types = info.messageType;
  m.callback = info.pfnUserCallback;
  m.user = info.pUserData;
  return m;
}

Messengers::Messenger From(const VkDebugReportCallbackCreateInfoEXT& info) {
  Messengers::Messenger m;
  m.report_flags = info.flags;
  m.report = info.pfnCallback;
  m.user = info.pUserData;
  return m;
}

template <typename Handle>
Messengers::Messenger* AsMessenger(Handle handle) {
  return static_cast<Messengers::Messenger*>(static_cast<void*>(handle));
}

}  // namespace

void Messengers::TakeFromChain(const void* next) {
  for (const auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    const void* structure = s;
    if (s->sType == VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT) {
      chained_.push_back(From(*static_cast<const VkDebugUtilsMessengerCreateInfoEXT*>(structure)));
    } else if (s->sType == VK_STRUCTURE_TYPE_DEBUG_REPORT_CALLBACK_CREATE_INFO_EXT) {
      chained_.push_back(From(*static_cast<const VkDebugReportCallbackCreateInfoEXT*>(structure)));
    }
  }
}

Messengers::Messenger* Messengers::Add(const Messenger& messenger) {
  std::lock_guard guard(lock_);
  messengers_.push_back(std::make_unique<Messenger>(messenger));
  return messengers_.back().get();
}

void Messengers::Remove(Messenger* messenger) {
  std::lock_guard guard(lock_);
  messengers_.erase(
      std::remove_if(messengers_.begin(), messengers_.end(), [&](const auto& held) { return held.get() == messenger; }),
      messengers_.end());
}

void Messengers::Report(VkDebugUtilsMessageSeverityFlagBitsEXT severity, const char* id, const char* text,
                        VkObjectType object_type, uint64_t object, bool chain) {
  std::vector<Messenger> listeners;
  {
    std::lock_guard guard(lock_);
    for (const auto& held : messengers_) listeners.push_back(*held);
  }
  if (chain) listeners.insert(listeners.end(), chained_.begin(), chained_.end());
  constexpr VkDebugUtilsMessageTypeFlagsEXT kType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
  for (const Messenger& m : listeners) {
    if (m.callback != nullptr && (m.severities & severity) != 0 && (m.types & kType) != 0) {
      VkDebugUtilsObjectNameInfoEXT name{};
      name.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
      name.objectType = object_type;
      name.objectHandle = object;
      VkDebugUtilsMessengerCallbackDataEXT data{};
      data.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT;
      data.pMessageIdName = id;
      data.pMessage = text;
      data.objectCount = object != 0 ? 1 : 0;
      data.pObjects = &name;
      m.callback(severity, kType, &data, m.user);
    } else if (m.report != nullptr && (m.report_flags & ReportFlag(severity)) != 0) {
      m.report(ReportFlag(severity), ReportObject(object_type), object, 0, 0, "Sluice", text, m.user);
    }
  }
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDebugUtilsMessengerEXT(VkInstance instance,
                                                            const VkDebugUtilsMessengerCreateInfoEXT* info,
                                                            const VkAllocationCallbacks*,
                                                            VkDebugUtilsMessengerEXT* messenger) {
  void* made = StateOf(instance)->debug.Add(From(*info));
  *messenger = static_cast<VkDebugUtilsMessengerEXT>(made);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL DestroyDebugUtilsMessengerEXT(VkInstance instance, VkDebugUtilsMessengerEXT messenger,
                                                         const VkAllocationCallbacks*) {
  if (messenger != VK_NULL_HANDLE) StateOf(instance)->debug.Remove(AsMessenger(messenger));
}

VKAPI_ATTR void VKAPI_CALL SubmitDebugUtilsMessageEXT(VkInstance, VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                      VkDebugUtilsMessageTypeFlagsEXT,
                                                      const VkDebugUtilsMessengerCallbackDataEXT*) {}

VKAPI_ATTR VkResult VKAPI_CALL CreateDebugReportCallbackEXT(VkInstance instance,
                                                            const VkDebugReportCallbackCreateInfoEXT* info,
                                                            const VkAllocationCallbacks*,
                                                            VkDebugReportCallbackEXT* callback) {
  void* made = StateOf(instance)->debug.Add(From(*info));
  *callback = static_cast<VkDebugReportCallbackEXT>(made);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL DestroyDebugReportCallbackEXT(VkInstance instance, VkDebugReportCallbackEXT callback,
                                                         const VkAllocationCallbacks*) {
  if (callback != VK_NULL_HANDLE) StateOf(instance)->debug.Remove(AsMessenger(callback));
}

VKAPI_ATTR void VKAPI_CALL DebugReportMessageEXT(VkInstance, VkDebugReportFlagsEXT, VkDebugReportObjectTypeEXT,
                                                 uint64_t, size_t, int32_t, const char*, const char*) {}

VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectNameEXT(VkDevice, const VkDebugUtilsObjectNameInfoEXT*) {
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectTagEXT(VkDevice, const VkDebugUtilsObjectTagInfoEXT*) {
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL QueueBeginDebugUtilsLabelEXT(VkQueue, const VkDebugUtilsLabelEXT*) {}
VKAPI_ATTR void VKAPI_CALL QueueEndDebugUtilsLabelEXT(VkQueue) {}
VKAPI_ATTR void VKAPI_CALL QueueInsertDebugUtilsLabelEXT(VkQueue, const VkDebugUtilsLabelEXT*) {}
VKAPI_ATTR void VKAPI_CALL CmdBeginDebugUtilsLabelEXT(VkCommandBuffer, const VkDebugUtilsLabelEXT*) {}
VKAPI_ATTR void VKAPI_CALL CmdEndDebugUtilsLabelEXT(VkCommandBuffer) {}
VKAPI_ATTR void VKAPI_CALL CmdInsertDebugUtilsLabelEXT(VkCommandBuffer, const VkDebugUtilsLabelEXT*) {}

}  // namespace sluice::icd
