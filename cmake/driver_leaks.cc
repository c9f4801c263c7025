// Linked into AddressSanitizer builds of tests that open a Vulkan driver in their own process. The driver and its compiler keep
// memory until the process ends; the loader unloads them before that, and a leak from an unloaded module has no name to suppress.
// So the modules stay loaded, and what they leak is theirs: leaks of Sluice's own code are still found.
#include <dlfcn.h>

#include <initializer_list>

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libvulkan\nleak:libLLVM\nleak:libdrm\nleak:libxcb\nleak:libwayland\n";
}

namespace {

[[maybe_unused]] const bool kept = [] {
  for (const char* name : {"libvulkan.so.1", "libvulkan_lvp.so"}) {
    dlopen(name, RTLD_NOW | RTLD_NODELETE);  // absent: then nothing of it can leak
  }
  return true;
}();

}  // namespace
