#include "devices/gpu-front/scanout.h"

#include "vmm/base/checked.h"

namespace sluice::gpu_front {
namespace {

// Whether two rectangles share a pixel. Sums are taken in 64 bits.
bool Intersect(const Rect& a, const Rect& b) {
  const auto overlap = [](uint64_t a0, uint64_t an, uint64_t b0, uint64_t bn) { return a0 < b0 + bn && b0 < a0 + an; };
  return overlap(a.x, a.width, b.x, b.width) && overlap(a.y, a.height, b.y, b.height);
}

}  // namespace

bool RectFits(const Rect& inner, uint32_t width, uint32_t height) {
  return inner.width > 0 && inner.height > 0 && RangeFits(inner.x, inner.width, width) &&
         RangeFits(inner.y, inner.height, height);
}

void Scanouts::Forget(uint32_t resource_id) {
  for (Entry& entry : entries_) {
    if (entry.binding.has_value() && entry.binding->resource_id == resource_id) entry.binding.reset();
  }
  if (cursor_.resource_id == resource_id) cursor_.resource_id = 0;
}

bool Scanouts::Shows(uint32_t resource_id) const {
  for (const Entry& entry : entries_) {
    if (entry.binding.has_value() && entry.binding->resource_id == resource_id) return true;
  }
  return false;
}

uint32_t Scanouts::Flush(uint32_t resource_id, const Rect& rect) {
  uint32_t shown = 0;
  for (Entry& entry : entries_) {
    if (!entry.binding.has_value() || entry.binding->resource_id != resource_id) continue;
    if (!Intersect(entry.binding->rect, rect)) continue;
    ++entry.frames;
    ++shown;
  }
  return shown;
}

void Scanouts::Reset() {
  for (Entry& entry : entries_) entry.binding.reset();
  cursor_ = {};
}

}  // namespace sluice::gpu_front
