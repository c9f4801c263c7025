// File: xcb_api.h
//
// libxcb, libxcb-shm and libxcb-present, opened at run time. Private to this directory.
#ifndef SLUICE_ICD_WSI_XCB_API_H_
#define SLUICE_ICD_WSI_XCB_API_H_

#include <xcb/present.h>
#include <xcb/shm.h>
#include <xcb/xcb.h>

namespace sluice::wsi {

// X(name): member `name` of the type of xcb_##name.
#define SLUICE_WSI_XCB_CORE(X)      \
  X(connection_has_error)           \
  X(create_gc_checked)              \
  X(depth_next)                     \
  X(depth_visuals)                  \
  X(depth_visuals_length)           \
  X(discard_reply)                  \
  X(free_gc_checked)                \
  X(generate_id)                    \
  X(get_extension_data)             \
  X(get_file_descriptor)            \
  X(get_geometry)                   \
  X(get_geometry_reply)             \
  X(get_maximum_request_length)     \
  X(get_setup)                      \
  X(get_window_attributes)          \
  X(get_window_attributes_reply)    \
  X(poll_for_special_event)         \
  X(put_image_checked)              \
  X(register_for_special_xge)       \
  X(request_check)                  \
  X(screen_allowed_depths_iterator) \
  X(screen_next)                    \
  X(setup_pixmap_formats)           \
  X(setup_pixmap_formats_length)    \
  X(setup_roots_iterator)           \
  X(unregister_for_special_event)
#define SLUICE_WSI_XCB_SHM(X) \
  X(shm_attach_fd_checked)    \
  X(shm_detach_checked)       \
  X(shm_put_image_checked)    \
  X(shm_query_version)        \
  X(shm_query_version_reply)
#define SLUICE_WSI_XCB_PRESENT(X) \
  X(present_notify_msc_checked)   \
  X(present_query_version)        \
  X(present_query_version_reply)  \
  X(present_select_input_checked)

struct XcbApi {
#define SLUICE_WSI_MEMBER(name) decltype(&::xcb_##name) name = nullptr;
  SLUICE_WSI_XCB_CORE(SLUICE_WSI_MEMBER)
  SLUICE_WSI_XCB_SHM(SLUICE_WSI_MEMBER)
  SLUICE_WSI_XCB_PRESENT(SLUICE_WSI_MEMBER)
#undef SLUICE_WSI_MEMBER
  // Null where the library is not there; the extension is not used then.
  xcb_extension_t* shm_id = nullptr;
  xcb_extension_t* present_id = nullptr;
};

// Null: no usable libxcb on this machine. Opened once; thread-safe.
const XcbApi* GetXcbApi();

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_XCB_API_H_
