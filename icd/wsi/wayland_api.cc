#include "icd/wsi/wayland_api.h"

#include "icd/wsi/symbols.h"

namespace sluice::wsi {
namespace {

const WaylandApi* Load() {
  static WaylandApi api;
  void* library = OpenLibrary("libwayland-client.so.0");
  bool complete = true;
#define SLUICE_WSI_FIND(name) complete = FindFunction(library, "wl_" #name, &api.name) && complete;
  SLUICE_WSI_WAYLAND_FUNCTIONS(SLUICE_WSI_FIND)
#undef SLUICE_WSI_FIND
#define SLUICE_WSI_FIND(name)                                                    \
  api.name = static_cast<const wl_interface*>(FindSymbol(library, "wl_" #name)); \
  complete = api.name != nullptr && complete;
  SLUICE_WSI_WAYLAND_INTERFACES(SLUICE_WSI_FIND)
#undef SLUICE_WSI_FIND
  return complete ? &api : nullptr;
}

}  // namespace

const WaylandApi* GetWaylandApi() {
  static const WaylandApi* const api = Load();
  return api;
}

}  // namespace sluice::wsi
