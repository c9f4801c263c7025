# Programs with windows: vkcube and its kin, natively and through Sluice, on X11 and Wayland.
pkg_check_modules(XCB IMPORTED_TARGET xcb xcb-shm xcb-present)
pkg_check_modules(WAYLAND_CLIENT IMPORTED_TARGET wayland-client)
if(XCB_FOUND AND WAYLAND_CLIENT_FOUND AND NOT SLUICE_SANITIZER AND NOT SLUICE_FUZZ)   # the programs are not built for sanitizers
  sluice_test(window_test SRCS window_test.cc window_frames.cc DEPS wsi_testing PkgConfig::XCB PkgConfig::WAYLAND_CLIENT TIMEOUT 900
    LABELS vulkan SERIAL)   # each draws as fast as it can: two of them, and others starve (docs/status.md)
  target_compile_definitions(window_test PRIVATE SLUICE_BUILD_DIRECTORY="${CMAKE_BINARY_DIR}")
  add_dependencies(window_test sluice_icd sluice-domain sluice-worker)
endif()
