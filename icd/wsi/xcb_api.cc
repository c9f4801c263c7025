#include "icd/wsi/xcb_api.h"

#include "icd/wsi/symbols.h"

namespace sluice::wsi {
namespace {

#define SLUICE_WSI_FIND(name) complete = FindFunction(library, "xcb_" #name, &api->name) && complete;

bool LoadCore(XcbApi* api) {
  void* library = OpenLibrary("libxcb.so.1");
  bool complete = true;
  SLUICE_WSI_XCB_CORE(SLUICE_WSI_FIND)
  return complete;
}

void LoadShm(XcbApi* api) {
  void* library = OpenLibrary("libxcb-shm.so.0");
  bool complete = true;
  SLUICE_WSI_XCB_SHM(SLUICE_WSI_FIND)
  if (complete) api->shm_id = static_cast<xcb_extension_t*>(FindSymbol(library, "xcb_shm_id"));
}

void LoadPresent(XcbApi* api) {
  void* library = OpenLibrary("libxcb-present.so.0");
  bool complete = true;
  SLUICE_WSI_XCB_PRESENT(SLUICE_WSI_FIND)
  if (complete) api->present_id = static_cast<xcb_extension_t*>(FindSymbol(library, "xcb_present_id"));
}

#undef SLUICE_WSI_FIND

const XcbApi* Load() {
  static XcbApi api;
  if (!LoadCore(&api)) return nullptr;
  LoadShm(&api);
  LoadPresent(&api);
  return &api;
}

}  // namespace

const XcbApi* GetXcbApi() {
  static const XcbApi* const api = Load();
  return api;
}

}  // namespace sluice::wsi
