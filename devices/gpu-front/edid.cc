#include "devices/gpu-front/edid.h"

#include <algorithm>
#include <cstring>

namespace sluice::gpu_front {
namespace {

// Blanking of a display that has no beam: enough for every parser, with a sync pulse inside.
constexpr uint32_t kHorizontalBlank = 160;
constexpr uint32_t kVerticalBlank = 40;
constexpr uint32_t kRefreshHz = 60;
// 96 dots per inch.
constexpr uint32_t MillimetresFor(uint32_t pixels) {
  return (pixels * 254 + 480) / 960;
}

constexpr uint8_t Low(uint32_t v) {
  return static_cast<uint8_t>(v & 0xff);
}

// 18-byte detailed timing descriptor (E-EDID 3.10.2).
void PutDetailedTiming(uint8_t* d, uint32_t width, uint32_t height) {
  const uint64_t clock = uint64_t{width + kHorizontalBlank} * (height + kVerticalBlank) * kRefreshHz / 10000;  // 10 kHz
  const uint32_t stored = static_cast<uint32_t>(std::min<uint64_t>(clock, 65535));
  const uint32_t mm_x = std::min<uint32_t>(MillimetresFor(width), 4095);
  const uint32_t mm_y = std::min<uint32_t>(MillimetresFor(height), 4095);
  constexpr uint32_t kFrontX = 48, kSyncX = 32, kFrontY = 3, kSyncY = 6;
  d[0] = Low(stored);
  d[1] = Low(stored >> 8);
  d[2] = Low(width);
  d[3] = Low(kHorizontalBlank);
  d[4] = static_cast<uint8_t>(((width >> 8) << 4) | (kHorizontalBlank >> 8));
  d[5] = Low(height);
  d[6] = Low(kVerticalBlank);
  d[7] = static_cast<uint8_t>(((height >> 8) << 4) | (kVerticalBlank >> 8));
  d[8] = kFrontX;
  d[9] = kSyncX;
  d[10] = (kFrontY << 4) | kSyncY;
  d[11] = 0;
  d[12] = Low(mm_x);
  d[13] = Low(mm_y);
  d[14] = static_cast<uint8_t>(((mm_x >> 8) << 4) | (mm_y >> 8));
  d[15] = 0;
  d[16] = 0;
  d[17] = 0x1e;  // digital separate sync, both positive
}

void PutText(uint8_t* d, uint8_t tag, const char* text) {
  std::memset(d, 0, 18);
  d[3] = tag;
  std::memset(d + 5, ' ', 13);
  const size_t n = std::min<size_t>(std::strlen(text), 12);
  std::memcpy(d + 5, text, n);  // NOLINT(bugprone-not-null-terminated-result): EDID text ends in a newline
  d[5 + n] = '\n';
}

// Display range limits (tag 0xfd): 50-75 Hz, 30-160 kHz, no secondary timing formula.
void PutRangeLimits(uint8_t* d, uint32_t width, uint32_t height) {
  std::memset(d, 0, 18);
  d[3] = 0xfd;
  d[5] = 50;
  d[6] = 75;
  d[7] = 30;
  d[8] = 160;
  const uint64_t mhz = uint64_t{width + kHorizontalBlank} * (height + kVerticalBlank) * kRefreshHz / 1000000;
  d[9] = static_cast<uint8_t>(std::min<uint64_t>(mhz / 10 + 1, 255));
  d[10] = 1;  // range limits only
  d[11] = '\n';
  std::memset(d + 12, ' ', 6);
}

}  // namespace

std::array<uint8_t, kEdidBytes> MakeEdid(uint32_t width, uint32_t height) {
  width = std::clamp<uint32_t>(width, 1, kMaxEdidSide);
  height = std::clamp<uint32_t>(height, 1, kMaxEdidSide);
  std::array<uint8_t, kEdidBytes> e{};
  constexpr uint8_t kMagic[8] = {0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00};
  std::memcpy(e.data(), kMagic, sizeof(kMagic));
  // Manufacturer "SLU": three letters of 5 bits, big-endian.
  constexpr uint32_t kMaker = (('S' - 'A' + 1) << 10) | (('L' - 'A' + 1) << 5) | ('U' - 'A' + 1);
  e[8] = Low(kMaker >> 8);
  e[9] = Low(kMaker);
  e[10] = 1;     // product code
  e[12] = 1;     // serial number
  e[16] = 0xff;  // the year is the model year
  e[17] = 34;    // 1990 + 34
  e[18] = 1;
  e[19] = 4;
  e[20] = 0xa5;  // digital, 8 bits per colour, DisplayPort
  e[21] = static_cast<uint8_t>(std::min<uint32_t>(MillimetresFor(width) / 10 + 1, 255));
  e[22] = static_cast<uint8_t>(std::min<uint32_t>(MillimetresFor(height) / 10 + 1, 255));
  e[23] = 120;   // gamma 2.2
  e[24] = 0x06;  // sRGB, preferred timing is native
  constexpr uint8_t kSrgb[10] = {0xee, 0x91, 0xa3, 0x54, 0x4c, 0x99, 0x26, 0x0f, 0x50, 0x54};
  std::memcpy(&e[25], kSrgb, sizeof(kSrgb));
  // No established timings; unused standard timings are 01 01.
  std::memset(&e[38], 0x01, 16);
  PutDetailedTiming(&e[54], width, height);
  PutText(&e[72], 0xfc, "Sluice");
  PutRangeLimits(&e[90], width, height);
  PutText(&e[108], 0xff, "0001");
  e[126] = 0;  // no extension blocks
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 127; ++i) sum += e[i];
  e[127] = static_cast<uint8_t>((256 - (sum & 0xff)) & 0xff);
  return e;
}

}  // namespace sluice::gpu_front
