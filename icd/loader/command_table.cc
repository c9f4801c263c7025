#include "icd/loader/command_table.h"

#include <cstring>

namespace sluice::icd {

const CommandInfo* FindCommand(const char* name) {
  size_t low = 0, high = kCommandCount;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = strcmp(kCommands[middle].name, name);
    if (order == 0) return &kCommands[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

size_t FeatureCount(int32_t type) {
  for (size_t i = 0; i < kFeatureStructureCount; i++) {
    if (kFeatureStructures[i].type == type) return kFeatureStructures[i].count;
  }
  return 0;
}

int FindExtension(const char* name) {
  for (size_t i = 0; i < kExtensionCount; i++) {
    if (strcmp(kExtensions[i].name, name) == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace sluice::icd
