// scene_native triangle FRAME [SIZE] > rgba      one frame, raw R8G8B8A8, drawn by the Vulkan driver of this machine
// scene_native compute > rgba                    the picture of the compute scene
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/scenes/native.h"

int main(int argc, char** argv) {
  absl::StatusOr<std::vector<uint8_t>> picture =
      absl::InvalidArgumentError("usage: scene_native triangle FRAME [SIZE] | compute");
  if (argc >= 3 && std::strcmp(argv[1], "triangle") == 0) {
    const unsigned long size = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 256;
    if (size >= 16 && size <= 4096) {
      picture = sluice::scenes::RenderTriangleFrame(static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)), size);
    }
  } else if (argc == 2 && std::strcmp(argv[1], "compute") == 0) {
    picture = sluice::scenes::RenderComputePicture();
  }
  if (!picture.ok()) {
    std::fprintf(stderr, "scene_native: %s\n", picture.status().ToString().c_str());
    return 1;
  }
  return std::fwrite(picture->data(), 1, picture->size(), stdout) == picture->size() ? 0 : 1;
}
