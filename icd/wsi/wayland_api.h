// File: wayland_api.h
//
// libwayland-client, opened at run time, and the few requests that presenting needs. The inline functions of
// wayland-client-protocol.h need the library at link time, so requests are written out here. Private to this directory.
#ifndef SLUICE_ICD_WSI_WAYLAND_API_H_
#define SLUICE_ICD_WSI_WAYLAND_API_H_

#include <wayland-client.h>

namespace sluice::wsi {

// X(name): member `name` of the type of wl_##name.
#define SLUICE_WSI_WAYLAND_FUNCTIONS(X) \
  X(display_cancel_read)                \
  X(display_create_queue)               \
  X(display_dispatch_queue_pending)     \
  X(display_flush)                      \
  X(display_get_error)                  \
  X(display_get_fd)                     \
  X(display_prepare_read_queue)         \
  X(display_read_events)                \
  X(display_roundtrip_queue)            \
  X(event_queue_destroy)                \
  X(proxy_add_listener)                 \
  X(proxy_create_wrapper)               \
  X(proxy_destroy)                      \
  X(proxy_get_version)                  \
  X(proxy_marshal_flags)                \
  X(proxy_set_queue)                    \
  X(proxy_wrapper_destroy)
#define SLUICE_WSI_WAYLAND_INTERFACES(X) \
  X(buffer_interface)                    \
  X(callback_interface)                  \
  X(registry_interface)                  \
  X(shm_interface)                       \
  X(shm_pool_interface)

struct WaylandApi {
#define SLUICE_WSI_MEMBER(name) decltype(&::wl_##name) name = nullptr;
  SLUICE_WSI_WAYLAND_FUNCTIONS(SLUICE_WSI_MEMBER)
  SLUICE_WSI_WAYLAND_INTERFACES(SLUICE_WSI_MEMBER)
#undef SLUICE_WSI_MEMBER
};

// Null: no usable libwayland-client on this machine. Opened once; thread-safe.
const WaylandApi* GetWaylandApi();

inline wl_proxy* ProxyOf(void* object) {
  return static_cast<wl_proxy*>(object);
}

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_WAYLAND_API_H_
