// Linked into sanitizer builds of programs that open a Vulkan driver in their own process. What a sanitizer finds
// inside the driver, which is not instrumented, is the driver's; findings in Sluice's own code still count.
#ifdef SLUICE_ASAN
#include <dlfcn.h>

#include <initializer_list>

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libvulkan\nleak:libLLVM\nleak:libdrm\nleak:libxcb\nleak:libwayland\n";
}

namespace {

// The driver and its compiler keep memory until the process ends, but the loader unloads them before that, and a leak
// from an unloaded module has no name to suppress. So the modules stay.
[[maybe_unused]] const bool kept = [] {
  for (const char* name : {"libvulkan.so.1", "libvulkan_lvp.so"}) {
    dlopen(name, RTLD_NOW | RTLD_NODELETE);  // absent: then nothing of it can leak
  }
  return true;
}();

}  // namespace
#endif

#ifdef SLUICE_TSAN
// lavapipe destroys its queue's mutex and condition variable while TSan still sees the thread that used them last.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libvulkan_lvp.so\nmutex:libvulkan_lvp.so\nthread:libvulkan_lvp.so\nrace:libLLVM\nsignal:libvulkan_lvp."
         "so\n";
}
#endif
