#include "icd/wsi/xcb_window.h"

namespace sluice::wsi {
namespace {

uint8_t BitsPerPixel(const XcbApi& xcb, const xcb_setup_t* setup, uint8_t depth) {
  const xcb_format_t* formats = xcb.setup_pixmap_formats(setup);
  for (int i = 0; i < xcb.setup_pixmap_formats_length(setup); i++) {
    if (formats[i].depth == depth) return formats[i].bits_per_pixel;
  }
  return 0;
}

XcbPixels Describe(const XcbApi& xcb, const xcb_setup_t* setup, uint8_t depth, const xcb_visualtype_t& visual) {
  XcbPixels pixels;
  pixels.depth = depth;
  pixels.alpha = depth == 32;
  if (visual._class != XCB_VISUAL_CLASS_TRUE_COLOR || (depth != 24 && depth != 32)) return pixels;
  if (BitsPerPixel(xcb, setup, depth) != 32 || setup->image_byte_order != XCB_IMAGE_ORDER_LSB_FIRST) return pixels;
  const bool bgra = visual.red_mask == 0xff0000 && visual.blue_mask == 0xff;
  const bool rgba = visual.red_mask == 0xff && visual.blue_mask == 0xff0000;
  pixels.supported = visual.green_mask == 0xff00 && (bgra || rgba);
  pixels.order = rgba ? ChannelOrder::kRgba : ChannelOrder::kBgra;
  return pixels;
}

}  // namespace

XcbPixels PixelsOfVisual(const XcbApi& xcb, xcb_connection_t* connection, xcb_visualid_t visual) {
  const xcb_setup_t* setup = xcb.connection_has_error(connection) != 0 ? nullptr : xcb.get_setup(connection);
  if (setup == nullptr) return {};
  for (auto screen = xcb.setup_roots_iterator(setup); screen.rem > 0; xcb.screen_next(&screen)) {
    for (auto depth = xcb.screen_allowed_depths_iterator(screen.data); depth.rem > 0; xcb.depth_next(&depth)) {
      const xcb_visualtype_t* visuals = xcb.depth_visuals(depth.data);
      for (int i = 0; i < xcb.depth_visuals_length(depth.data); i++) {
        if (visuals[i].visual_id == visual) return Describe(xcb, setup, depth.data->depth, visuals[i]);
      }
    }
  }
  return {};
}

bool VisualOfWindow(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window, xcb_visualid_t* visual) {
  xcb_generic_error_t* error = nullptr;
  const XcbReply<xcb_get_window_attributes_reply_t> reply(
      xcb.get_window_attributes_reply(connection, xcb.get_window_attributes(connection, window), &error));
  free(error);
  if (reply == nullptr) return false;
  *visual = reply->visual;
  return true;
}

bool SizeOfWindow(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window, uint32_t* width,
                  uint32_t* height) {
  xcb_generic_error_t* error = nullptr;
  const XcbReply<xcb_get_geometry_reply_t> reply(
      xcb.get_geometry_reply(connection, xcb.get_geometry(connection, window), &error));
  free(error);
  if (reply == nullptr) return false;
  *width = reply->width;
  *height = reply->height;
  return true;
}

bool Succeeded(const XcbApi& xcb, xcb_connection_t* connection, xcb_void_cookie_t cookie) {
  const XcbReply<xcb_generic_error_t> error(xcb.request_check(connection, cookie));
  return error == nullptr && xcb.connection_has_error(connection) == 0;
}

bool HasExtension(const XcbApi& xcb, xcb_connection_t* connection, xcb_extension_t* id) {
  if (id == nullptr) return false;
  const xcb_query_extension_reply_t* extension = xcb.get_extension_data(connection, id);
  return extension != nullptr && extension->present != 0;
}

}  // namespace sluice::wsi
