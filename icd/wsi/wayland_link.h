// File: wayland_link.h
//
// A private event queue on the program's Wayland connection, and the wl_shm found through it. Private to this
// directory.
#ifndef SLUICE_ICD_WSI_WAYLAND_LINK_H_
#define SLUICE_ICD_WSI_WAYLAND_LINK_H_

#include <cstdint>

#include "icd/wsi/host_raw.h"
#include "icd/wsi/wayland_api.h"

namespace sluice::wsi {

// Created by one thread, then used by another; Interrupt() by any.
class WaylandLink {
 public:
  WaylandLink(const WaylandApi& api, wl_display* display) : api_(api), display_(display) {}
  WaylandLink(const WaylandLink&) = delete;
  WaylandLink& operator=(const WaylandLink&) = delete;
  ~WaylandLink();

  // Two round trips. False: the connection is broken or has no wl_shm.
  bool Init();

  // An object of the program whose requests' new objects deliver their events here; end it with ForgetWrapper.
  template <typename Object>
  Object* Wrap(Object* object) {
    auto* wrapper = static_cast<Object*>(api_.proxy_create_wrapper(object));
    if (wrapper != nullptr) api_.proxy_set_queue(ProxyOf(wrapper), queue_);
    return wrapper;
  }
  void ForgetWrapper(void* wrapper) {
    if (wrapper != nullptr) api_.proxy_wrapper_destroy(wrapper);
  }
  template <typename Listener>
  void Listen(void* object, const Listener* listener, void* data) {
    void* functions = const_cast<Listener*>(listener);
    api_.proxy_add_listener(ProxyOf(object), static_cast<void (**)()>(functions), data);
  }

  // Delivers what has arrived. False: the connection is broken.
  bool Dispatch();
  // Waits for events until `deadline` (of MonotonicNow), delivers them. False: the connection is broken. Returns early
  // after Interrupt().
  bool WaitEvents(int64_t deadline);
  // Sends what is buffered; waits until `deadline` for the socket to take it. False: broken, or it did not.
  bool Flush(int64_t deadline);
  // WaitEvents returns at once, now and for ever.
  void Interrupt();

  wl_shm* shm() const { return shm_; }

 private:
  static void OnGlobal(void* data, wl_registry* registry, uint32_t name, const char* interface, uint32_t version);
  static void OnGlobalRemove(void* data, wl_registry* registry, uint32_t name) {}

  const WaylandApi& api_;
  wl_display* const display_;
  wl_event_queue* queue_ = nullptr;
  wl_display* wrapper_ = nullptr;
  wl_registry* registry_ = nullptr;
  wl_shm* shm_ = nullptr;
  WakeUp interrupt_;
};

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_WAYLAND_LINK_H_
