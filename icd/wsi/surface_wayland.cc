// Wayland surfaces: frames are copied into wl_shm buffers. What role the surface has is the program's business.
//
// FIFO waits for the frame callback of the frame before; the compositor itself replaces frames that it has not shown,
// which is MAILBOX, and all that IMMEDIATE can get.
#include <wayland-client.h>
// After wayland-client.h:
#include <vulkan/vulkan_core.h>
#include <vulkan/vulkan_wayland.h>

#include <atomic>
#include <vector>

#include "icd/wsi/host_raw.h"
#include "icd/wsi/query.h"
#include "icd/wsi/surface.h"
#include "icd/wsi/wayland_link.h"

namespace sluice::wsi {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// For how long a compositor may withhold the frame callback (as it does for hidden surfaces) or its buffers.
constexpr int64_t kPatience = kSecond;
constexpr size_t kMaxBuffers = 4;

class WaylandSurface : public Surface {
 public:
  WaylandSurface(const WaylandApi& api, wl_display* display, wl_surface* surface)
      : api_(api), display_(display), surface_(surface) {}

  VkResult Extent(VkExtent2D* extent) override {
    if (lost.load(std::memory_order_relaxed) || api_.display_get_error(display_) != 0) return VK_ERROR_SURFACE_LOST_KHR;
    *extent = {kAnyExtent, kAnyExtent};
    return VK_SUCCESS;
  }
  VkCompositeAlphaFlagsKHR Alpha() override {
    return VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR | VK_COMPOSITE_ALPHA_PRE_MULTIPLIED_BIT_KHR;
  }
  VkResult NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) override;

  // A presenter found the connection broken; libwayland itself notices only when something is read.
  std::atomic<bool> lost = false;

 private:
  const WaylandApi& api_;
  wl_display* const display_;
  wl_surface* const surface_;
};

class WaylandPresenter : public Presenter {
 public:
  WaylandPresenter(const WaylandApi& api, wl_display* display, const PresenterOptions& options, std::atomic<bool>* lost)
      : api_(api),
        lost_(*lost),
        options_(options),
        fifo_(options.mode == VK_PRESENT_MODE_FIFO_KHR || options.mode == VK_PRESENT_MODE_FIFO_RELAXED_KHR),
        link_(api, display) {}
  ~WaylandPresenter() override;

  VkResult Init(wl_surface* surface);
  int64_t NextTurn(int64_t /*last*/, bool /*relaxed*/) override { return 0; }
  VkResult Show(const Frame& frame, const std::function<void()>& released) override;
  void Hurry() override {
    hurry_.store(true, std::memory_order_relaxed);
    link_.Interrupt();
  }

 private:
  struct Buffer {
    wl_buffer* buffer = nullptr;
    SharedMemory pixels;
    bool busy = false;  // the compositor's
  };

  static void OnRelease(void* data, wl_buffer* /*buffer*/) { static_cast<Buffer*>(data)->busy = false; }
  static void OnDone(void* data, wl_callback* callback, uint32_t /*time*/);

  // Both false: the connection is broken.
  bool WaitCallback();
  bool FreeBuffer(Buffer** buffer);  // null buffer: there is none
  Buffer* NewBuffer();
  void Commit(Buffer* buffer, std::span<const VkRect2D> damage);
  template <typename... Arguments>
  wl_proxy* Request(void* object, uint32_t opcode, const wl_interface* created, uint32_t flags,
                    Arguments... arguments) {
    return api_.proxy_marshal_flags(ProxyOf(object), opcode, created, api_.proxy_get_version(ProxyOf(object)), flags,
                                    arguments...);
  }

  const WaylandApi& api_;
  std::atomic<bool>& lost_;  // the surface's
  const PresenterOptions options_;
  const bool fifo_;
  WaylandLink link_;
  wl_surface* surface_ = nullptr;  // a wrapper
  wl_callback* callback_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::atomic<bool> hurry_ = false;
};

VkResult WaylandPresenter::Init(wl_surface* surface) {
  if (uint64_t{options_.extent.width} * options_.extent.height * 4 > INT32_MAX) return VK_ERROR_INITIALIZATION_FAILED;
  if (!link_.Init()) return VK_ERROR_SURFACE_LOST_KHR;
  surface_ = link_.Wrap(surface);
  return surface_ != nullptr ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

WaylandPresenter::~WaylandPresenter() {
  if (callback_ != nullptr) api_.proxy_destroy(ProxyOf(callback_));
  for (const auto& buffer : buffers_) Request(buffer->buffer, WL_BUFFER_DESTROY, nullptr, WL_MARSHAL_FLAG_DESTROY);
  link_.ForgetWrapper(surface_);
}

void WaylandPresenter::OnDone(void* data, wl_callback* callback, uint32_t /*time*/) {
  auto* self = static_cast<WaylandPresenter*>(data);
  self->api_.proxy_destroy(ProxyOf(callback));
  self->callback_ = nullptr;
}

bool WaylandPresenter::WaitCallback() {
  const int64_t deadline = MonotonicNow() + kPatience;
  while (callback_ != nullptr && !hurry_.load(std::memory_order_relaxed) && MonotonicNow() < deadline) {
    if (!link_.WaitEvents(deadline)) return false;
  }
  if (callback_ != nullptr) api_.proxy_destroy(ProxyOf(callback_));
  callback_ = nullptr;
  return true;
}

WaylandPresenter::Buffer* WaylandPresenter::NewBuffer() {
  static constexpr wl_buffer_listener kListener = {OnRelease};
  const int32_t width = static_cast<int32_t>(options_.extent.width);
  const int32_t height = static_cast<int32_t>(options_.extent.height);
  const int32_t bytes = width * height * 4;  // Init has checked
  auto buffer = std::make_unique<Buffer>();
  if (!buffer->pixels.Create(static_cast<size_t>(bytes))) return nullptr;
  wl_proxy* pool =
      Request(link_.shm(), WL_SHM_CREATE_POOL, api_.shm_pool_interface, 0, nullptr, buffer->pixels.fd(), bytes);
  if (pool == nullptr) return nullptr;
  const uint32_t format = options_.opaque ? WL_SHM_FORMAT_XRGB8888 : WL_SHM_FORMAT_ARGB8888;
  wl_proxy* proxy =
      Request(pool, WL_SHM_POOL_CREATE_BUFFER, api_.buffer_interface, 0, nullptr, 0, width, height, width * 4, format);
  Request(pool, WL_SHM_POOL_DESTROY, nullptr, WL_MARSHAL_FLAG_DESTROY);
  if (proxy == nullptr) return nullptr;
  void* object = proxy;
  buffer->buffer = static_cast<wl_buffer*>(object);
  buffer->pixels.CloseFd();  // the request has a copy
  link_.Listen(object, &kListener, buffer.get());
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

bool WaylandPresenter::FreeBuffer(Buffer** result) {
  const int64_t deadline = MonotonicNow() + kPatience;
  *result = nullptr;
  do {
    for (const auto& buffer : buffers_) {
      if (!buffer->busy) return *result = buffer.get(), true;
    }
    if (buffers_.size() < kMaxBuffers) return *result = NewBuffer(), true;
    if (!link_.WaitEvents(deadline)) return false;
  } while (!hurry_.load(std::memory_order_relaxed) && MonotonicNow() < deadline);
  return true;
}

void WaylandPresenter::Commit(Buffer* buffer, std::span<const VkRect2D> damage) {
  static constexpr wl_callback_listener kListener = {OnDone};
  Request(surface_, WL_SURFACE_ATTACH, nullptr, 0, buffer->buffer, 0, 0);
  if (damage.empty() || api_.proxy_get_version(ProxyOf(surface_)) < WL_SURFACE_DAMAGE_BUFFER_SINCE_VERSION) {
    Request(surface_, WL_SURFACE_DAMAGE, nullptr, 0, 0, 0, INT32_MAX, INT32_MAX);
  } else {
    for (const VkRect2D& rect : damage) {
      Request(surface_, WL_SURFACE_DAMAGE_BUFFER, nullptr, 0, rect.offset.x, rect.offset.y,
              static_cast<int32_t>(rect.extent.width), static_cast<int32_t>(rect.extent.height));
    }
  }
  if (fifo_) {
    void* callback = Request(surface_, WL_SURFACE_FRAME, api_.callback_interface, 0, nullptr);
    callback_ = static_cast<wl_callback*>(callback);
    if (callback_ != nullptr) link_.Listen(callback_, &kListener, this);
  }
  Request(surface_, WL_SURFACE_COMMIT, nullptr, 0);
  buffer->busy = true;
}

VkResult WaylandPresenter::Show(const Frame& frame, const std::function<void()>& released) {
  Buffer* buffer = nullptr;
  const bool alive = link_.Dispatch() && WaitCallback() && FreeBuffer(&buffer);
  if (buffer != nullptr) {
    // XRGB8888 has no alpha, but compositors pass its byte on, to screenshots for one.
    ConvertPixels(frame.pixels, buffer->pixels.data(), options_.extent.width, options_.extent.height,
                  {options_.order == ChannelOrder::kRgba, options_.opaque});
  }
  released();
  if (alive && buffer == nullptr) return VK_SUCCESS;  // a compositor that keeps them all misses this frame
  if (alive) Commit(buffer, frame.damage);
  if (alive && link_.Flush(MonotonicNow() + kPatience)) return VK_SUCCESS;
  lost_.store(true, std::memory_order_relaxed);
  return VK_ERROR_SURFACE_LOST_KHR;
}

VkResult WaylandSurface::NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) {
  if (lost.load(std::memory_order_relaxed)) return VK_ERROR_SURFACE_LOST_KHR;
  auto created = std::make_unique<WaylandPresenter>(api_, display_, options, &lost);
  if (const VkResult r = created->Init(surface_); r != VK_SUCCESS) return r;
  *presenter = std::move(created);
  return VK_SUCCESS;
}

}  // namespace

VkResult CreateWaylandSurface(const VkWaylandSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface) {
  const WaylandApi* api = GetWaylandApi();
  if (api == nullptr || info.display == nullptr || info.surface == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  *surface = SurfaceHandle(new WaylandSurface(*api, info.display, info.surface));
  return VK_SUCCESS;
}

VkBool32 GetWaylandPresentationSupport(const PhysicalDevice& device, uint32_t family, wl_display* display) {
  // Every compositor has wl_shm, with the two formats that we use.
  return GetWaylandApi() != nullptr && display != nullptr && FamilyCanPresent(device, family) ? VK_TRUE : VK_FALSE;
}

}  // namespace sluice::wsi
