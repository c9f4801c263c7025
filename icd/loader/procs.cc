#include "icd/loader/procs.h"

#include <algorithm>
#include <cstring>

#include "icd/loader/extensions.h"

namespace sluice::icd {
namespace {

PFN_vkVoidFunction Search(const OwnFunction* functions, size_t count, const char* name) {
  const OwnFunction* end = functions + count;
  const OwnFunction* found = std::lower_bound(
      functions, end, name, [](const OwnFunction& f, const char* wanted) { return strcmp(f.name, wanted) < 0; });
  return found != end && strcmp(found->name, name) == 0 ? found->function : nullptr;
}

// Whether the command is of a core version up to `minor`, or of an extension that `enabled` says is there.
template <typename F>
bool Provided(const CommandInfo& command, uint8_t minor, F enabled) {
  if (command.core != kNotCore && command.core <= minor) return true;
  for (uint16_t i = 0; i < command.provider_count; i++) {
    if (enabled(kProviders[command.first_provider + i])) return true;
  }
  return false;
}

}  // namespace

PFN_vkVoidFunction Implementation(const CommandInfo& command) {
  for (const char* name : {command.name, command.canonical}) {
    PFN_vkVoidFunction f = Search(kOwnFunctions, kOwnFunctionCount, name);
    if (f == nullptr) f = ::vkGetInstanceProcAddr(VK_NULL_HANDLE, name);
    if (f == nullptr) f = Search(kFallbackFunctions, kFallbackFunctionCount, name);
    if (f != nullptr) return f;
  }
  return nullptr;
}

PFN_vkVoidFunction InstanceProc(const InstanceState* instance, const char* name) {
  const CommandInfo* command = FindCommand(name);
  if (command == nullptr) return nullptr;
  if (command->level != Level::kGlobal && strcmp(name, "vkGetInstanceProcAddr") != 0) {
    if (instance == nullptr) return nullptr;
    const bool provided = Provided(*command, instance->minor, [&](uint16_t extension) {
      // Of device extensions, all that any device may offer: the program asks before it makes a device.
      return kExtensions[extension].instance ? instance->extensions[extension] : OffersDeviceExtension(extension);
    });
    if (!provided) return nullptr;
  }
  return Implementation(*command);
}

PFN_vkVoidFunction DeviceProc(const DeviceState& device, const char* name) {
  const CommandInfo* command = FindCommand(name);
  if (command == nullptr || command->level != Level::kDevice) return nullptr;
  const bool provided = Provided(*command, device.minor, [&](uint16_t extension) {
    return kExtensions[extension].instance ? device.instance->extensions[extension] : device.extensions[extension];
  });
  return provided ? Implementation(*command) : nullptr;
}

PFN_vkVoidFunction PhysicalDeviceProc(const InstanceState& instance, const char* name) {
  const CommandInfo* command = FindCommand(name);
  if (command == nullptr || command->level != Level::kPhysicalDevice) return nullptr;
  return InstanceProc(&instance, name);
}

}  // namespace sluice::icd
