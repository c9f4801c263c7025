// File: scanout.h
//
// What the guest shows: which resource each scanout displays, and the hardware cursor. The device has no screen. A
// picture leaves it as a ScanoutImage, a copy of the pixels in a sealed memfd that the supervisor turns into a PNG.
//
//   SLUICE_ASSIGN_OR_RETURN(ScanoutImage image, device->SnapshotScanout(0));
//   if (image.width > 0) Send(image.memfd.get(), image.width, image.height, image.stride, image.format);
#ifndef SLUICE_DEVICES_GPU_FRONT_SCANOUT_H_
#define SLUICE_DEVICES_GPU_FRONT_SCANOUT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "devices/gpu-front/protocol.h"
#include "vmm/base/unique_fd.h"

namespace sluice::gpu_front {

// A picture at one moment. Rows are tightly packed.
struct ScanoutImage {
  uint32_t width = 0;   // pixels; 0: nothing is shown, no memfd
  uint32_t height = 0;  // pixels
  uint32_t stride = 0;  // bytes per row
  uint32_t format = 0;  // Format
  uint64_t frames = 0;  // flushes of this scanout so far
  UniqueFd memfd;       // height * stride bytes from offset 0, rounded up to pages
};

// One scanout's binding, set by SET_SCANOUT and SET_SCANOUT_BLOB.
struct ScanoutBinding {
  uint32_t resource_id = 0;
  Rect rect{};         // part of the picture that is shown
  uint32_t width = 0;  // of the whole picture, pixels
  uint32_t height = 0;
  uint32_t format = 0;
  uint32_t stride = 0;  // bytes
  uint64_t offset = 0;  // of the picture in the resource, bytes
};

// The hardware cursor as last set on the cursor queue.
struct CursorState {
  uint32_t scanout_id = 0;
  uint32_t x = 0, y = 0;
  uint32_t hot_x = 0, hot_y = 0;
  uint32_t resource_id = 0;  // 0: hidden
};

// Bookkeeping only; not thread-safe (owned by the device's loop thread).
class Scanouts {
 public:
  explicit Scanouts(uint32_t count) : count_(count) {}

  uint32_t count() const { return count_; }
  const std::optional<ScanoutBinding>& binding(uint32_t scanout) const { return entries_[scanout].binding; }
  uint64_t frames(uint32_t scanout) const { return entries_[scanout].frames; }
  CursorState& cursor() { return cursor_; }
  const CursorState& cursor() const { return cursor_; }

  void Bind(uint32_t scanout, const ScanoutBinding& binding) { entries_[scanout].binding = binding; }
  void Disable(uint32_t scanout) { entries_[scanout].binding.reset(); }
  // The resource is going: every scanout and the cursor let go of it.
  void Forget(uint32_t resource_id);
  // True if a scanout shows the resource.
  bool Shows(uint32_t resource_id) const;
  // Counts one frame for each scanout that shows a pixel of `rect` of the resource. Returns how many did.
  uint32_t Flush(uint32_t resource_id, const Rect& rect);
  // All scanouts off, cursor hidden, as after reset. Frame counts stay.
  void Reset();

 private:
  struct Entry {
    std::optional<ScanoutBinding> binding;
    uint64_t frames = 0;
  };
  uint32_t count_;
  std::array<Entry, kMaxScanouts> entries_;
  CursorState cursor_;
};

// True if `inner` lies within a `width` x `height` picture, without any sum that wraps. Empty rectangles do not.
bool RectFits(const Rect& inner, uint32_t width, uint32_t height);

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_SCANOUT_H_
