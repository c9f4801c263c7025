// SAXPY over a million floats through the GPU Domain, each result checked in the guest, and a picture of the results on
// the scanout. Options: count=N (1..8388608, default 1048576), rounds=N (default 1).
//
// The last line says `COMPUTE count=N hash=H`: FNV-1a over the results.
#include "firmware/drivers/framebuffer.h"
#include "firmware/guests/scene_guest.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/hash.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"
#include "tests/scenes/compute_scene.h"

int sluice::firmware::GuestMain() {
  const auto count = static_cast<uint32_t>(OptionNumber("count", 1 << 20, 1, 1 << 23));
  const uint64_t rounds = OptionNumber("rounds", 1, 1, 1'000'000);
  constexpr uint32_t kSize = 256;

  SceneGuest guest("compute");
  scenes::ComputeScene scene;
  guest.Require(scene.Create(&guest.device(), count));
  Framebuffer screen(&guest.gpu(), kSize, kSize);
  guest.Require(screen.Create(0), "scanout");

  const uint64_t begin = NowNs();
  for (uint64_t round = 0; round < rounds; round++) {
    guest.Require(scene.Run());
    const uint32_t wrong = scene.FirstWrong();
    if (wrong != count) {
      Fail(ExitCode::kCheckFailed, "result %u is %f, not %f", wrong, static_cast<double>(scene.result(wrong)),
           static_cast<double>(scenes::ComputeScene::Expected(wrong)));
    }
    scene.Paint(reinterpret_cast<uint8_t*>(screen.pixels()), kSize);
    guest.Require(screen.Show(), "flush");
  }
  const uint64_t us = (NowNs() - begin) / 1000;
  uint64_t hash = kFnvStart;
  for (uint32_t i = 0; i < count; i++) {
    const float value = scene.result(i);
    hash = Fnv1a64(&value, sizeof(value), hash);
  }
  Print("%llu rounds in %llu us\n", static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(us));
  scene.Destroy();
  guest.device().Close();
  Print("COMPUTE count=%u hash=%016llx\n", count, static_cast<unsigned long long>(hash));
  // Not `return`: the driver's end resets the device, and the picture would leave the screen.
  Exit(0);
}
