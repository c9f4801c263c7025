#include "icd/wsi/symbols.h"

#include <dlfcn.h>

namespace sluice::wsi {

void* OpenLibrary(const char* name) {
  return dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

void* FindSymbol(void* library, const char* name) {
  return library == nullptr ? nullptr : dlsym(library, name);
}

}  // namespace sluice::wsi
