// A turning triangle, drawn through the GPU Domain by Vulkan commands that this guest encodes, read back, checked and
// shown. Options: frames=N (default 60), first=N (default 0), size=N (16..1024, default 256), verbose=1 (a line for
// each frame).
//
// The last line says `TRIANGLE frames=N size=N hash=H`: FNV-1a over the pixels of all frames in order, to be compared
// with what the same scene gives natively (tests/scenes).
#include <string.h>

#include "firmware/drivers/framebuffer.h"
#include "firmware/guests/scene_guest.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/hash.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"
#include "tests/scenes/triangle_scene.h"

int sluice::firmware::GuestMain() {
  const auto frames = static_cast<uint32_t>(OptionNumber("frames", 60, 1, 1'000'000));
  const auto first = static_cast<uint32_t>(OptionNumber("first", 0, 0, 1'000'000));
  const auto size = static_cast<uint32_t>(OptionNumber("size", 256, 16, 1024));
  const bool verbose = OptionNumber("verbose", 0, 0, 1) != 0;

  SceneGuest guest("triangle");
  scenes::TriangleScene scene;
  guest.Require(scene.Create(&guest.device(), size));
  Framebuffer screen(&guest.gpu(), size, size);
  guest.Require(screen.Create(0), "scanout");

  uint64_t all = kFnvStart, before = 0;
  const uint64_t begin = NowNs();
  for (uint32_t frame = first; frame < first + frames; frame++) {
    guest.Require(scene.Render(frame));
    memcpy(screen.pixels(), scene.pixels(), screen.bytes());
    const auto* pixels = reinterpret_cast<const uint8_t*>(screen.pixels());
    const char* wrong = scenes::CheckTriangle(pixels, size);
    if (wrong != nullptr) Fail(ExitCode::kCheckFailed, "frame %u: %s", frame, wrong);
    const uint64_t hash = Fnv1a64(pixels, screen.bytes());
    if (frame != first && hash == before) Fail(ExitCode::kCheckFailed, "frame %u is the same as the one before", frame);
    before = hash;
    all = Fnv1a64(pixels, screen.bytes(), all);
    guest.Require(screen.Show(), "flush");
    if (verbose) Print("frame %u hash=%016llx\n", frame, static_cast<unsigned long long>(hash));
  }
  const uint64_t us = (NowNs() - begin) / 1000;
  Print("%u frames in %llu us, %llu fence waits, %llu doorbells\n", frames, static_cast<unsigned long long>(us),
        static_cast<unsigned long long>(guest.vulkan().waits()),
        static_cast<unsigned long long>(guest.vulkan().doorbells()));
  scene.Destroy();
  guest.device().Close();
  Print("TRIANGLE frames=%u size=%u hash=%016llx\n", frames, size, static_cast<unsigned long long>(all));
  // Not `return`: the driver's end resets the device, and the picture would leave the screen.
  Exit(0);
}
