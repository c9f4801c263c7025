// File: compute_scene.h
//
// SAXPY: y = a * x + y over a million floats in host-visible memory. The numbers are chosen so that every result is
// exact in single precision, fused or not: the check is equality.
//
//   ComputeScene scene;
//   scene.Create(&device, 1 << 20);
//   scene.Run();
//   if (scene.FirstWrong() != scene.count()) ...
//   scene.Paint(pixels, 256);
#ifndef SLUICE_TESTS_SCENES_COMPUTE_SCENE_H_
#define SLUICE_TESTS_SCENES_COMPUTE_SCENE_H_

#include <stdint.h>

#include "tests/scenes/scene_device.h"

namespace sluice::scenes {

class ComputeScene {
 public:
  ComputeScene() = default;
  ~ComputeScene() { Destroy(); }
  ComputeScene(const ComputeScene&) = delete;
  ComputeScene& operator=(const ComputeScene&) = delete;

  // `count`: 1 .. 1 << 23. `device` outlives the scene.
  SceneStatus Create(SceneDevice* device, uint32_t count);
  void Destroy();
  // Fills x and y, computes, waits.
  SceneStatus Run();
  uint32_t count() const { return count_; }
  // Index of the first result that is not what it must be; count() if there is none.
  uint32_t FirstWrong() const;
  float result(uint32_t index) const { return static_cast<const float*>(y_.data())[index]; }
  static float Expected(uint32_t index);
  // A picture of the results: `size` x `size` pixels R8G8B8A8, each one result, spread evenly.
  void Paint(uint8_t* rgba, uint32_t size) const;

 private:
  SceneStatus CreateDescriptors();
  SceneStatus CreatePipeline();

  SceneDevice* device_ = nullptr;
  uint32_t count_ = 0;
  SceneBuffer x_, y_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  SceneCommands commands_;
};

}  // namespace sluice::scenes

#endif  // SLUICE_TESTS_SCENES_COMPUTE_SCENE_H_
