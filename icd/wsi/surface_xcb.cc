// X11 windows, through xcb: VK_KHR_xcb_surface.
//
// A frame goes into one segment of shared memory and from there into the window (MIT-SHM PutImage); on connections that
// carry no descriptors, through the connection (PutImage). One round trip then says that the server has read the
// segment, how large the window is now, and whether it still exists. Refresh times come from the Present extension.
#include <sys/socket.h>
#include <vulkan/vulkan_core.h>
#include <xcb/xcb.h>
// After xcb.h:
#include <vulkan/vulkan_xcb.h>

#include <algorithm>
#include <cstring>

#include "icd/wsi/host_raw.h"
#include "icd/wsi/query.h"
#include "icd/wsi/surface.h"
#include "icd/wsi/xcb_window.h"

namespace sluice::wsi {
namespace {

// Window systems compose alpha only for visuals that have it; without it, whatever a program asks for is opaque.
class XcbSurface : public Surface {
 public:
  XcbSurface(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window)
      : xcb_(xcb), connection_(connection), window_(window) {}

  VkResult Supported(bool* supported) override {
    XcbPixels pixels;
    if (!Pixels(&pixels)) return VK_ERROR_SURFACE_LOST_KHR;
    *supported = pixels.supported;
    return VK_SUCCESS;
  }
  VkResult Extent(VkExtent2D* extent) override {
    if (!SizeOfWindow(xcb_, connection_, window_, &extent->width, &extent->height)) return VK_ERROR_SURFACE_LOST_KHR;
    return VK_SUCCESS;
  }
  VkCompositeAlphaFlagsKHR Alpha() override {
    XcbPixels pixels;
    VkCompositeAlphaFlagsKHR alpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR | VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR;
    if (Pixels(&pixels) && pixels.alpha) alpha |= VK_COMPOSITE_ALPHA_PRE_MULTIPLIED_BIT_KHR;
    return alpha;
  }
  ChannelOrder NativeOrder() override {
    XcbPixels pixels;
    return Pixels(&pixels) ? pixels.order : ChannelOrder::kBgra;
  }
  VkResult NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) override;

 private:
  // A window's visual never changes. False: the window is gone.
  bool Pixels(XcbPixels* pixels) {
    const std::lock_guard lock(pixels_mu_);
    if (pixels_.depth == 0) {
      xcb_visualid_t visual = 0;
      if (!VisualOfWindow(xcb_, connection_, window_, &visual)) return false;
      pixels_ = PixelsOfVisual(xcb_, connection_, visual);
    }
    *pixels = pixels_;
    return true;
  }

  const XcbApi& xcb_;
  xcb_connection_t* const connection_;
  const xcb_window_t window_;
  std::mutex pixels_mu_;
  XcbPixels pixels_;  // guarded by pixels_mu_
};

class XcbPresenter : public Presenter {
 public:
  XcbPresenter(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window, const XcbPixels& pixels,
               const PresenterOptions& options)
      : xcb_(xcb),
        connection_(connection),
        window_(window),
        depth_(pixels.depth),
        extent_(options.extent),
        conversion_{pixels.order != options.order, pixels.alpha && options.opaque} {}
  ~XcbPresenter() override;

  VkResult Init();
  int64_t NextTurn(int64_t last, bool relaxed) override { return clock_.Turn(last, MonotonicNow(), relaxed); }
  VkResult Show(const Frame& frame, const std::function<void()>& released) override;

 private:
  void InitShm();
  void InitPresent();
  xcb_void_cookie_t PutShm();
  bool PutThroughConnection(const uint8_t* pixels);
  void ReadRefreshes();
  void AskForRefresh();

  size_t bytes() const { return size_t{extent_.width} * extent_.height * 4; }

  const XcbApi& xcb_;
  xcb_connection_t* const connection_;
  const xcb_window_t window_;
  const uint8_t depth_;
  const VkExtent2D extent_;
  const PixelConversion conversion_;
  xcb_gcontext_t gc_ = 0;
  xcb_shm_seg_t segment_ = 0;          // 0: no shared memory
  SharedMemory shared_;                // the segment
  std::unique_ptr<uint8_t[]> staged_;  // converted pixels, without shared memory
  uint32_t present_id_ = 0;            // event id; 0: no Present extension
  xcb_special_event_t* refreshes_ = nullptr;
  bool asked_ = false;
  VblankClock clock_{MonotonicNow()};
};

VkResult XcbPresenter::Init() {
  gc_ = xcb_.generate_id(connection_);
  const uint32_t no_exposures = 0;
  if (!Succeeded(xcb_, connection_,
                 xcb_.create_gc_checked(connection_, gc_, window_, XCB_GC_GRAPHICS_EXPOSURES, &no_exposures))) {
    gc_ = 0;
    return VK_ERROR_SURFACE_LOST_KHR;
  }
  InitShm();
  if (segment_ == 0) staged_ = std::make_unique<uint8_t[]>(bytes());
  InitPresent();
  return VK_SUCCESS;
}

void XcbPresenter::InitShm() {
  // Descriptors travel over Unix sockets only; sending one over another would end the connection.
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  void* generic = &address;
  if (getsockname(xcb_.get_file_descriptor(connection_), static_cast<sockaddr*>(generic), &length) != 0 ||
      address.ss_family != AF_UNIX || !HasExtension(xcb_, connection_, xcb_.shm_id)) {
    return;
  }
  const XcbReply<xcb_shm_query_version_reply_t> version(
      xcb_.shm_query_version_reply(connection_, xcb_.shm_query_version(connection_), nullptr));
  if (version == nullptr || (version->major_version == 1 && version->minor_version < 2)) return;
  if (!shared_.Create(bytes())) return;
  const xcb_shm_seg_t segment = xcb_.generate_id(connection_);
  // xcb closes the descriptor.
  if (!Succeeded(xcb_, connection_, xcb_.shm_attach_fd_checked(connection_, segment, shared_.TakeFd(), 1))) return;
  segment_ = segment;
}

void XcbPresenter::InitPresent() {
  if (!HasExtension(xcb_, connection_, xcb_.present_id)) return;
  const XcbReply<xcb_present_query_version_reply_t> version(
      xcb_.present_query_version_reply(connection_, xcb_.present_query_version(connection_, 1, 0), nullptr));
  if (version == nullptr) return;
  present_id_ = xcb_.generate_id(connection_);
  refreshes_ = xcb_.register_for_special_xge(connection_, xcb_.present_id, present_id_, nullptr);
  if (refreshes_ == nullptr || !Succeeded(xcb_, connection_,
                                          xcb_.present_select_input_checked(connection_, present_id_, window_,
                                                                            XCB_PRESENT_EVENT_MASK_COMPLETE_NOTIFY))) {
    if (refreshes_ != nullptr) xcb_.unregister_for_special_event(connection_, refreshes_);
    refreshes_ = nullptr;
    present_id_ = 0;
  }
}

XcbPresenter::~XcbPresenter() {
  if (present_id_ != 0) {
    // Waits: events that are on their way must find their queue, else they end in the program's.
    Succeeded(xcb_, connection_,
              xcb_.present_select_input_checked(connection_, present_id_, window_, XCB_PRESENT_EVENT_MASK_NO_EVENT));
    xcb_.unregister_for_special_event(connection_, refreshes_);
  }
  if (segment_ != 0) Forget(xcb_, connection_, xcb_.shm_detach_checked(connection_, segment_));
  if (gc_ != 0) Succeeded(xcb_, connection_, xcb_.free_gc_checked(connection_, gc_));  // one flush for all
}

xcb_void_cookie_t XcbPresenter::PutShm() {
  const uint16_t width = static_cast<uint16_t>(extent_.width), height = static_cast<uint16_t>(extent_.height);
  return xcb_.shm_put_image_checked(connection_, window_, gc_, width, height, 0, 0, width, height, 0, 0, depth_,
                                    XCB_IMAGE_FORMAT_Z_PIXMAP, 0, segment_, 0);
}

bool XcbPresenter::PutThroughConnection(const uint8_t* pixels) {
  constexpr size_t kHeader = 64;  // more than that of the request
  const size_t row = size_t{extent_.width} * 4;
  const size_t longest = size_t{xcb_.get_maximum_request_length(connection_)} * 4;
  if (longest < kHeader + row) return false;
  const uint32_t rows = static_cast<uint32_t>(std::min<size_t>((longest - kHeader) / row, extent_.height));
  for (uint32_t y = 0; y < extent_.height; y += rows) {
    const uint32_t count = std::min(rows, extent_.height - y);
    const auto cookie = xcb_.put_image_checked(connection_, XCB_IMAGE_FORMAT_Z_PIXMAP, window_, gc_,
                                               static_cast<uint16_t>(extent_.width), static_cast<uint16_t>(count), 0,
                                               static_cast<int16_t>(y), 0, depth_, static_cast<uint32_t>(count * row),
                                               pixels + y * row);
    if (!Succeeded(xcb_, connection_, cookie)) return false;
  }
  return true;
}

void XcbPresenter::ReadRefreshes() {
  while (xcb_generic_event_t* event = xcb_.poll_for_special_event(connection_, refreshes_)) {
    const void* generic = event;
    const auto* complete = static_cast<const xcb_present_complete_notify_event_t*>(generic);
    if (complete->event_type == XCB_PRESENT_COMPLETE_NOTIFY) {
      asked_ = false;
      if (complete->ust < static_cast<uint64_t>(INT64_MAX / 1000)) {
        clock_.Observe(static_cast<int64_t>(complete->ust) * 1000, complete->msc, MonotonicNow());
      }
    }
    free(event);
  }
}

// When does the display refresh next? The answer comes with some later frame; until then the last one counts.
void XcbPresenter::AskForRefresh() {
  if (asked_) return;
  asked_ = true;
  Forget(xcb_, connection_, xcb_.present_notify_msc_checked(connection_, window_, 0, 0, 1, 0));
}

VkResult XcbPresenter::Show(const Frame& frame, const std::function<void()>& released) {
  const bool direct = segment_ == 0 && !conversion_.swap_red_blue && !conversion_.force_opaque;
  if (!direct) {
    ConvertPixels(frame.pixels, segment_ != 0 ? shared_.data() : staged_.get(), extent_.width, extent_.height,
                  conversion_);
    released();
  }
  if (present_id_ != 0) AskForRefresh();
  uint32_t width = 0, height = 0;
  bool shown = false;
  if (segment_ != 0) {
    const xcb_void_cookie_t put = PutShm();
    shown = SizeOfWindow(xcb_, connection_, window_, &width, &height);  // the one round trip
    shown = Succeeded(xcb_, connection_, put) && shown;
  } else {
    shown = PutThroughConnection(direct ? frame.pixels : staged_.get());
    if (direct) released();
    shown = shown && SizeOfWindow(xcb_, connection_, window_, &width, &height);
  }
  if (!shown) return VK_ERROR_SURFACE_LOST_KHR;
  if (present_id_ != 0) ReadRefreshes();
  return width == extent_.width && height == extent_.height ? VK_SUCCESS : VK_SUBOPTIMAL_KHR;
}

VkResult XcbSurface::NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) {
  XcbPixels pixels;
  if (!Pixels(&pixels)) return VK_ERROR_SURFACE_LOST_KHR;
  // X11 has no larger windows.
  if (!pixels.supported || options.extent.width > INT16_MAX || options.extent.height > INT16_MAX) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  auto created = std::make_unique<XcbPresenter>(xcb_, connection_, window_, pixels, options);
  if (const VkResult r = created->Init(); r != VK_SUCCESS) return r;
  *presenter = std::move(created);
  return VK_SUCCESS;
}

VkResult CreateSurface(xcb_connection_t* connection, xcb_window_t window, VkSurfaceKHR* surface) {
  const XcbApi* xcb = GetXcbApi();
  if (xcb == nullptr || connection == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  *surface = SurfaceHandle(new XcbSurface(*xcb, connection, window));
  return VK_SUCCESS;
}

}  // namespace

VkResult CreateXcbSurface(const VkXcbSurfaceCreateInfoKHR& info, VkSurfaceKHR* surface) {
  return CreateSurface(info.connection, info.window, surface);
}

VkBool32 GetXcbPresentationSupport(const PhysicalDevice& device, uint32_t family, xcb_connection_t* connection,
                                   uint32_t visual_id) {
  const XcbApi* xcb = GetXcbApi();
  if (xcb == nullptr || connection == nullptr || !FamilyCanPresent(device, family)) return VK_FALSE;
  return PixelsOfVisual(*xcb, connection, visual_id).supported ? VK_TRUE : VK_FALSE;
}

}  // namespace sluice::wsi
