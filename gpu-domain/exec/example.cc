// A guest and its executor in one process: plain Vulkan calls become frames in a ring, the executor runs them on the
// driver of this machine, and the picture comes back through shared memory. Prints it.
#include <cstdio>

#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

int main() {
  using namespace sluice::exec::testing;
  Harness worker;
  GuestDevice device;
  if (!device.ok) {
    fprintf(stderr, "no Vulkan driver here\n");
    return 77;
  }
  const std::vector<uint32_t> pixels = DrawTriangle(device);
  for (int y = 0; y < 64; y += 4) {
    for (int x = 0; x < 64; x += 2)
      putchar("rgb."[pixels[y * 64 + x] == 0xff330000         ? 3
                     : (pixels[y * 64 + x] & 0xff) > 100      ? 0
                     : (pixels[y * 64 + x] >> 8 & 0xff) > 100 ? 1
                                                              : 2]);
    putchar('\n');
  }
  device.Destroy();
  worker.Pump();
  printf("%llu commands, %llu objects left, %s\n", static_cast<unsigned long long>(worker.context().commands()),
         static_cast<unsigned long long>(worker.context().objects()), worker.status().ToString().c_str());
  return worker.status().ok() ? 0 : 1;
}
