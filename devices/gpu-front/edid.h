// File: edid.h
//
// The EDID of the display that a scanout pretends to be: one 128-byte base block of EDID 1.4 (VESA E-EDID A2) with the
// wanted resolution as preferred timing at 60 Hz.
//
//   std::array<uint8_t, 128> block = MakeEdid(1280, 800);
#ifndef SLUICE_DEVICES_GPU_FRONT_EDID_H_
#define SLUICE_DEVICES_GPU_FRONT_EDID_H_

#include <array>
#include <cstdint>

namespace sluice::gpu_front {

inline constexpr uint32_t kEdidBytes = 128;
// A detailed timing's active area has 12 bits each way.
inline constexpr uint32_t kMaxEdidSide = 4095;

// `width`, `height` in pixels, clamped to 1..kMaxEdidSide. The bytes sum to 0 modulo 256.
std::array<uint8_t, kEdidBytes> MakeEdid(uint32_t width, uint32_t height);

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_EDID_H_
