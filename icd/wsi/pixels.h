// File: pixels.h
//
// Frames as window systems want them: 32 bits a pixel, in one of two channel orders.
#ifndef SLUICE_ICD_WSI_PIXELS_H_
#define SLUICE_ICD_WSI_PIXELS_H_

#include <cstddef>
#include <cstdint>

namespace sluice::wsi {

// Bytes in memory, lowest address first.
enum class ChannelOrder : uint8_t { kBgra, kRgba };

struct PixelConversion {
  bool swap_red_blue = false;
  bool force_opaque = false;  // alpha becomes 255
};

// Copies `height` rows of `width` pixels without gaps. The ranges do not overlap.
void ConvertPixels(const uint8_t* from, uint8_t* to, uint32_t width, uint32_t height, PixelConversion conversion);

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_PIXELS_H_
