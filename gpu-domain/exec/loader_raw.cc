#include <dlfcn.h>

#include "gpu-domain/exec/policy.h"

namespace sluice::exec {

PFN_vkGetInstanceProcAddr LoadVulkan() {
  // Never closed: drivers keep threads and thread-local state.
  static const PFN_vkGetInstanceProcAddr entry = []() -> PFN_vkGetInstanceProcAddr {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    // SAFETY: the loader's ABI fixes the type of this symbol.
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }();
  return entry;
}

}  // namespace sluice::exec
