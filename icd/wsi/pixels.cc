#include "icd/wsi/pixels.h"

#include <cstring>

namespace sluice::wsi {
namespace {

template <bool kSwap, bool kOpaque>
void Convert(const uint8_t* from, uint8_t* to, size_t pixels) {
  for (size_t i = 0; i < pixels; i++) {
    uint32_t pixel;  // x86: the first byte is the lowest
    memcpy(&pixel, from + i * 4, 4);
    if constexpr (kSwap) pixel = (pixel & 0xff00ff00) | ((pixel & 0xff) << 16) | ((pixel >> 16) & 0xff);
    if constexpr (kOpaque) pixel |= 0xff000000;
    memcpy(to + i * 4, &pixel, 4);
  }
}

}  // namespace

void ConvertPixels(const uint8_t* from, uint8_t* to, uint32_t width, uint32_t height, PixelConversion conversion) {
  const size_t pixels = size_t{width} * height;
  if (conversion.swap_red_blue) {
    conversion.force_opaque ? Convert<true, true>(from, to, pixels) : Convert<true, false>(from, to, pixels);
  } else if (conversion.force_opaque) {
    Convert<false, true>(from, to, pixels);
  } else {
    memcpy(to, from, pixels * 4);
  }
}

}  // namespace sluice::wsi
