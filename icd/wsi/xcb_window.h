// File: xcb_window.h
//
// Questions to an X server, each one round trip. Errors of requests never reach the program: they would end it, where
// Xlib reads the connection. Private to this directory.
#ifndef SLUICE_ICD_WSI_XCB_WINDOW_H_
#define SLUICE_ICD_WSI_XCB_WINDOW_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "icd/wsi/pixels.h"
#include "icd/wsi/xcb_api.h"

namespace sluice::wsi {

struct FreeReply {
  void operator()(void* reply) const { free(reply); }
};
template <typename Reply>
using XcbReply = std::unique_ptr<Reply, FreeReply>;

struct XcbPixels {
  bool supported = false;  // TrueColor, 32 bits a pixel, 8 a channel, lowest byte first
  ChannelOrder order = ChannelOrder::kBgra;
  uint8_t depth = 0;
  bool alpha = false;  // the visual's depth has bits for it
};

// What the pixels of a visual look like. Unsupported also if the connection is broken or has no such visual.
XcbPixels PixelsOfVisual(const XcbApi& xcb, xcb_connection_t* connection, xcb_visualid_t visual);
// False: there is no such window any more, or no server.
bool VisualOfWindow(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window, xcb_visualid_t* visual);
bool SizeOfWindow(const XcbApi& xcb, xcb_connection_t* connection, xcb_window_t window, uint32_t* width,
                  uint32_t* height);
// Waits for a request sent with _checked. False: it failed.
bool Succeeded(const XcbApi& xcb, xcb_connection_t* connection, xcb_void_cookie_t cookie);
// Whoever sent it does not care.
inline void Forget(const XcbApi& xcb, xcb_connection_t* connection, xcb_void_cookie_t cookie) {
  xcb.discard_reply(connection, cookie.sequence);
}
// Whether the server has the extension; null id: no.
bool HasExtension(const XcbApi& xcb, xcb_connection_t* connection, xcb_extension_t* id);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_XCB_WINDOW_H_
