// File: framebuffer.h
//
// A picture in guest memory that a scanout shows: R8G8B8A8, top row first.
//
//   Framebuffer screen(&gpu, 256, 256);
//   if (screen.Create(0) != GpuResult::kOk) ...
//   memcpy(screen.pixels(), picture, screen.bytes());
//   screen.Show();
#ifndef SLUICE_FIRMWARE_DRIVERS_FRAMEBUFFER_H_
#define SLUICE_FIRMWARE_DRIVERS_FRAMEBUFFER_H_

#include <stddef.h>
#include <stdint.h>

#include "firmware/drivers/gpu.h"

namespace sluice::firmware {

class Framebuffer {
 public:
  // `gpu` outlives the framebuffer. width, height: 1..4096.
  Framebuffer(Gpu* gpu, uint32_t width, uint32_t height);
  ~Framebuffer();
  Framebuffer(const Framebuffer&) = delete;
  Framebuffer& operator=(const Framebuffer&) = delete;

  // Makes the resource, puts the memory behind it and binds it to `scanout`.
  GpuResult Create(uint32_t scanout);
  uint32_t* pixels() { return pixels_; }
  size_t bytes() const { return size_t{4} * width_ * height_; }
  // Copies the picture to the device and shows it.
  GpuResult Show();

 private:
  Gpu* gpu_;
  uint32_t width_, height_;
  uint32_t* pixels_;
  uint32_t resource_ = 0;
  uint32_t scanout_ = 0;
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_FRAMEBUFFER_H_
