// Writes what the first screen of an X server shows to standard output: 4 bytes per pixel, as the server has them.
//   screen_grab :99
#include <xcb/xcb.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: screen_grab DISPLAY\n");
    return 2;
  }
  xcb_connection_t* connection = xcb_connect(argv[1], nullptr);
  if (xcb_connection_has_error(connection) != 0) {
    fprintf(stderr, "screen_grab: no X server at %s\n", argv[1]);
    return 1;
  }
  const xcb_screen_t* screen = xcb_setup_roots_iterator(xcb_get_setup(connection)).data;
  const xcb_get_image_cookie_t cookie = xcb_get_image(connection, XCB_IMAGE_FORMAT_Z_PIXMAP, screen->root, 0, 0,
                                                      screen->width_in_pixels, screen->height_in_pixels, ~0u);
  xcb_get_image_reply_t* reply = xcb_get_image_reply(connection, cookie, nullptr);
  if (reply == nullptr) {
    fprintf(stderr, "screen_grab: the server gives no picture\n");
    return 1;
  }
  const size_t size = static_cast<size_t>(xcb_get_image_data_length(reply));
  const bool written = fwrite(xcb_get_image_data(reply), 1, size, stdout) == size && fflush(stdout) == 0;
  free(reply);
  xcb_disconnect(connection);
  return written ? 0 : 1;
}
