// File: command_table.h
//
// What the Vulkan registry says about commands and extensions, as vkGetInstanceProcAddr and vkGetDeviceProcAddr need
// it. The tables are generated from vk.xml (gen_commands.py).
//
//   if (const CommandInfo* command = FindCommand("vkCmdDraw"); command->level == Level::kDevice) ...
#ifndef SLUICE_ICD_LOADER_COMMAND_TABLE_H_
#define SLUICE_ICD_LOADER_COMMAND_TABLE_H_

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace sluice::icd {

// What the first parameter of a command is.
enum class Level : uint8_t { kGlobal, kInstance, kPhysicalDevice, kDevice };

inline constexpr uint8_t kNotCore = 255;

struct CommandInfo {
  const char* name;
  const char* canonical;  // the command that this one is an alias of, or its own name
  Level level;
  uint8_t core;             // minor version of Vulkan 1 that brought it; kNotCore
  uint16_t first_provider;  // extensions that bring it: kProviders[first_provider ...]
  uint16_t provider_count;
};
struct ExtensionInfo {
  const char* name;
  uint32_t spec_version;
  bool instance;
  uint8_t promoted;  // minor version of Vulkan 1 that it is part of; kNotCore
};

extern const CommandInfo kCommands[];  // sorted by name
extern const size_t kCommandCount;
extern const ExtensionInfo kExtensions[];  // in the registry's order
extern const size_t kExtensionCount;
extern const uint16_t kProviders[];  // indices of kExtensions

// Structures of features: sType, and how many VkBool32 follow the head.
struct FeatureStructure {
  int32_t type;
  uint32_t count;
};
extern const FeatureStructure kFeatureStructures[];
extern const size_t kFeatureStructureCount;
// 0: not known as one.
size_t FeatureCount(int32_t type);

inline constexpr size_t kMaxExtensions = 512;
// Extensions by their index in kExtensions.
using ExtensionSet = std::bitset<kMaxExtensions>;

// Null or -1: there is none in the registry.
const CommandInfo* FindCommand(const char* name);
int FindExtension(const char* name);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_COMMAND_TABLE_H_
