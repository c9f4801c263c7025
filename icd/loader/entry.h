// File: entry.h
//
// Shared by the files that define entry points.
#ifndef SLUICE_ICD_LOADER_ENTRY_H_
#define SLUICE_ICD_LOADER_ENTRY_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>

#include "flatbuf/vkgen/cast_raw.h"

// The only symbols that leave the library; icd/exports.map says the same.
#define SLUICE_ICD_EXPORT __attribute__((visibility("default")))

namespace sluice::icd {

template <typename F>
PFN_vkVoidFunction AsVoidFunction(F* function) {
  return vk::FunctionCast<PFN_vkVoidFunction>(function);
}

// The loader interface version agreed on.
uint32_t NegotiatedInterface();

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_ENTRY_H_
