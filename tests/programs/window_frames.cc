#include "tests/programs/window_frames.h"

#include <sys/mman.h>
#include <wayland-client.h>
#include <xcb/xcb.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "absl/time/clock.h"
#include "icd/wsi/testing/window_server.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"

namespace sluice::programs {
namespace {

using wsi::testing::ChildProcess;
using wsi::testing::TemporaryDirectory;
using wsi::testing::Weston;
using wsi::testing::XServer;

constexpr absl::Duration kLongestRun = absl::Seconds(240);

bool IsPicture(const Pixels& pixels) {
  return std::adjacent_find(pixels.begin(), pixels.end(), std::not_equal_to<>()) != pixels.end();
}

// Runs the program and calls `grab` again and again meanwhile; it adds to the frames what it sees.
ProgramRun RunAndWatch(const std::vector<std::string>& argv, const std::map<std::string, std::string>& env,
                       const std::function<void(std::set<Pixels>&)>& grab) {
  const TemporaryDirectory directory;
  const std::string log = directory.path() + "/log";
  ProgramRun run;
  auto process = ChildProcess::Start(argv, env, directory.path(), log);
  if (!process.ok()) {
    run.output = std::string(process.status().message());
    return run;
  }
  const absl::Time deadline = absl::Now() + kLongestRun;
  while (absl::Now() < deadline && (run.status = (*process)->Wait(0)) == -1) grab(run.frames);
  run.output = wsi::testing::ReadText(log);
  return run;
}

class X11Screen : public Screen {
 public:
  static std::unique_ptr<Screen> Start(std::string* why) {
    auto screen = std::make_unique<X11Screen>();
    screen->server_ = XServer::Start({}, why);
    if (screen->server_ == nullptr) return nullptr;
    screen->connection_ = xcb_connect(screen->server_->display().c_str(), nullptr);
    if (xcb_connection_has_error(screen->connection_) != 0) {
      *why = "no connection to the X server";
      return nullptr;
    }
    screen->root_ = xcb_setup_roots_iterator(xcb_get_setup(screen->connection_)).data->root;
    return screen;
  }
  ~X11Screen() override {
    if (connection_ != nullptr) xcb_disconnect(connection_);
  }

  ProgramRun Run(const ProgramWindow& program, std::map<std::string, std::string> env) override {
    width_ = program.width;
    height_ = program.height;
    env["DISPLAY"] = server_->display();
    return RunAndWatch(program.argv, env, [this](std::set<Pixels>& frames) { Grab(frames); });
  }

 private:
  void Grab(std::set<Pixels>& frames) {
    xcb_query_tree_reply_t* tree = xcb_query_tree_reply(connection_, xcb_query_tree(connection_, root_), nullptr);
    if (tree == nullptr) return;
    for (int i = 0; i < xcb_query_tree_children_length(tree); i++) GrabWindow(xcb_query_tree_children(tree)[i], frames);
    free(tree);
  }
  // Other windows and such that are not visible are errors, and no pictures.
  void GrabWindow(xcb_window_t window, std::set<Pixels>& frames) {
    xcb_get_image_reply_t* image =
        xcb_get_image_reply(connection_,
                            xcb_get_image(connection_, XCB_IMAGE_FORMAT_Z_PIXMAP, window, 0, 0,
                                          static_cast<uint16_t>(width_), static_cast<uint16_t>(height_), ~0u),
                            nullptr);
    if (image == nullptr) return;
    Pixels pixels(size_t{width_} * height_);
    if (static_cast<size_t>(xcb_get_image_data_length(image)) == pixels.size() * 4) {
      memcpy(pixels.data(), xcb_get_image_data(image), pixels.size() * 4);
      for (uint32_t& pixel : pixels) pixel |= 0xff000000;
      if (IsPicture(pixels)) frames.insert(std::move(pixels));
    }
    free(image);
  }

  std::unique_ptr<XServer> server_;
  xcb_connection_t* connection_ = nullptr;
  xcb_window_t root_ = 0;
  uint32_t width_ = 0, height_ = 0;
};

// Weston's own protocol for screenshots: take_shot(output, buffer), then the event done.
const wl_interface* const kShotTypes[] = {&wl_output_interface, &wl_buffer_interface};
const wl_message kShotRequests[] = {{"take_shot", "oo", const_cast<const wl_interface**>(kShotTypes)}};
const wl_message kShotEvents[] = {{"done", "", const_cast<const wl_interface**>(kShotTypes)}};
const wl_interface kScreenshooter = {"weston_screenshooter", 1, 1, kShotRequests, 1, kShotEvents};
struct ScreenshooterListener {
  void (*done)(void* data, wl_proxy* screenshooter);
};

class WaylandScreen : public Screen {
 public:
  static std::unique_ptr<Screen> Start(std::string* why) {
    auto screen = std::make_unique<WaylandScreen>();
    screen->weston_ = Weston::Start(why);
    if (screen->weston_ == nullptr) return nullptr;
    if (!screen->Connect()) {
      *why = "Weston lets nobody take screenshots";
      return nullptr;
    }
    return screen;
  }
  ~WaylandScreen() override {
    if (display_ != nullptr) wl_display_disconnect(display_);
  }

  ProgramRun Run(const ProgramWindow& program, std::map<std::string, std::string> env) override {
    width_ = program.width;
    height_ = program.height;
    env["XDG_RUNTIME_DIR"] = weston_->directory();
    env["WAYLAND_DISPLAY"] = "wayland";
    return RunAndWatch(program.argv, env, [this](std::set<Pixels>& frames) { Grab(frames); });
  }

 private:
  static constexpr uint32_t kOutputWidth = 640, kOutputHeight = 480;

  bool Connect() {
    display_ = wl_display_connect(weston_->socket().c_str());
    if (display_ == nullptr) return false;
    static constexpr wl_registry_listener kListener = {OnGlobal, [](void*, wl_registry*, uint32_t) {}};
    wl_registry_add_listener(wl_display_get_registry(display_), &kListener, this);
    wl_display_roundtrip(display_);
    // The shell's client is ready later than the socket; what takes pictures comes with it.
    if (shm_ == nullptr || output_ == nullptr || screenshooter_ == nullptr) return false;
    static constexpr ScreenshooterListener kDone = {
        [](void* data, wl_proxy*) { static_cast<WaylandScreen*>(data)->done_ = true; }};
    void* functions = const_cast<ScreenshooterListener*>(&kDone);
    wl_proxy_add_listener(screenshooter_, static_cast<void (**)()>(functions), this);
    constexpr int32_t kBytes = kOutputWidth * kOutputHeight * 4;
    auto fd = CreateMemFd("shot", kBytes);
    if (!fd.ok()) return false;
    auto mapping = Mapping::MapShared(fd->get(), 0, kBytes, Mapping::kReadWrite);
    if (!mapping.ok()) return false;
    shot_ = *std::move(mapping);
    wl_shm_pool* pool = wl_shm_create_pool(shm_, fd->get(), kBytes);
    buffer_ = wl_shm_pool_create_buffer(pool, 0, kOutputWidth, kOutputHeight, kOutputWidth * 4, WL_SHM_FORMAT_XRGB8888);
    wl_shm_pool_destroy(pool);
    return true;
  }
  static void OnGlobal(void* data, wl_registry* registry, uint32_t name, const char* interface, uint32_t /*version*/) {
    auto* self = static_cast<WaylandScreen*>(data);
    const auto bind = [&](const wl_interface& wanted) -> void* {
      return strcmp(interface, wanted.name) == 0 ? wl_registry_bind(registry, name, &wanted, 1) : nullptr;
    };
    if (void* shm = bind(wl_shm_interface)) self->shm_ = static_cast<wl_shm*>(shm);
    if (void* output = bind(wl_output_interface)) self->output_ = static_cast<wl_output*>(output);
    if (void* shooter = bind(kScreenshooter)) self->screenshooter_ = static_cast<wl_proxy*>(shooter);
  }

  // One picture of the output, at its next refresh.
  void Grab(std::set<Pixels>& frames) {
    done_ = false;
    wl_proxy_marshal_flags(screenshooter_, 0, nullptr, 1, 0, output_, buffer_);
    while (!done_ && wl_display_dispatch(display_) >= 0) {
    }
    if (!done_) return;
    Pixels pixels = Window();
    if (IsPicture(pixels)) frames.insert(std::move(pixels));
  }
  // The window on the black output; empty if there is none, or not one of that size.
  Pixels Window() const {
    const auto at = [this](uint32_t x, uint32_t y) {
      uint32_t pixel;
      memcpy(&pixel, shot_.data() + (size_t{y} * kOutputWidth + x) * 4, 4);
      return pixel | 0xff000000;
    };
    for (uint32_t y = 0; y + height_ <= kOutputHeight; y++) {
      for (uint32_t x = 0; x + width_ <= kOutputWidth; x++) {
        if (at(x, y) == 0xff000000) continue;
        Pixels pixels;
        for (uint32_t row = 0; row < height_; row++) {
          for (uint32_t column = 0; column < width_; column++) pixels.push_back(at(x + column, y + row));
        }
        return pixels;
      }
    }
    return {};
  }

  std::unique_ptr<Weston> weston_;
  wl_display* display_ = nullptr;
  wl_shm* shm_ = nullptr;
  wl_output* output_ = nullptr;
  wl_proxy* screenshooter_ = nullptr;
  wl_buffer* buffer_ = nullptr;
  Mapping shot_;
  bool done_ = false;
  uint32_t width_ = 0, height_ = 0;
};

}  // namespace

std::unique_ptr<Screen> Screen::StartX11(std::string* why) {
  return X11Screen::Start(why);
}
std::unique_ptr<Screen> Screen::StartWayland(std::string* why) {
  return WaylandScreen::Start(why);
}

}  // namespace sluice::programs
