// File: triangle_scene.h
//
// A turning triangle: red, green and blue corners on a dark ground, drawn off screen and copied to host-visible memory
// as R8G8B8A8, top row first. One turn is 60 frames. The turn is computed with integers, so that a frame's commands are
// the same bytes wherever they are made; what the pixels are is then the driver's doing alone.
//
//   TriangleScene scene;
//   scene.Create(&device, 256);
//   scene.Render(frame);
//   const uint8_t* rgba = scene.pixels();
//   const char* wrong = CheckTriangle(rgba, 256);   // null: it looks like the triangle
#ifndef SLUICE_TESTS_SCENES_TRIANGLE_SCENE_H_
#define SLUICE_TESTS_SCENES_TRIANGLE_SCENE_H_

#include <stddef.h>
#include <stdint.h>

#include "tests/scenes/scene_device.h"

namespace sluice::scenes {

inline constexpr uint32_t kTriangleTurnFrames = 60;

// Cosine and sine of `frame` sixtieths of a turn. Exactly the same floats everywhere.
struct Turn {
  float cosine, sine;
};
Turn TurnOfFrame(uint32_t frame);

class TriangleScene {
 public:
  TriangleScene() = default;
  ~TriangleScene() { Destroy(); }
  TriangleScene(const TriangleScene&) = delete;
  TriangleScene& operator=(const TriangleScene&) = delete;

  // `size`: pixels each way, 16..4096. `device` outlives the scene.
  SceneStatus Create(SceneDevice* device, uint32_t size);
  void Destroy();
  // Draws one frame and waits for it.
  SceneStatus Render(uint32_t frame);
  // The last frame: 4 * size * size bytes. Valid until the next Render.
  const uint8_t* pixels() const { return static_cast<const uint8_t*>(readback_.data()); }
  size_t bytes() const { return size_t{4} * size_ * size_; }

 private:
  SceneStatus CreateImage();
  SceneStatus CreatePass();
  SceneStatus CreatePipeline();

  SceneDevice* device_ = nullptr;
  uint32_t size_ = 0;
  VkImage image_ = VK_NULL_HANDLE;
  VkDeviceMemory image_memory_ = VK_NULL_HANDLE;
  VkImageView view_ = VK_NULL_HANDLE;
  VkRenderPass pass_ = VK_NULL_HANDLE;
  VkFramebuffer framebuffer_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  SceneBuffer readback_;
  SceneCommands commands_;
};

// Looks at a picture that should be the triangle, at whatever turn: ground in the corners, the mean of the corner
// colours in the centre, opaque everywhere, and the triangle's area. Null if so, else what is wrong.
const char* CheckTriangle(const uint8_t* rgba, uint32_t size);

}  // namespace sluice::scenes

#endif  // SLUICE_TESTS_SCENES_TRIANGLE_SCENE_H_
