// File: scene_guest.h
//
// What the guests that draw have in common: device, Vulkan context and scene device opened in order, each failure
// ending the guest with a message and the right exit code.
//
//   SceneGuest guest("triangle");
//   scene.Create(&guest.device(), 256);
#ifndef SLUICE_FIRMWARE_GUESTS_SCENE_GUEST_H_
#define SLUICE_FIRMWARE_GUESTS_SCENE_GUEST_H_

#include "firmware/drivers/gpu.h"
#include "firmware/vulkan/vulkan_context.h"
#include "tests/scenes/scene_device.h"

namespace sluice::firmware {

class SceneGuest {
 public:
  // `name`: of the context, for the host's logs.
  explicit SceneGuest(const char* name);

  Gpu& gpu() { return gpu_; }
  VulkanContext& vulkan() { return vulkan_; }
  scenes::SceneDevice& device() { return device_; }

  // Ends the guest if `status` is an error: kDeviceLost if the context is lost, else kCheckFailed.
  void Require(const scenes::SceneStatus& status);
  // The same for a virtio-gpu command.
  void Require(GpuResult result, const char* what);

 private:
  Gpu gpu_;
  VulkanContext vulkan_;
  scenes::SceneDevice device_;
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_GUESTS_SCENE_GUEST_H_
