// File: random.h
//
// A seeded generator (xoshiro256**, Blackman and Vigna), the same sequence on every machine.
//
//   Random random(seed);
//   uint32_t die = random.Below(6) + 1;
#ifndef SLUICE_FIRMWARE_LIB_RANDOM_H_
#define SLUICE_FIRMWARE_LIB_RANDOM_H_

#include <stddef.h>
#include <stdint.h>

namespace sluice::firmware {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {  // SplitMix64: no seed gives the all-zero state
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }
  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }
  // 0 .. n-1, n > 0.
  uint64_t Below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64); }
  // True once in n.
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  void Fill(void* to, size_t bytes) {
    auto* p = static_cast<uint8_t*>(to);
    while (bytes > 0) {
      uint64_t word = Next();
      for (int i = 0; i < 8 && bytes > 0; i++, bytes--, word >>= 8) *p++ = static_cast<uint8_t>(word);
    }
  }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_RANDOM_H_
