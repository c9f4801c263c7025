#include "icd/wsi/wayland_link.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "icd/wsi/clock.h"

namespace sluice::wsi {
namespace {

int PollMilliseconds(int64_t deadline) {
  const int64_t left = deadline - MonotonicNow();
  return static_cast<int>(std::clamp<int64_t>((left + 999'999) / 1'000'000, 0, 60'000));
}

}  // namespace

WaylandLink::~WaylandLink() {
  if (shm_ != nullptr) api_.proxy_destroy(ProxyOf(shm_));
  if (registry_ != nullptr) api_.proxy_destroy(ProxyOf(registry_));
  ForgetWrapper(wrapper_);
  if (queue_ != nullptr) api_.event_queue_destroy(queue_);
}

void WaylandLink::OnGlobal(void* data, wl_registry* registry, uint32_t name, const char* interface, uint32_t) {
  auto* self = static_cast<WaylandLink*>(data);
  if (self->shm_ != nullptr || strcmp(interface, self->api_.shm_interface->name) != 0) return;
  void* shm = self->api_.proxy_marshal_flags(ProxyOf(registry), WL_REGISTRY_BIND, self->api_.shm_interface, 1, 0, name,
                                             interface, 1u, nullptr);
  self->shm_ = static_cast<wl_shm*>(shm);
}

bool WaylandLink::Init() {
  static constexpr wl_registry_listener kListener = {OnGlobal, OnGlobalRemove};
  if (!interrupt_.Create() || api_.display_get_error(display_) != 0) return false;
  queue_ = api_.display_create_queue(display_);
  if (queue_ == nullptr) return false;
  wrapper_ = Wrap(display_);
  if (wrapper_ == nullptr) return false;
  void* registry = api_.proxy_marshal_flags(ProxyOf(wrapper_), WL_DISPLAY_GET_REGISTRY, api_.registry_interface,
                                            api_.proxy_get_version(ProxyOf(wrapper_)), 0, nullptr);
  registry_ = static_cast<wl_registry*>(registry);
  if (registry_ == nullptr) return false;
  Listen(registry_, &kListener, this);
  return api_.display_roundtrip_queue(display_, queue_) >= 0 && shm_ != nullptr;
}

bool WaylandLink::Dispatch() {
  return api_.display_dispatch_queue_pending(display_, queue_) >= 0 && api_.display_get_error(display_) == 0;
}

bool WaylandLink::WaitEvents(int64_t deadline) {
  if (api_.display_prepare_read_queue(display_, queue_) != 0) return Dispatch();  // some have arrived already
  pollfd fds[] = {{api_.display_get_fd(display_), POLLIN, 0}, {interrupt_.fd(), POLLIN, 0}};
  int ready = 0;
  do {
    ready = poll(fds, 2, PollMilliseconds(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0 && fds[0].revents != 0) {
    if (api_.display_read_events(display_) < 0) return false;
  } else {
    api_.display_cancel_read(display_);
  }
  return Dispatch();
}

bool WaylandLink::Flush(int64_t deadline) {
  while (api_.display_flush(display_) < 0) {
    if (errno != EAGAIN || MonotonicNow() >= deadline) return false;
    pollfd fd = {api_.display_get_fd(display_), POLLOUT, 0};
    if (poll(&fd, 1, PollMilliseconds(deadline)) < 0 && errno != EINTR) return false;
  }
  return true;
}

void WaylandLink::Interrupt() {
  interrupt_.Set();
}

}  // namespace sluice::wsi
