// File: surface.h
//
// What a window system provides: Surface, behind a VkSurfaceKHR, and Presenter, the window system's half of one
// swapchain. Private to this directory.
#ifndef SLUICE_ICD_WSI_SURFACE_H_
#define SLUICE_ICD_WSI_SURFACE_H_

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "icd/wsi/clock.h"
#include "icd/wsi/pixels.h"
#include "icd/wsi/wsi.h"

namespace sluice::wsi {

class Swapchain;

struct PresenterOptions {
  VkExtent2D extent = {};  // 1 .. the device's limit
  VkFormat format = VK_FORMAT_UNDEFINED;
  ChannelOrder order = ChannelOrder::kBgra;
  bool opaque = true;  // what the alpha channel holds does not matter
  VkPresentModeKHR mode = VK_PRESENT_MODE_FIFO_KHR;
};

struct Frame {
  const uint8_t* pixels = nullptr;  // of the options' extent and order, rows without gaps
  // What changed since the last frame, within the extent; empty: all.
  std::span<const VkRect2D> damage;
};

// Created by the program's thread, then used by the swapchain's own; Hurry() by any.
class Presenter {
 public:
  virtual ~Presenter() = default;

  // When the next frame is due at the display's pace, if the one before was shown at `last` (0: none was). 0: now, Show
  // itself waits for its turn where it must. `relaxed`: at once if it is late.
  virtual int64_t NextTurn(int64_t last, bool relaxed) = 0;
  // Hands the frame to the window system; `released` is called as soon as its pixels are not needed any more (always,
  // exactly once). VK_SUCCESS, VK_SUBOPTIMAL_KHR (the surface's size is another now), VK_ERROR_SURFACE_LOST_KHR or out
  // of memory; after an error it is not called again.
  virtual VkResult Show(const Frame& frame, const std::function<void()>& released) = 0;
  // From now on Show waits for no turns.
  virtual void Hurry() {}
};

// Extent of a surface whose size the swapchain decides.
inline constexpr uint32_t kAnyExtent = 0xffffffff;

class Surface {
 public:
  virtual ~Surface() = default;

  // The functions below are called from any thread.

  // False: the window has pixels that no swapchain format can be turned into.
  virtual VkResult Supported(bool* supported) { return *supported = true, VK_SUCCESS; }
  // Current size, kAnyExtent twice if the swapchain decides.
  virtual VkResult Extent(VkExtent2D* extent) = 0;
  virtual VkCompositeAlphaFlagsKHR Alpha() = 0;
  // The channel order that needs no conversion.
  virtual ChannelOrder NativeOrder() { return ChannelOrder::kBgra; }
  virtual VkResult NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) = 0;

  // The swapchain that is not retired, if any.
  std::mutex mu;
  Swapchain* active = nullptr;  // guarded by mu
};

inline Surface* SurfaceOf(VkSurfaceKHR surface) {
  return static_cast<Surface*>(static_cast<void*>(surface));
}
inline VkSurfaceKHR SurfaceHandle(Surface* surface) {
  return static_cast<VkSurfaceKHR>(static_cast<void*>(surface));
}

// Channel order of a format that swapchains can have. False: they cannot.
bool OrderOf(VkFormat format, ChannelOrder* order);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_SURFACE_H_
