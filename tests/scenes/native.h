// File: native.h
//
// The scenes drawn in this process by the Vulkan driver at hand: what a guest's picture is compared with.
//
//   SLUICE_ASSIGN_OR_RETURN(std::vector<uint8_t> rgba, RenderTriangleFrame(59));
//   EXPECT_EQ(rgba, picture_of_the_guest);
#ifndef SLUICE_TESTS_SCENES_NATIVE_H_
#define SLUICE_TESTS_SCENES_NATIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/scenes/scene_device.h"
#include "tests/scenes/triangle_scene.h"

namespace sluice::scenes {

// The triangle with its device kept for many frames. One thread.
class NativeTriangle {
 public:
  // NOT_FOUND: no Vulkan device whose name holds `device_name` (empty: the first). INTERNAL: a Vulkan call failed.
  static absl::StatusOr<std::unique_ptr<NativeTriangle>> Create(uint32_t size, const std::string& device_name = "");
  // R8G8B8A8, top row first.
  absl::StatusOr<std::vector<uint8_t>> Frame(uint32_t frame);
  const char* device_name() const { return device_.properties().deviceName; }

 private:
  NativeTriangle() = default;
  SceneDevice device_;
  TriangleScene scene_;
};

// One frame of the triangle, size x size pixels R8G8B8A8.
absl::StatusOr<std::vector<uint8_t>> RenderTriangleFrame(uint32_t frame, uint32_t size = 256);
// The picture of the compute scene's results. INTERNAL also if a result is wrong.
absl::StatusOr<std::vector<uint8_t>> RenderComputePicture(uint32_t count = 1 << 20, uint32_t size = 256);

}  // namespace sluice::scenes

#endif  // SLUICE_TESTS_SCENES_NATIVE_H_
