// File: vulkan_raw.h
//
// Vulkan's function pointers are handed out as one type and cast to their own: here and nowhere else.
#ifndef SLUICE_GPU_DOMAIN_WORKER_VULKAN_RAW_H_
#define SLUICE_GPU_DOMAIN_WORKER_VULKAN_RAW_H_

#include <vulkan/vulkan_core.h>

namespace sluice::worker {

// Sets *function to the entry point `name` of `object` (an instance or device), or to null. True if it exists.
template <typename Get, typename Object, typename Function>
bool LoadFunction(Get get, Object object, const char* name, Function* function) {
  // SAFETY: the specification says that the entry point called `name` has the type PFN_<name>, and the caller passes a
  // pointer to exactly that type.
  *function = reinterpret_cast<Function>(get(object, name));
  return *function != nullptr;
}

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_VULKAN_RAW_H_
